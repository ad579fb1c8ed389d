"""Chooses thresholds on held-out train claims and reports figures.

    python evaluate.py tune   RATIONALE_BUNDLE LABEL_BUNDLE   # held-out part of SciFact train
    python evaluate.py report RATIONALE_BUNDLE LABEL_BUNDLE   # SciFact dev, for reporting only

Both write what they find into the two bundle.json files.
"""
import argparse
import json
import random

import numpy as np

import data
from bundle import Bundle, softmax

K = 3       # abstracts a claim, open retrieval
CAP = 3     # sentences that count towards abstract label+rationale


class Pipeline:
    """Sentence scores and labels for the abstracts of some claims; logits are computed once."""

    def __init__(self, rationale, label, claims, docs):
        self.rationale, self.label, self.claims, self.docs = rationale, label, claims, docs
        self.gold = {c["id"]: data.gold_of(c) for c in claims}
        tops = data.Retriever(docs).top([c["claim"] for c in claims], K)
        self.open = [(c["id"], d) for c, top in zip(claims, tops) for d in top]
        self.oracle = [(c["id"], d) for c in claims for d in (list(self.gold[c["id"]]) or c["cited_doc_ids"][:1])]
        self.text = {c["id"]: c["claim"] for c in claims}
        jobs = list(dict.fromkeys(self.open + self.oracle))
        pairs = [(s, self.text[c]) for c, d in jobs for s in docs[d]["abstract"]]
        logits = iter(rationale.logits(pairs))
        self.sentence_logits = {(c, d): np.array([next(logits) for _ in docs[d]["abstract"]]) for c, d in jobs}
        self.label_logits = {}

    def select(self, threshold):
        """{(claim, document): sentences with a score of at least threshold, best first}."""
        out = {}
        for job, logits in self.sentence_logits.items():
            scores = softmax(logits / self.rationale.meta["temperature"])[:, 1]
            out[job] = [i for i in np.argsort(-scores, kind="stable").tolist() if scores[i] >= threshold]
        return out

    def labels(self, selection):
        """{(claim, document): probabilities of the label} where something is selected."""
        keys = {job: (job, tuple(sorted(picks))) for job, picks in selection.items() if picks}
        new = [k for k in keys.values() if k not in self.label_logits]
        pairs = [(" ".join(self.docs[d]["abstract"][i] for i in picks), self.text[c]) for (c, d), picks in new]
        if new:
            self.label_logits.update(zip(new, self.label.logits(pairs)))
        temperature = self.label.meta["temperature"]
        return {job: softmax(self.label_logits[key] / temperature) for job, key in keys.items()}

    def predict(self, jobs, selection, threshold):
        """{claim: {document: (class, sentences)}} without NEI."""
        probabilities, out = self.labels(selection), {c["id"]: {} for c in self.claims}
        for claim, doc in jobs:
            if not selection[claim, doc]:
                continue
            p = probabilities[claim, doc]
            best = int(p.argmax())
            if best != data.NEI and p[best] >= threshold:
                out[claim][doc] = (best, selection[claim, doc])
        return out

    def score(self, predictions):
        """F1 in per cent by the four measures of the SciFact paper; omitted claims lower recall."""
        hits = dict(sentence_selection=0, sentence_label=0, abstract_label=0, abstract_rationale=0)
        sentences = abstracts = gold_sentences = gold_abstracts = 0
        for claim, gold in self.gold.items():
            gold_abstracts += len(gold)
            gold_sentences += sum(len({i for s in sets for i in s}) for _, sets in gold.values())
            for doc, (label, picks) in predictions.get(claim, {}).items():
                abstracts += 1
                sentences += len(picks)
                if doc not in gold:
                    continue
                right = label == gold[doc][0]
                sets = [set(s) for s in gold[doc][1]]
                hits["abstract_label"] += right
                hits["abstract_rationale"] += right and any(s <= set(picks[:CAP]) for s in sets)
                found = len({i for s in sets if s <= set(picks) for i in s})
                hits["sentence_selection"] += found
                hits["sentence_label"] += found * right
        f1 = lambda hit, got, gold: round(200 * hit / max(1, got + gold), 1)
        return {name: f1(n, *((sentences, gold_sentences) if name.startswith("sentence") else (abstracts, gold_abstracts)))
                for name, n in hits.items()}

    def selection_f1(self, selection):
        """Rationale selection alone, in the oracle abstracts, those of NEI claims included."""
        hit = got = want = 0
        for claim, doc in self.oracle:
            picks = set(selection[claim, doc])
            got += len(picks)
            if doc in self.gold[claim]:
                sets = [set(s) for s in self.gold[claim][doc][1]]
                want += len({i for s in sets for i in s})
                hit += len({i for s in sets if s <= picks for i in s})
        return round(200 * hit / max(1, got + want), 1)

    def oracle_rationales(self):
        """Gold sentences; in abstracts without evidence the two most like the claim."""
        ranker = data.SentenceRanker(self.docs)
        out = {}
        for claim, doc in self.oracle:
            if doc in self.gold[claim]:
                out[claim, doc] = sorted({i for s in self.gold[claim][doc][1] for i in s})
            else:
                out[claim, doc] = ranker.rank(self.text[claim], doc)[:2]
        return out

    def label_accuracy(self):
        """(accuracy, macro F1) in per cent with oracle rationales."""
        got = {job: int(p.argmax()) for job, p in self.labels(self.oracle_rationales()).items()}
        want = {(c, d): self.gold[c][d][0] if d in self.gold[c] else data.NEI for c, d in self.oracle}
        f1 = []
        for k in range(3):
            both = sum(got[j] == k and want[j] == k for j in want)
            f1.append(2 * both / max(1, sum(v == k for v in got.values()) + sum(v == k for v in want.values())))
        return (round(100 * np.mean([got[j] == want[j] for j in want]), 1), round(100 * np.mean(f1), 1))

    def figures(self):
        t_sentence, t_label = self.rationale.meta["threshold"], self.label.meta["threshold"]
        selection = self.select(t_sentence)
        accuracy, macro = self.label_accuracy()
        return dict(
            claims=len(self.claims),
            oracle=self.score(self.predict(self.oracle, selection, t_label)),
            open=self.score(self.predict(self.open, selection, t_label)),
            rationale_selection_f1=self.selection_f1(selection), label_accuracy=accuracy, label_macro_f1=macro)


def temperature(logits, classes):
    """The temperature of least negative log likelihood."""
    loss = lambda t: -np.log(softmax(logits / t)[np.arange(len(classes)), classes] + 1e-9).mean()
    return float(min(np.round(np.arange(0.5, 4.01, 0.05), 2), key=loss))


def tune(pipe):
    sentences = [(row, int(any(i in s for s in pipe.gold[c].get(d, (0, []))[1])))
                 for c, d in pipe.open for i, row in enumerate(pipe.sentence_logits[c, d])]
    pipe.rationale.update(temperature=temperature(np.array([x for x, _ in sentences]), np.array([y for _, y in sentences])))

    def job_class(claim, doc):
        return pipe.gold[claim][doc][0] if doc in pipe.gold[claim] else data.NEI

    # The label model is calibrated on what it will see: selected sentences of retrieved abstracts.
    selection = pipe.select(0.3)
    pipe.labels(selection)
    seen = [(pipe.label_logits[job, tuple(sorted(selection[job]))], job_class(*job)) for job in pipe.open if selection[job]]
    pipe.label.update(temperature=temperature(np.array([x for x, _ in seen]), np.array([y for _, y in seen])))

    best = None
    for t_sentence in np.round(np.arange(0.1, 0.91, 0.05), 2).tolist():
        selection = pipe.select(t_sentence)
        for t_label in np.round(np.arange(0.0, 0.96, 0.05), 2).tolist():
            both = [pipe.score(pipe.predict(jobs, selection, t_label)) for jobs in (pipe.open, pipe.oracle)]
            value = sum(s["sentence_label"] + s["abstract_rationale"] for s in both)
            if best is None or value > best[0]:
                best = (value, t_sentence, t_label)
    pipe.rationale.update(threshold=best[1])
    pipe.label.update(threshold=best[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["tune", "report"])
    parser.add_argument("rationale")
    parser.add_argument("label")
    parser.add_argument("--seed", type=int, default=13, help="the seed that the models were trained with")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    rationale, label = Bundle(args.rationale, args.threads), Bundle(args.label, args.threads)
    if args.action == "tune":
        name, claims = "held_out", data.split_train(random.Random(args.seed))[1]
    else:
        name, claims = "dev", data.scifact_claims("dev")
    pipe = Pipeline(rationale, label, claims, data.scifact_corpus())
    if args.action == "tune":
        tune(pipe)
    figures = pipe.figures()
    for bundle in (rationale, label):
        bundle.update(figures={name: figures})
        print(bundle.meta["name"], "threshold", bundle.meta["threshold"], "temperature", bundle.meta["temperature"])
    print(name, json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()

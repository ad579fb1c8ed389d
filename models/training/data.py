"""Training and evaluation data: readers, splits and example builders.

Everything is read from the folder named by the environment variable
VERISCI_DATA. An example is a tuple (segment A, segment B, class number).
All sampling is driven by the random.Random that the caller passes in.
"""
import csv
import json
import os
import re
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from negation import negate, statements

LABELS = ["CONTRADICT", "NOT_ENOUGH_INFO", "SUPPORT"]
CONTRADICT, NEI, SUPPORT = range(3)
HELD_OUT = 0.15  # share of the SciFact train claims kept for choosing thresholds


def root():
    folder = os.environ.get("VERISCI_DATA")
    if not folder:
        raise SystemExit("set VERISCI_DATA to the folder with scifact, check_covid, ...")
    return Path(folder)


def read_jsonl(*parts):
    with open(root().joinpath(*parts), encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.strip()]


# ---------------------------------------------------------------- SciFact

def scifact_corpus():
    """Documents by id, their sentences stripped of surrounding white space."""
    docs = {}
    for doc in read_jsonl("scifact", "corpus.jsonl"):
        doc["abstract"] = [s.strip() for s in doc["abstract"]]
        docs[doc["doc_id"]] = doc
    return docs


def scifact_claims(split):
    return read_jsonl("scifact", f"claims_{split}.jsonl")


def gold_of(claim):
    """{doc_id: (class number, [gold sentence sets])} of one claim."""
    return {
        int(doc): (LABELS.index(sets[0]["label"]), [sorted(s["sentences"]) for s in sets])
        for doc, sets in claim["evidence"].items()
    }


def split_train(rng):
    """SciFact train as (training claims, held-out claims).

    Claims that cite a common document (a claim and its negation mostly) stay
    on the same side. The published cross-validation folds are not used: they
    pool train with dev.
    """
    claims = scifact_claims("train")
    parent = {}

    def find(x):
        while parent.setdefault(x, x) != x:
            x = parent[x]
        return x

    for c in claims:
        for d in c["cited_doc_ids"]:
            parent[find(("doc", d))] = find(("claim", c["id"]))
    groups = {}
    for c in claims:
        groups.setdefault(find(("claim", c["id"])), []).append(c)
    order = list(groups.values())
    rng.shuffle(order)
    held = set()
    for group in order:
        if len(held) >= HELD_OUT * len(claims):
            break
        held.update(c["id"] for c in group)
    return ([c for c in claims if c["id"] not in held], [c for c in claims if c["id"] in held])


class Retriever:
    """Reference TF-IDF retrieval: unigrams and bigrams, title fused with the abstract."""

    def __init__(self, docs):
        self.ids = np.array(list(docs))
        self.vectorizer = TfidfVectorizer(stop_words="english", ngram_range=(1, 2))
        self.matrix = self.vectorizer.fit_transform(
            d["title"] + " ".join(d["abstract"]) for d in docs.values())

    def top(self, texts, k):
        """The k best document ids of each text, ties by corpus order."""
        scores = (self.vectorizer.transform(texts) @ self.matrix.T).toarray()
        return [self.ids[np.argsort(-row, kind="stable")[:k]].tolist() for row in scores]


class SentenceRanker:
    """Orders the sentences of an abstract by unigram TF-IDF similarity to a claim."""

    def __init__(self, docs):
        self.docs = docs
        self.vectorizer = TfidfVectorizer(stop_words="english")
        self.vectorizer.fit(s for d in docs.values() for s in d["abstract"])
        self.cache = {}

    def rank(self, claim, doc_id):
        if doc_id not in self.cache:
            self.cache[doc_id] = self.vectorizer.transform(self.docs[doc_id]["abstract"])
        scores = (self.cache[doc_id] @ self.vectorizer.transform([claim]).T).toarray()[:, 0]
        return np.argsort(-scores, kind="stable").tolist()


# ------------------------------------------------------- other collections

def check_covid():
    """Check-COVID train: (claim, sentences, class, evidence sentence numbers)."""
    docs = {d["cord_id"]: d for d in read_jsonl("check_covid", "corpus.json")}
    classes = {"SUPPORT": SUPPORT, "REFUTE": CONTRADICT, "NOTENOUGHINFO": NEI}
    rows = []
    for r in read_jsonl("check_covid", "train", "covidCheck_train_composed+extracted.json"):
        sentences = [s.strip() for s in docs[r["cord_id"]]["abstract"]]
        picks = sorted({e["sent_index"] for e in r["evidence_set"]})
        picks = [i for i in picks if 0 <= i < len(sentences)]
        rows.append((r["claim"].strip(), sentences, classes[r["label"]], picks))
    return rows


def citation_integrity():
    """Citation-Integrity train: (claim, sentences, class, evidence sentence numbers)."""
    docs = {d["doc_id"]: d for d in read_jsonl("citation_integrity", "scifact_format", "corpus.jsonl")}
    classes = {"SUPPORT": SUPPORT, "REFUTE": CONTRADICT, "CONTRADICT": CONTRADICT}
    marker = re.compile(r"\[?[\w,]*<\|[^>]*\|>[^\]\s]*\]?")
    rows = []
    for c in read_jsonl("citation_integrity", "scifact_format", "claims_train.jsonl"):
        claim = " ".join(marker.sub(" ", c["claim"]).split()[:80])  # a few are whole paragraphs
        for doc in c["cited_doc_ids"]:
            sentences = [s.strip() for s in docs[doc]["abstract"]]
            sets = c["evidence"].get(str(doc))
            if sets:
                picks = sorted({i for s in sets for i in s["sentences"]})
                rows.append((claim, sentences, classes[sets[0]["label"]], picks))
            else:
                rows.append((claim, sentences, NEI, []))
    return rows


TREEBANK = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "``": '"', "''": '"'}


def detokenize(text):
    """Undo Treebank tokenisation well enough for a WordPiece vocabulary."""
    text = " ".join(TREEBANK.get(w, w) for w in text.split())
    return re.sub(r" ([.,;:!?%)\]])", r"\1", text)


def snli():
    classes = {"entailment": SUPPORT, "neutral": NEI, "contradiction": CONTRADICT}
    rows = []
    for part in ("dev", "test"):
        columns = [root().joinpath("snli_devtest", f"{name}.{part}").read_text().splitlines()
                   for name in ("s1", "s2", "labels")]
        rows += [(detokenize(p), detokenize(h), classes[l]) for p, h, l in zip(*columns) if l in classes]
    return rows


def fever():
    """FEVER pairs (evidence, claim, class) of the two-class and the symmetric sets."""
    classes = {"SUPPORTS": SUPPORT, "REFUTES": CONTRADICT}
    rows = []
    path = root() / "fever_2class" / "fever_dev_evidence_claim_label.tsv"
    with open(path, encoding="utf-8", newline="") as f:
        for evidence, claim, label in csv.reader(f, delimiter="\t", quoting=csv.QUOTE_NONE):
            if label in classes:
                rows.append((detokenize(evidence), detokenize(claim), classes[label]))
    for part in ("dev", "test"):
        for r in read_jsonl("fever_symmetric", f"symmetric_v0.2_fever_symmetric_{part}.jsonl"):
            rows.append((detokenize(r["evidence"]), detokenize(r["claim"]), classes[r["label"]]))
    return rows


# ---------------------------------------------------------------- examples

class SciFactExamples:
    """Builds the examples of one epoch from SciFact claims."""

    def __init__(self, claims, docs, depth=10):
        self.claims, self.docs = claims, docs
        self.ranker = SentenceRanker(docs)
        self.retrieved = Retriever(docs).top([c["claim"] for c in claims], depth)

    def negatives(self, claim, retrieved, rng, n):
        """Up to n retrieved documents that the claim does not cite."""
        known = set(claim["cited_doc_ids"]) | set(gold_of(claim))
        pool = [d for d in retrieved if d not in known]
        return rng.sample(pool, min(n, len(pool)))

    def rationale(self, rng, negatives=2, sentences=3, keep=0.5):
        """(sentence, claim, 1 if the sentence belongs to a gold set).

        Other sentences of cited abstracts are kept with probability `keep`;
        from each retrieved abstract come the best match and random others.
        """
        out = []
        for c, retrieved in zip(self.claims, self.retrieved):
            gold = gold_of(c)
            for d in sorted(set(c["cited_doc_ids"]) | set(gold)):
                picks = {i for s in gold[d][1] for i in s} if d in gold else set()
                out += [(s, c["claim"], int(i in picks)) for i, s in enumerate(self.docs[d]["abstract"])
                        if i in picks or rng.random() < keep]
            for d in self.negatives(c, retrieved, rng, negatives):
                order = self.ranker.rank(c["claim"], d)
                chosen, rest = order[:sentences // 2], order[sentences // 2:]
                chosen = chosen + rng.sample(rest, min(sentences - len(chosen), len(rest)))
                out += [(self.docs[d]["abstract"][i], c["claim"], 0) for i in chosen]
        return out

    def label(self, rng, negatives=2):
        """(rationale sentences joined, claim, class)."""
        out = []
        for c, retrieved in zip(self.claims, self.retrieved):
            gold = gold_of(c)
            for d, (label, sets) in gold.items():
                union = {i for s in sets for i in s}
                out.append((self.join(d, union), c["claim"], label))
                one = set(rng.choice(sets))
                if rng.random() < 0.5:  # a selector also picks sentences that are no evidence
                    one.add(rng.choice(self.ranker.rank(c["claim"], d)[:4]))
                if one != union:
                    out.append((self.join(d, one), c["claim"], label))
            others = [d for d in c["cited_doc_ids"] if d not in gold]
            for d in others + self.negatives(c, retrieved, rng, negatives):
                top = self.ranker.rank(c["claim"], d)[:rng.randint(1, 3)]
                out.append((self.join(d, top), c["claim"], NEI))
        return out

    def negated(self, rng, share):
        """A share of the training claims turned round, and their labels where they are not NOT_ENOUGH_INFO."""
        out = []
        for a, claim, label in self.label(rng):
            opposite = negate(claim, rng) if rng.random() < share else None
            if opposite:
                out.append((a, opposite, {SUPPORT: CONTRADICT, CONTRADICT: SUPPORT}.get(label, label)))
        return out

    def statements(self, rng):
        """Training claims, here and of the other collections, set against themselves and their negations."""
        texts = [c["claim"] for c in self.claims] + [claim for claim, *_ in check_covid() + citation_integrity()]
        return [(a, b, LABELS.index(label)) for text in dict.fromkeys(texts) if len(text.split()) <= 40
                for a, b, label in statements(text, rng)]

    def join(self, doc_id, picks):
        return " ".join(self.docs[doc_id]["abstract"][i] for i in sorted(picks))


def nli_examples(rng, unrelated=4000):
    """SNLI and FEVER; claims paired with the evidence of others serve as NEI."""
    pairs = fever()
    mixed = [(rng.choice(pairs)[0], claim, NEI) for _, claim, _ in rng.sample(pairs, unrelated)]
    return snli() + pairs + mixed


def other_rationale_examples(rng, keep=0.3):
    """Check-COVID sentences; abstracts judged NEI are left out, their marked sentences are context."""
    return [(s, claim, int(i in picks))
            for claim, sentences, label, picks in check_covid() if label != NEI
            for i, s in enumerate(sentences) if i in picks or rng.random() < keep]


def other_label_examples(rng):
    """Check-COVID and Citation-Integrity; without evidence, up to three random sentences."""
    out = []
    for claim, sentences, label, picks in check_covid() + citation_integrity():
        if not picks:
            picks = sorted(rng.sample(range(len(sentences)), min(rng.randint(1, 3), len(sentences))))
        out.append((" ".join(sentences[i] for i in picks), claim, label))
    return out

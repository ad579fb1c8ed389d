"""Writes crosscheck.jsonl: random claims and predictions with the metrics that
a second, separate computation gives them. It works with sets of (claim,
document, sentence) rather than with counts, and shares no code with the Go one.

    python3 crosscheck.py > crosscheck.jsonl
    python3 crosscheck.py claims.jsonl SEED   # one case over a claims file
"""
import json
import random
import sys
from fractions import Fraction


def prf(right, predicted, wanted):
    assert right <= predicted and right <= wanted
    p = Fraction(len(right), len(predicted)) if predicted else Fraction(0)
    r = Fraction(len(right), len(wanted)) if wanted else Fraction(0)
    f = 2 * p * r / (p + r) if p + r else Fraction(0)
    return {"p": float(100 * p), "r": float(100 * r), "f1": float(100 * f)}


def metrics(claims, predictions):
    gold = {(c["id"], d): sets for c in claims for d, sets in c["evidence"].items()}
    said = {(p["id"], d): v for p in predictions for d, v in p["evidence"].items()
            if v["label"] != "NOT_ENOUGH_INFO"}
    want_sent = {(*k, s) for k, sets in gold.items() for one in sets for s in one["sentences"]}
    said_sent = {(*k, s) for k, v in said.items() for s in v["sentences"]}
    whole = {(*k, s) for k, sets in gold.items() for one in sets
             if {(*k, x) for x in one["sentences"]} <= said_sent for s in one["sentences"]}
    label_ok = {k for k in gold if k in said and said[k]["label"] == gold[k][0]["label"]}
    cover_ok = {k for k in label_ok
                if any(set(one["sentences"]) <= set(said[k]["sentences"][:3]) for one in gold[k])}
    return {
        "sentence_selection": prf(whole, said_sent, want_sent),
        "sentence_label": prf({x for x in whole if x[:2] in label_ok}, said_sent, want_sent),
        "abstract_label": prf(label_ok, set(said), set(gold)),
        "abstract_rationale": prf(cover_ok, set(said), set(gold)),
    }


def random_claim(rng, i):
    docs = rng.sample(range(1, 40), rng.choice([0, 1, 1, 2, 3]))
    evidence = {}
    for d in docs:
        label = rng.choice(["SUPPORT", "CONTRADICT"])
        evidence[str(d)] = [{"sentences": rng.sample(range(8), rng.choice([1, 1, 2, 3, 4])), "label": label}
                            for _ in range(rng.choice([1, 1, 2, 3]))]
    return {"id": i, "claim": f"claim {i}", "evidence": evidence, "cited_doc_ids": docs}


def random_prediction(rng, claim):
    evidence = {}
    for d, sets in claim["evidence"].items():
        if rng.random() < 0.8:
            near = [s for one in sets for s in one["sentences"] if rng.random() < 0.8]
            sentences = list(dict.fromkeys(near + rng.sample(range(8), rng.choice([0, 0, 1, 2]))))
            if rng.random() < 0.3:
                rng.shuffle(sentences)
            label = sets[0]["label"] if rng.random() < 0.7 else rng.choice(["SUPPORT", "CONTRADICT", "NOT_ENOUGH_INFO"])
            evidence[d] = {"sentences": sentences, "label": label}
    while rng.random() < 0.3:
        evidence[str(rng.randrange(40, 60))] = {"sentences": rng.sample(range(8), rng.randrange(1, 4)),
                                                "label": rng.choice(["SUPPORT", "CONTRADICT"])}
    return {"id": claim["id"], "evidence": evidence}


def case(rng, claims):
    predictions = [random_prediction(rng, c) for c in claims if rng.random() < 0.9]
    rng.shuffle(predictions)
    return {"claims": claims, "predictions": predictions, "want": metrics(claims, predictions)}


if len(sys.argv) == 3:
    with open(sys.argv[1]) as f:
        print(json.dumps(case(random.Random(int(sys.argv[2])), [json.loads(line) for line in f])))
else:
    rng = random.Random(20)
    for _ in range(80):
        print(json.dumps(case(rng, [random_claim(rng, i) for i in range(rng.randrange(1, 6))])))

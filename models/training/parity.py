"""Writes the logits that another runtime must reproduce: testdata/parity.json.

    python parity.py ../bundles ../testdata/parity.json

Pairs are drawn from SciFact train and stored as numbers only (claim, document,
sentences), since the text is not part of this repository. Sentences are
stripped and joined with one blank; each pair runs alone.
"""
import json
import random
import sys
from pathlib import Path

import onnxruntime

import data
from bundle import Bundle

SEED, PAIRS = 7, 200


def draw(rng, claims, docs, most):
    """PAIRS rows (claim, document, sentences): half of cited, half of random documents."""
    ids, rows = sorted(docs), []
    while len(rows) < PAIRS:
        claim = rng.choice(claims)
        doc = rng.choice(claim["cited_doc_ids"]) if len(rows) % 2 else rng.choice(ids)
        n = min(rng.randint(1, most), len(docs[doc]["abstract"]))
        rows.append((claim["id"], doc, sorted(rng.sample(range(len(docs[doc]["abstract"])), n))))
    return rows


def main():
    bundles, target = Path(sys.argv[1]), Path(sys.argv[2])
    docs, claims = data.scifact_corpus(), data.scifact_claims("train")
    text = {c["id"]: c["claim"] for c in claims}
    result = dict(seed=SEED, source="SciFact train claims and corpus", onnxruntime=onnxruntime.__version__)
    # Up to 40 sentences a rationale, so that some pairs are cut at the greatest length.
    for task, most in (("rationale", 1), ("label", 40)):
        bundle = Bundle(bundles / task, threads=1)
        rows = draw(random.Random(f"{SEED} {task}"), claims, docs, most)
        pairs = [(" ".join(docs[d]["abstract"][i] for i in picks), text[c]) for c, d, picks in rows]
        result[task] = dict(
            sha256=bundle.meta["sha256"]["model.onnx"],
            pairs=[dict(claim_id=c, doc_id=d, sentences=picks, logits=[round(float(x), 6) for x in row])
                   for (c, d, picks), row in zip(rows, bundle.logits(pairs, budget=0))])
    lines = json.dumps(result).replace('{"claim_id"', '\n{"claim_id"')
    target.write_text(lines + "\n")


if __name__ == "__main__":
    main()

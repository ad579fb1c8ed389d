"""Writes tiny-roberta/logits.json: what transformers and PyTorch make of a few pairs.

    python ../export/tiny_roberta.py CHECKPOINT --labels 3
    python ../export/export_hf.py CHECKPOINT tiny-roberta --name tiny-roberta --task label --pair claim rationale \
        --labels SUPPORT NOT_ENOUGH_INFO CONTRADICT --licence Apache-2.0 --base "random weights" --max-length 64
    python tiny_roberta_logits.py CHECKPOINT tiny-roberta/logits.json

The claim is the first segment here and the second is cut, the other way round than in the shipped bundles.
"""
import json
import sys

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

PAIRS = [
    ("Vitamin D reduces falls.", "Vitamin D supplementation reduced the risk of falls in older adults (RR 0.81)."),
    ("Naïve β-cells don't divide 🧬", "We found no difference <mask> in\tmortality…  between </s> groups."),
    ("A claim.", "Mice lacking the gene were resistant to obesity. " * 12),
    ("", "Text beside an empty claim."),
]

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = AutoModelForSequenceClassification.from_pretrained(sys.argv[1]).eval()
rows = []
for claim, text in PAIRS:
    batch = tokenizer(claim, text, truncation="only_second", max_length=64, return_tensors="pt")
    with torch.no_grad():
        logits = model(**batch).logits[0]
    rows.append(dict(claim=claim, text=text, ids=batch["input_ids"][0].tolist(), logits=[round(float(x), 6) for x in logits]))
with open(sys.argv[2], "w", encoding="utf-8") as f:
    f.write("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]\n")

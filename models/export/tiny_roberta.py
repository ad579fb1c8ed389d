"""Makes a tiny RoBERTa checkpoint with random weights, to test export_hf.py with.

    python tiny_roberta.py FOLDER [--labels 3]

Its byte-level BPE vocabulary is learnt from the SciFact corpus where the
environment variable VERISCI_DATA names it, else from a few built-in lines.
The same seed and text give the same checkpoint; it is under 1 MB.
"""
import argparse
import json
import os
from pathlib import Path

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import RobertaConfig, RobertaForSequenceClassification, RobertaTokenizerFast

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
LINES = [
    "We found no difference in mortality between the two groups after one year.",
    "Vitamin D supplementation reduced the risk of falls in older adults (RR 0.81).",
    "Mice lacking the gene were resistant to obesity induced by a high-fat diet.",
] * 20


def text(documents=500):
    folder = os.environ.get("VERISCI_DATA")
    path = Path(folder) / "scifact" / "corpus.jsonl" if folder else None
    if path is None or not path.exists():
        return LINES
    with open(path, encoding="utf-8") as f:
        return [s for _, line in zip(range(documents), f) for s in json.loads(line)["abstract"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--labels", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)

    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(text(), vocab_size=2000, min_frequency=2, special_tokens=SPECIAL, show_progress=False)
    bpe.save_model(str(args.folder))
    tokenizer = RobertaTokenizerFast.from_pretrained(str(args.folder), model_max_length=512)
    tokenizer.save_pretrained(args.folder)

    torch.manual_seed(args.seed)
    config = RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=514, type_vocab_size=1, num_labels=args.labels,
        bos_token_id=0, pad_token_id=1, eos_token_id=2, initializer_range=0.3)
    RobertaForSequenceClassification(config).save_pretrained(args.folder)


if __name__ == "__main__":
    main()

"""Runs a model bundle: tokenisation, batching, logits and probabilities."""
import json
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer


class Bundle:
    def __init__(self, folder, threads=2):
        folder = Path(folder)
        self.path = folder / "bundle.json"
        self.meta = json.loads(self.path.read_text(encoding="utf-8"))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(self.meta["max_length"], strategy="only_first")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])

    def logits(self, pairs, budget=4096):
        """Logits of each pair, computed in batches of at most `budget` padded tokens (0: one by one)."""
        encoded = self.tokenizer.encode_batch([tuple(p) for p in pairs])
        order = sorted(range(len(pairs)), key=lambda i: len(encoded[i].ids))
        out = np.zeros((len(pairs), len(self.meta["labels"])), np.float32)
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and len(encoded[order[end]].ids) * (end - start + 1) <= budget:
                end += 1
            out[order[start:end]] = self.run([encoded[i] for i in order[start:end]])
            start = end
        return out

    def run(self, encoded):
        width = max(len(e.ids) for e in encoded)

        def pad(rows, value=0):
            return np.array([row + [value] * (width - len(row)) for row in rows], np.int64)

        feed = {"input_ids": pad([e.ids for e in encoded], self.meta["pad_id"]),
                "attention_mask": pad([e.attention_mask for e in encoded]),
                "token_type_ids": pad([e.type_ids for e in encoded])}
        return self.session.run(["logits"], {n: feed[n] for n in self.meta["inputs"]})[0]

    def probabilities(self, pairs):
        return softmax(self.logits(pairs) / self.meta["temperature"])

    def update(self, **fields):
        """Changes bundle.json; figures are merged."""
        figures = {**self.meta["figures"], **fields.pop("figures", {})}
        self.meta.update(fields, figures=figures)
        self.path.write_text(json.dumps(self.meta, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def softmax(logits):
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

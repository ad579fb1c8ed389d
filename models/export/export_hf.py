"""Exports a Hugging Face sequence-classification folder to a model bundle.

    python export_hf.py CHECKPOINT BUNDLE --name my-rationale --task rationale \
        --pair sentence claim --labels NOT_RATIONALE RATIONALE --threshold 0.5 --licence MIT

A bundle is a folder with model.onnx, tokenizer.json and bundle.json. Any
encoder with a pair classification head works (BERT, RoBERTa, MPNet, ...).
The ONNX model takes int64 [batch, sequence] inputs and gives one float32
output, logits [batch, labels]. The export is checked against PyTorch.

--quantize 8 stores the weights in 8 bits and computes with activations
quantised block by block along each token's own vector, so that the result of
a pair does not depend on its batch or on padding.
"""
import argparse
import hashlib
import json
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from transformers import AutoModelForSequenceClassification, AutoTokenizer

INPUTS = ["input_ids", "attention_mask", "token_type_ids"]
DEFAULTS = {
    "rationale": dict(pair=["sentence", "claim"], labels=["NOT_RATIONALE", "RATIONALE"], threshold=0.5),
    "label": dict(pair=["rationale", "claim"], labels=["CONTRADICT", "NOT_ENOUGH_INFO", "SUPPORT"], threshold=0.0),
}
PROBES = [  # text to check an export with: pairs of unlike lengths
    ("Vitamin D reduced falls.", "Vitamin D prevents falls in older adults."),
    ("We found no difference in mortality between the two groups after one year of follow-up "
     "(hazard ratio 0.98, 95% CI 0.91 to 1.06).", "The treatment lowers mortality."),
    ("Mice lacking the gene gained weight more slowly than their littermates on a high-fat diet; "
     "insulin sensitivity was preserved. Energy intake did not differ. " * 4, "The gene protects from obesity."),
    ("No.", "TNF-α is raised in β-thalassaemia."),
]


class Logits(torch.nn.Module):
    """The model as a function of positional tensors."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *tensors):
        return self.model(**dict(zip(self.names, tensors))).logits


def to_onnx(model, tokenizer, path):
    """Writes the float model; returns the names of its inputs."""
    wanted = set(tokenizer.model_input_names)
    if getattr(model.config, "type_vocab_size", 0) > 1:
        wanted.add("token_type_ids")
    else:
        wanted.discard("token_type_ids")
    names = [n for n in INPUTS if n in wanted]
    sample = tokenizer([a for a, _ in PROBES[:2]], [b for _, b in PROBES[:2]], padding=True,
                       return_tensors="pt", return_token_type_ids=True)
    axes = {n: {0: "batch", 1: "sequence"} for n in names}
    axes["logits"] = {0: "batch"}
    torch.onnx.export(Logits(model, names).eval(), tuple(sample[n] for n in names), path, dynamo=False,
                      input_names=names, output_names=["logits"], dynamic_axes=axes, opset_version=17)
    return names


def fuse(path, config):
    """The graph with fused attention, normalisation and activation where the family is known."""
    if config.model_type not in ("bert", "roberta", "xlm-roberta", "electra"):
        return onnx.load(path)
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions
    options = FusionOptions("bert")
    options.enable_embed_layer_norm = False  # leaves the embedding table to quantize_embedding
    options.use_multi_head_attention = True  # leaves the projections to the weight quantiser
    return optimizer.optimize_model(
        str(path), model_type="bert", num_heads=config.num_attention_heads, hidden_size=config.hidden_size,
        optimization_options=options, opt_level=0, use_gpu=False).model


def quantize_embedding(model, smallest=10_000):
    """Stores each large embedding table as int8 with one scale a row."""
    graph = model.graph
    tables = {t.name: t for t in graph.initializer if len(t.dims) == 2 and t.dims[0] >= smallest}
    nodes = []
    for node in graph.node:
        if node.op_type != "Gather" or node.input[0] not in tables:
            nodes.append(node)
            continue
        name, ids, out = node.input[0], node.input[1], node.output[0]
        nodes += [
            helper.make_node("Gather", [name + "_int8", ids], [out + "_int8"]),
            helper.make_node("Cast", [out + "_int8"], [out + "_cast"], to=TensorProto.FLOAT),
            helper.make_node("Gather", [name + "_scale", ids], [out + "_scale"]),
            helper.make_node("Mul", [out + "_cast", out + "_scale"], [out]),
        ]
        if name + "_int8" not in {t.name for t in graph.initializer}:
            weights = numpy_helper.to_array(tables[name])
            scale = np.maximum(np.abs(weights).max(axis=1, keepdims=True) / 127, 1e-12).astype(np.float32)
            graph.initializer.append(numpy_helper.from_array(np.rint(weights / scale).astype(np.int8), name + "_int8"))
            graph.initializer.append(numpy_helper.from_array(scale, name + "_scale"))
    del graph.node[:]
    graph.node.extend(nodes)
    used = {i for node in nodes for i in node.input}
    for name, table in tables.items():
        if name not in used:
            graph.initializer.remove(table)


def quantize(model, block):
    """8-bit weights in blocks; activations are quantised a token and a block at a time."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    quantizer = MatMulNBitsQuantizer(model, bits=8, block_size=block, is_symmetric=True, accuracy_level=4)
    quantizer.process()
    model = quantizer.model.model
    quantize_embedding(model)
    return model


def session(path, threads=1):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def check(model, tokenizer, names, path, max_length):
    """Largest differences in logits (from PyTorch, between alone and batched), and the largest logit."""
    run = session(path)
    encode = lambda pairs: tokenizer([a for a, _ in pairs], [b for _, b in pairs], padding=True, return_tensors="pt",
                                     truncation="only_first", max_length=max_length, return_token_type_ids=True)
    feed = lambda e: {n: e[n].numpy() for n in names}
    batch = encode(PROBES)
    with torch.no_grad():
        expected = model(**{n: batch[n] for n in names}).logits.numpy()
    got = run.run(["logits"], feed(batch))[0]
    alone = np.concatenate([run.run(["logits"], feed(encode([p])))[0] for p in PROBES])
    return float(np.abs(got - expected).max()), float(np.abs(got - alone).max()), float(np.abs(expected).max())


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def export(checkpoint, bundle, meta, block=0, tolerance=1e-3):
    """Writes the bundle folder; meta holds the fields of bundle.json that the caller decides."""
    bundle = Path(bundle)
    bundle.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, attn_implementation="eager").eval()
    if model.config.num_labels != len(meta["labels"]):
        raise SystemExit(f"the model gives {model.config.num_labels} logits, {len(meta['labels'])} labels are named")
    target = bundle / "model.onnx"
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "model.onnx"
        names = to_onnx(model, tokenizer, plain)
        graph = fuse(plain, model.config) if block else onnx.load(plain)
        if block:
            graph = quantize(graph, block)
        graph.producer_name, graph.producer_version, graph.doc_string = "verisci", "", ""
        # Protocol buffers end at 2 GiB: a larger model keeps its weights beside it.
        onnx.save(graph, target, save_as_external_data=graph.ByteSize() > 2_000_000_000, location="model.onnx.data")

    fast = tokenizer.backend_tokenizer
    fast.no_truncation()
    fast.no_padding()
    fast.save(str(bundle / "tokenizer.json"), pretty=False)

    from_torch, from_alone, largest = check(model, tokenizer, names, target, meta["max_length"])
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB; largest difference of a logit: "
          f"{from_torch:.2g} from PyTorch, {from_alone:.2g} between alone and batched")
    # What 8 bits change grows with the logits.
    if from_torch > (max(0.1, 0.03 * largest) if block else tolerance) or from_alone > tolerance:
        raise SystemExit("the exported model differs too much")
    files = sorted(p.name for p in bundle.iterdir() if p.name != "bundle.json")
    write_json(bundle / "bundle.json", dict(
        name=meta["name"], version=meta["version"], task=meta["task"], layout="pair", pair=meta["pair"],
        max_length=meta["max_length"], pad_id=tokenizer.pad_token_id, inputs=names, labels=meta["labels"],
        threshold=meta["threshold"], temperature=meta["temperature"], licence=meta["licence"], base=meta["base"],
        training_data=meta["training_data"], seed=meta["seed"], figures=meta["figures"],
        sha256={name: sha256(bundle / name) for name in files}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", help="folder with config.json, weights and tokenizer")
    parser.add_argument("bundle", help="folder to write")
    parser.add_argument("--task", choices=DEFAULTS, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", default="1")
    parser.add_argument("--pair", nargs=2, help="what segments A and B hold; the default depends on the task")
    parser.add_argument("--labels", nargs="+", help="name of each logit, in the model's order")
    parser.add_argument("--threshold", type=float)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--max-length", type=int, default=512)
    parser.add_argument("--licence", required=True)
    parser.add_argument("--base", default="", help="what the checkpoint was made from")
    parser.add_argument("--training-data", nargs="*", default=[], metavar="NAME=LICENCE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quantize", type=int, choices=[0, 8], default=0, help="bits of the weights; 0: float32")
    parser.add_argument("--block", type=int, choices=[32, 64, 128], default=32, help="block size of --quantize")
    args = parser.parse_args()
    default = DEFAULTS[args.task]
    export(args.checkpoint, args.bundle, dict(
        name=args.name, version=args.version, task=args.task, pair=args.pair or default["pair"],
        labels=args.labels or default["labels"], max_length=args.max_length, temperature=args.temperature,
        threshold=default["threshold"] if args.threshold is None else args.threshold,
        licence=args.licence, base=args.base, seed=args.seed, figures={},
        training_data=[dict(zip(("name", "licence"), d.partition("=")[::2])) for d in args.training_data],
    ), block=args.block if args.quantize else 0)


if __name__ == "__main__":
    main()

"""Exports the two trained models to the shipped bundles.

    python export.py rationale runs/rationale/model ../bundles/rationale
    python export.py label runs/label/model ../bundles/label

Thresholds, temperature and figures are filled in afterwards by evaluate.py.
"""
import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "export"))
import export_hf  # noqa: E402

COMMON = [  # both models start from the nli stage
    dict(name="SciFact claims (train)", licence="CC-BY-4.0"),
    dict(name="SciFact abstracts", licence="ODC-By-1.0"),
    dict(name="Check-COVID (train)", licence="MIT"),
    dict(name="FEVER (claim-evidence pairs, two classes)", licence="CC-BY-SA-3.0"),
    dict(name="FEVER symmetric 0.2", licence="CC-BY-SA-3.0"),
    dict(name="SNLI (dev and test)", licence="CC-BY-SA-4.0"),
]
DATA = {"rationale": COMMON, "label": COMMON + [dict(name="Citation-Integrity (train)", licence="MIT")]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=DATA)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--block", type=int, default=32, help="block size of the 8-bit weights; 0: float32")
    args = parser.parse_args()
    note = json.loads((args.checkpoint / "training.json").read_text())
    export_hf.export(args.checkpoint, args.bundle, dict(
        export_hf.DEFAULTS[args.task], name=f"verisci-{args.task}-minilm-l6", version="1", task=args.task,
        max_length=512, temperature=1.0, licence="Apache-2.0", seed=note["seed"], training_data=DATA[args.task],
        base="all-MiniLM-L6-v2 (MiniLM-L6-H384-uncased), Apache-2.0", figures=dict(training=note),
    ), block=args.block)


if __name__ == "__main__":
    main()

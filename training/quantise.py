"""Turns trained weights into the files that ship: one signed byte a number, one scale a piece."""

import argparse
import hashlib
import json
import shutil
from pathlib import Path

import numpy as np

NAME = "headwater-static-1"
DIMS = (128, 256)
MAX_BYTES = 25_000_000
SCORE_STEPS = 10_000  # of a piece's log-probability to 1: fine enough to keep every segmentation


def quantise(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scales = np.abs(weights).max(axis=1, keepdims=True) / 127 + 1e-12
    return np.round(weights / scales).astype(np.int8), scales[:, 0].astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="what train.py wrote")
    parser.add_argument("--damping", type=float, default=0.75, help="as it was given to train.py")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    vocabulary = json.loads((arguments.model / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    # Sorted by their bytes, pieces are found by bisection in a mapped file: a query need not load them all.
    pieces = np.array([piece.encode() for piece, _ in vocabulary])
    order = np.argsort(pieces, kind="stable")
    table, scales = quantise(np.load(arguments.model / "weights.npy").astype(np.float32)[order])
    arguments.out.mkdir(parents=True, exist_ok=True)
    np.save(arguments.out / "pieces.npy", pieces[order])
    points = np.round(np.array([score for _, score in vocabulary])[order] * SCORE_STEPS)
    np.save(arguments.out / "scores.npy", points.astype(np.int32))
    np.save(arguments.out / "weights.npy", table)
    # Only ratios matter, as vectors are brought to length 1: the largest scale is 1, so that half precision suffices.
    np.save(arguments.out / "scales.npy", (scales / scales.max()).astype(np.float16))
    shutil.copyfile(arguments.model / "fold.json", arguments.out / "fold.json")
    digest = hashlib.sha256()
    for name in ("weights.npy", "scales.npy", "pieces.npy", "scores.npy", "fold.json"):
        digest.update((arguments.out / name).read_bytes())
    card = {
        "name": NAME,
        "dims": DIMS,
        "damping": arguments.damping,
        "score_steps": SCORE_STEPS,
        "sha256": digest.hexdigest(),
    }
    (arguments.out / "model.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    total = sum(p.stat().st_size for p in arguments.out.iterdir() if p.is_file())
    print(f"{len(table):,} pieces, {total / 1e6:.2f} MB")
    if total > MAX_BYTES:
        raise SystemExit(f"{total:,} bytes are more than the {MAX_BYTES:,} that may ship")


if __name__ == "__main__":
    main()

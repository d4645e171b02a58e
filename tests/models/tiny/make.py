"""Makes the tiny model that the tests of the ONNX embedder run: python make.py (needs the packages onnx, tokenizers).

Its states are tanh(piece[id] + place[position]), so that every pooling and every cut gives other numbers.
"""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

HERE = Path(__file__).parent
DIM, POSITIONS = 16, 32
WORDS = [
    *"the pump valve water river flood station gauge leave week year is of a and in".split(),
    *"水泵河年假天员工的有",
]


def tokenizer() -> Tokenizer:
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        *WORDS,
        *letters,
        *(f"##{letter}" for letter in letters),
        ".",
        "?",
        "。",
    ]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    ends = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    made.enable_padding(length=24)  # as many published files have it: the embedder must not be misled
    made.enable_truncation(8)
    return made


def main() -> None:
    made = tokenizer()
    made.save(str(HERE / "tokenizer.json"))
    random = np.random.default_rng(7)
    piece = random.standard_normal((made.get_vocab_size(), DIM)).astype(np.float32)
    place = random.standard_normal((POSITIONS, DIM)).astype(np.float32)
    steps = [
        helper.make_node("Gather", ["piece", "input_ids"], ["pieces"]),
        helper.make_node("Shape", ["input_ids"], ["width"], start=1, end=2),
        helper.make_node("Slice", ["place", "zero", "width", "zero"], ["places"]),
        helper.make_node("Add", ["pieces", "places"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["last_hidden_state"]),
    ]
    shape = ["batch", "width"]
    graph = helper.make_graph(
        steps,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, DIM])],
        [
            numpy_helper.from_array(piece, "piece"),
            numpy_helper.from_array(place, "place"),
            numpy_helper.from_array(np.array([0], dtype=np.int64), "zero"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, str(HERE / "model.onnx"))
    config = {"model_type": "bert", "hidden_size": DIM, "max_position_embeddings": POSITIONS}
    (HERE / "config.json").write_text(json.dumps(config) + "\n", encoding="utf-8")
    np.savez_compressed(HERE / "weights.npz", piece=piece, place=place)


if __name__ == "__main__":
    main()

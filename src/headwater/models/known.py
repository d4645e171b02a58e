"""What is known about the embedding, reranking and chat models people use: so that naming one is enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Pooling = Literal["mean", "cls", "last"]

# What each family was trained to see before a query; a passage gets nothing unless `passage_prefix` says so.
_BGE_CHINESE: Final = "为这个句子生成表示以用于检索相关文章："
_BGE_ENGLISH: Final = "Represent this sentence for searching relevant passages: "
_QWEN3: Final = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A service that speaks the OpenAI protocol."""

    name: str
    base_url: str = ""
    key_variables: tuple[str, ...] = ("OPENAI_API_KEY",)
    batch_size: int = 32  # texts to a request; 32 is what text-embeddings-inference takes unless told otherwise
    base64: bool = False  # whether it is known to send vectors as base64, a third of the bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """What a person need not say about a model."""

    name: str
    dim: int
    max_tokens: int
    provider: str = ""  # the service it comes from; none for weights that anybody can run
    pooling: Pooling = "mean"
    query_prefix: str = ""
    passage_prefix: str = ""
    hub_id: str = ""  # a repository with its ONNX files
    aliases: tuple[str, ...] = field(default=())


OPENAI: Final = Provider(name="openai", base_url="https://api.openai.com/v1", batch_size=100, base64=True)
ANY: Final = Provider(name="any")  # Ollama, vLLM, text-embeddings-inference, a gateway
PROVIDERS: Final[Mapping[str, Provider]] = {
    provider.name: provider
    for provider in (
        OPENAI,
        # Ten texts a request is the service's own limit.
        Provider(
            name="dashscope",
            base_url="https://dashscope.aliyuncs.com/compatible-mode/v1",
            key_variables=("DASHSCOPE_API_KEY",),
            batch_size=10,
        ),
        # 64 texts a request is the service's own limit.
        Provider(
            name="zhipu",
            base_url="https://open.bigmodel.cn/api/paas/v4",
            key_variables=("ZHIPUAI_API_KEY", "ZAI_API_KEY"),
            batch_size=64,
        ),
        Provider(name="deepseek", base_url="https://api.deepseek.com/v1", key_variables=("DEEPSEEK_API_KEY",)),
        # Runs on one's own machine and wants no key.
        Provider(name="ollama", base_url="http://127.0.0.1:11434/v1", key_variables=()),
    )
}
OLLAMA: Final = PROVIDERS["ollama"]


def _family(pattern: str, sizes: Mapping[str, int], **same: object) -> list[KnownModel]:
    """Models that differ in size only. `{}` in the pattern and the hub id is the size."""
    hub_id = str(same.pop("hub_id", ""))
    return [
        KnownModel(name=pattern.format(size), dim=dim, hub_id=hub_id.format(size), **same)  # type: ignore[arg-type]
        for size, dim in sizes.items()
    ]


_SIZES: Final = {"small": 384, "base": 768, "large": 1024}
_CHINESE_SIZES: Final = {"small": 512, "base": 768, "large": 1024}

MODELS: Final[tuple[KnownModel, ...]] = (
    KnownModel(name="text-embedding-3-small", dim=1536, max_tokens=8192, provider="openai"),
    KnownModel(name="text-embedding-3-large", dim=3072, max_tokens=8192, provider="openai"),
    KnownModel(name="text-embedding-ada-002", dim=1536, max_tokens=8192, provider="openai"),
    KnownModel(name="text-embedding-v4", dim=1024, max_tokens=8192, provider="dashscope"),
    KnownModel(name="text-embedding-v3", dim=1024, max_tokens=8192, provider="dashscope"),
    KnownModel(name="text-embedding-v2", dim=1536, max_tokens=2048, provider="dashscope"),
    KnownModel(name="embedding-3", dim=2048, max_tokens=3072, provider="zhipu"),
    KnownModel(name="embedding-2", dim=1024, max_tokens=512, provider="zhipu"),
    *_family(
        "bge-{}-zh-v1.5",
        _CHINESE_SIZES,
        max_tokens=512,
        pooling="cls",
        query_prefix=_BGE_CHINESE,
        hub_id="Xenova/bge-{}-zh-v1.5",
    ),
    *_family(
        "bge-{}-en-v1.5",
        _SIZES,
        max_tokens=512,
        pooling="cls",
        query_prefix=_BGE_ENGLISH,
        hub_id="BAAI/bge-{}-en-v1.5",
    ),
    KnownModel(name="bge-m3", dim=1024, max_tokens=8192, pooling="cls", hub_id="BAAI/bge-m3"),
    *_family(
        "multilingual-e5-{}",
        _SIZES,
        max_tokens=512,
        query_prefix="query: ",
        passage_prefix="passage: ",
        hub_id="intfloat/multilingual-e5-{}",
    ),
    *_family(
        "e5-{}-v2",
        _SIZES,
        max_tokens=512,
        query_prefix="query: ",
        passage_prefix="passage: ",
        hub_id="intfloat/e5-{}-v2",
    ),
    KnownModel(
        name="all-minilm-l6-v2",
        dim=384,
        max_tokens=256,
        hub_id="sentence-transformers/all-MiniLM-L6-v2",
        aliases=("all-minilm",),
    ),
    KnownModel(
        name="paraphrase-multilingual-minilm-l12-v2",
        dim=384,
        max_tokens=128,
        hub_id="sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
    ),
    *_family("m3e-{}", _CHINESE_SIZES, max_tokens=512),
    *_family("gte-{}-zh", _CHINESE_SIZES, max_tokens=512, pooling="cls"),
    KnownModel(
        name="nomic-embed-text-v1.5",
        dim=768,
        max_tokens=8192,
        query_prefix="search_query: ",
        passage_prefix="search_document: ",
        hub_id="nomic-ai/nomic-embed-text-v1.5",
        aliases=("nomic-embed-text",),
    ),
    KnownModel(
        name="mxbai-embed-large-v1",
        dim=1024,
        max_tokens=512,
        pooling="cls",
        query_prefix=_BGE_ENGLISH,
        hub_id="mixedbread-ai/mxbai-embed-large-v1",
        aliases=("mxbai-embed-large",),
    ),
    *(
        KnownModel(
            name=f"qwen3-embedding-{size}", dim=dim, max_tokens=32_768, pooling="last", query_prefix=_QWEN3, hub_id=hub
        )
        for size, dim, hub in (
            ("0.6b", 1024, "onnx-community/Qwen3-Embedding-0.6B-ONNX"),
            ("4b", 2560, ""),
            ("8b", 4096, ""),
        )
    ),
)
_BY_NAME: Final = {name: model for model in MODELS for name in (model.name, *model.aliases)}


def known_model(name: str) -> KnownModel | None:
    """What is known about a model, whoever's folder it stands in: `BAAI/bge-m3`, `bge-m3:latest`, `./models/bge-m3`."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    head, _, tag = last.partition(":")
    plain = head.removesuffix("-onnx")
    # Ollama writes the size of a model behind a colon.
    return _BY_NAME.get(f"{plain}-{tag}") or _BY_NAME.get(plain)


def provider_of(base_url: str) -> Provider:
    """The service at an address; one that is not known is treated like a server of one's own."""
    wanted = base_url.rstrip("/")
    return next((provider for provider in PROVIDERS.values() if provider.base_url == wanted), ANY)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownReranker:
    """What a person need not say about a model that looks at a question and a passage together."""

    name: str
    use: str  # the component that runs it or asks for it
    model: str = ""  # as its service calls it; empty for the name itself
    max_tokens: int = 0  # of question and passage together; 0 where its own files say it
    hub_id: str = ""  # a repository with its ONNX files


RERANKERS: Final[tuple[KnownReranker, ...]] = (
    KnownReranker(name="bge-reranker-base", use="onnx", max_tokens=512, hub_id="Xenova/bge-reranker-base"),
    KnownReranker(name="bge-reranker-large", use="onnx", max_tokens=512, hub_id="Xenova/bge-reranker-large"),
    # It takes 8,192; passages are not that long, and time grows with the square.
    KnownReranker(
        name="bge-reranker-v2-m3", use="onnx", max_tokens=1_024, hub_id="onnx-community/bge-reranker-v2-m3-ONNX"
    ),
    KnownReranker(name="ms-marco-minilm-l-6-v2", use="onnx", max_tokens=512, hub_id="Xenova/ms-marco-MiniLM-L-6-v2"),
    KnownReranker(
        name="jina-reranker-v1-turbo-en", use="onnx", max_tokens=1_024, hub_id="jinaai/jina-reranker-v1-turbo-en"
    ),
    KnownReranker(
        name="jina-reranker-v1-tiny-en", use="onnx", max_tokens=1_024, hub_id="jinaai/jina-reranker-v1-tiny-en"
    ),
    KnownReranker(name="cohere-rerank", use="cohere", model="rerank-v3.5"),
    # The first version reads English only.
    KnownReranker(name="jina-reranker", use="jina", model="jina-reranker-v2-base-multilingual"),
    KnownReranker(name="gte-rerank", use="dashscope", model="gte-rerank-v2"),
)


def known_reranker(name: str) -> KnownReranker | None:
    """What is known about a reranker, whoever's folder it stands in."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2].lower().removesuffix("-onnx")
    return next((model for model in RERANKERS if model.name == last), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatModel:
    """What a person need not say about a model that writes. A name stands for all that begin with it."""

    name: str
    context_tokens: int  # what it can be shown and say, in all
    provider: str = ""  # the service it comes from; none for weights that anybody can run
    tools: bool = True  # whether it is known to call tools as they are meant


# By the makers' own pages. Weights that run anywhere have what they were trained for; a server may allow less.
CHAT_MODELS: Final[tuple[ChatModel, ...]] = (
    ChatModel(name="gpt-5", context_tokens=400_000, provider="openai"),
    ChatModel(name="gpt-4.1", context_tokens=1_000_000, provider="openai"),
    ChatModel(name="gpt-4o", context_tokens=128_000, provider="openai"),
    ChatModel(name="gpt-4-turbo", context_tokens=128_000, provider="openai"),
    ChatModel(name="gpt-3.5-turbo", context_tokens=16_385, provider="openai"),
    ChatModel(name="o1", context_tokens=200_000, provider="openai"),
    ChatModel(name="o3", context_tokens=200_000, provider="openai"),
    ChatModel(name="o4-mini", context_tokens=200_000, provider="openai"),
    ChatModel(name="qwen-max", context_tokens=32_768, provider="dashscope"),
    ChatModel(name="qwen-plus", context_tokens=131_072, provider="dashscope"),
    ChatModel(name="qwen-turbo", context_tokens=131_072, provider="dashscope"),
    ChatModel(name="qwen-flash", context_tokens=131_072, provider="dashscope"),
    ChatModel(name="qwen-long", context_tokens=1_000_000, provider="dashscope", tools=False),
    ChatModel(name="glm-4", context_tokens=128_000, provider="zhipu"),
    ChatModel(name="deepseek-chat", context_tokens=65_536, provider="deepseek"),
    ChatModel(name="deepseek-reasoner", context_tokens=65_536, provider="deepseek", tools=False),
    ChatModel(name="deepseek-r1", context_tokens=65_536, tools=False),
    ChatModel(name="qwen3", context_tokens=32_768),
    ChatModel(name="qwen2.5", context_tokens=32_768),
    ChatModel(name="qwq", context_tokens=32_768),
    ChatModel(name="llama3.1", context_tokens=131_072),
    ChatModel(name="llama3.2", context_tokens=131_072, tools=False),
    ChatModel(name="llama3.3", context_tokens=131_072),
    ChatModel(name="llama3", context_tokens=8_192, tools=False),
    ChatModel(name="mistral", context_tokens=32_768),
    ChatModel(name="gemma3", context_tokens=131_072, tools=False),
    ChatModel(name="gemma2", context_tokens=8_192, tools=False),
    ChatModel(name="phi4", context_tokens=16_384, tools=False),
    ChatModel(name="smollm2", context_tokens=8_192, tools=False),
)
# A server of one's own with a model that is not in the table. Ollama shows a model this much unless told otherwise,
# whatever the model can take, and leaves out the beginning of what is longer without a word.
UNKNOWN_CONTEXT_TOKENS: Final = 8_192
OLLAMA_CONTEXT_TOKENS: Final = 4_096


def known_chat_model(name: str) -> ChatModel | None:
    """The entry with the longest name that this one begins with, whoever's folder it stands in."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    fitting = [model for model in CHAT_MODELS if last.startswith(model.name)]
    return max(fitting, key=lambda model: len(model.name), default=None)


# By the start of an embedder's fingerprint: the cosine of texts that have nothing to do with each other, and of a
# question and its passage; medians. bench/rerank.py measures them for the bundled model on questions made from texts
# that it was not trained to pair. A threshold on `relevance` is a share of the way from the one to the other.
CALIBRATIONS: Final[Mapping[str, tuple[float, float]]] = {
    "headwater-static": (0.05, 0.5),
}


def calibration_of(fingerprint: str) -> tuple[float, float] | None:
    """What cosines an embedder gives to texts apart and together; None where nobody has measured it."""
    return next((found for name, found in CALIBRATIONS.items() if fingerprint.startswith(name)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """How hybrid search should weigh words and meaning with an embedder: the settings of the same names."""

    keyword_weight: float
    semantic_weight: float
    chance_coverage: float


# A transformer ranks better than the mean of word vectors that ships, and deserves more of a say; and few know two
# languages so well that the words they share (names, numbers) say nothing. Chosen on half of the sets with m3e-small
# and all-MiniLM-L6-v2, confirmed on the other half: docs/evaluation.md. What ships has the weights of the presets.
TRANSFORMER: Final = Weighing(keyword_weight=0.76, semantic_weight=0.24, chance_coverage=0.0)
TRANSFORMERS: Final = ("onnx:", "openai:", "sentence-transformers:")  # how their fingerprints begin

# What the cosine of such an embedder counts in the built-in reranker, beside what a passage came with (1) and what the
# bundled model's vectors say (0.65): those alone would overrule an embedder that knows better. Chosen on half of the
# sets, confirmed on the other half, and the other way round: docs/evaluation.md.
TRANSFORMER_MEANING: Final = 0.6


def reranking_of(fingerprint: str) -> float:
    """What an embedder's cosine counts when the built-in reranker looks again; nothing where it is the same model."""
    return TRANSFORMER_MEANING if fingerprint.startswith(TRANSFORMERS) else 0.0


def weighing_of(fingerprint: str) -> Weighing | None:
    """How to weigh the legs with an embedder where nobody said; None for as the preset has it."""
    return TRANSFORMER if fingerprint.startswith(TRANSFORMERS) else None

"""What is known about the embedding models people use: so that naming one is enough."""

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
    )
}


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

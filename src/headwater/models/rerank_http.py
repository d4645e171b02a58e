"""A question and passages -> how well each answers, by a server: Cohere, Jina, DashScope, or one of one's own.

All of these take a query and texts and give back `index` and a score for each; they differ in where these stand. An
answer that does not hold one number for every passage is refused as it is: the stage keeps the order it has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from headwater.errors import BackendError, SettingError
from headwater.models._settings import key_of, one_of, sendable, share_of, whole
from headwater.models.http import Endpoint, Waits
from headwater.types import Hit

SECTION: Final = "rerank"
# A person waits: it is asked again while the time lasts, and not more often than this.
MAX_RETRIES: Final = 2
# What scores for a hundred passages take; a server that sends its texts back, or worse, is not read to the end.
MOST_BYTES: Final = 16 * 1024 * 1024
# Characters of a passage that are sent: about what the services read of one (2,048 to 8,192 tokens).
PASSAGE_CHARS: Final = 12_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a service wants to be asked, and where its answer stands."""

    path: str
    body: Callable[[str, str, Sequence[str]], Mapping[str, Any]]
    results: tuple[str, ...]  # keys on the way to the list of results; none where the answer is the list
    score: str = "relevance_score"


def _plain(model: str, question: str, texts: Sequence[str]) -> Mapping[str, Any]:
    return {"model": model, "query": question, "documents": list(texts), "top_n": len(texts)}


def _without_texts(model: str, question: str, texts: Sequence[str]) -> Mapping[str, Any]:
    return {**_plain(model, question, texts), "return_documents": False}


def _nested(model: str, question: str, texts: Sequence[str]) -> Mapping[str, Any]:
    return {
        "model": model,
        "input": {"query": question, "documents": list(texts)},
        "parameters": {"return_documents": False, "top_n": len(texts)},
    }


def _texts(model: str, question: str, texts: Sequence[str]) -> Mapping[str, Any]:
    return {"query": question, "texts": list(texts), "truncate": True}


SHAPES: Final[Mapping[str, Shape]] = {
    "cohere": Shape(path="rerank", body=_plain, results=("results",)),
    "jina": Shape(path="rerank", body=_without_texts, results=("results",)),
    "dashscope": Shape(path="services/rerank/text-rerank/text-rerank", body=_nested, results=("output", "results")),
    # text-embeddings-inference
    "tei": Shape(path="rerank", body=_texts, results=(), score="score"),
}


class HttpReranker:
    """Any server that speaks one of these shapes: vLLM, Infinity, llama.cpp, Xinference and LocalAI speak `jina`.

    Safe for use from several threads.
    """

    shape_name = "jina"
    default_model = ""
    default_url = ""
    key_variables: tuple[str, ...] = ("RERANK_API_KEY",)
    most_texts = 1_000  # in one request

    def __init__(
        self,
        *,
        model: str = "",
        base_url: str = "",
        api_key: str = "",
        shape: str = "",
        batch_size: int = 0,
        requests_per_minute: int = 0,
        max_retries: int = MAX_RETRIES,
        share: float = 1.0,
        title: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        url = base_url or self.default_url
        if not url:
            raise SettingError("rerank.base_url is empty: give the server's address, which mostly ends in /v1")
        self.model = model or self.default_model
        self._shape = SHAPES[one_of("shape", shape or self.shape_name, tuple(SHAPES), section=SECTION)]
        self._batch_size = whole("batch_size", batch_size, least=0, section=SECTION) or self.most_texts
        self._max_retries = whole("max_retries", max_retries, least=0, section=SECTION)
        self.share = share_of(share, section=SECTION)  # read by the stage: how much it counts beside the fused score
        self._title = title
        variable = self.key_variables[0]
        self._endpoint = Endpoint(
            url,
            api_key=key_of(api_key, self.key_variables, section=SECTION, environment=environment),
            requests_per_minute=whole("requests_per_minute", requests_per_minute, least=0, section=SECTION),
            key_hint=f'set {variable}, or api_key = "env:{variable}" in the section rerank of headwater.toml',
        )
        self.fingerprint = f"{shape or self.shape_name}:{self.model or self._endpoint.base_url}"

    def score(self, question: str, hits: Sequence[Hit], *, deadline_seconds: float) -> list[float]:
        """What the server says of each. Raises BackendError, also when it has not answered in time."""
        texts = [self._passage(hit) for hit in hits]
        # No service takes an empty text, and all of them would call it irrelevant.
        told = [place for place, text in enumerate(texts) if text.strip()]
        if not told or not question.strip():
            return [0.0] * len(hits)
        waits = Waits(first_seconds=deadline_seconds, next_seconds=deadline_seconds, total_seconds=deadline_seconds)
        found: dict[int, float] = {}
        for start in range(0, len(told), self._batch_size):
            places = told[start : start + self._batch_size]
            scores = self._asked(sendable(question), [texts[place] for place in places], waits)
            found.update(zip(places, scores, strict=True))
        worst = min(found.values())
        return [found.get(place, worst) for place in range(len(hits))]

    def close(self) -> None:
        """Let go of the connections."""
        self._endpoint.close()

    def _passage(self, hit: Hit) -> str:
        text, title = hit.chunk.text[:PASSAGE_CHARS], hit.record.title.strip() if self._title else ""
        return sendable(text if not title or text.lstrip("# ").startswith(title) else f"{title}\n{text}")

    def _asked(self, question: str, texts: Sequence[str], waits: Waits) -> list[float]:
        if not waits.left():
            raise BackendError(f"{self._endpoint.base_url} was not asked: no time was left")
        body = self._shape.body(self.model, question, texts)
        reply = self._endpoint.stream(self._shape.path, body, waits=waits, max_retries=self._max_retries)
        content = bytearray()
        for chunk in reply.chunks():
            content += chunk
            if len(content) > MOST_BYTES:
                raise self._refused(f"an answer of more than {MOST_BYTES:,} bytes")
        try:
            said = json.loads(content)
        except (ValueError, RecursionError):
            raise self._refused(f"something that is not JSON: {bytes(content[:80])!r}") from None
        return self._scores(said, len(texts))

    def _scores(self, said: Any, count: int) -> list[float]:
        """One number for every text, or a reason why not."""
        results = said
        for key in self._shape.results:
            if not isinstance(results, dict) or key not in results:
                raise self._refused(f"no {key!r}: {self._endpoint.cleaned(json.dumps(said, ensure_ascii=False))}")
            results = results[key]
        if not isinstance(results, list):
            raise self._refused(f"no list of results but {type(results).__name__}")
        scores: dict[int, float] = {}
        for result in results:
            index = result.get("index") if isinstance(result, dict) else None
            score = result.get(self._shape.score) if isinstance(result, dict) else None
            if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < count:
                raise self._refused(f"a result for passage {index!r} of {count}")
            if index in scores:
                raise self._refused(f"two results for passage {index}")
            if not isinstance(score, int | float) or isinstance(score, bool) or not isfinite(score):
                raise self._refused(f"the score {score!r} for passage {index}")
            scores[index] = float(score)
        if len(scores) != count:
            raise self._refused(f"{len(scores)} results for {count} passages")
        return [scores[index] for index in range(count)]

    def _refused(self, what: str) -> BackendError:
        return BackendError(f"{self.fingerprint} answered with {what}; check rerank.shape and rerank.base_url")


class CohereReranker(HttpReranker):
    """Cohere's service, and whatever speaks its second version."""

    shape_name = "cohere"
    default_model = "rerank-v3.5"
    default_url = "https://api.cohere.com/v2"
    key_variables = ("COHERE_API_KEY", "CO_API_KEY")


class JinaReranker(HttpReranker):
    """Jina's service."""

    default_model = "jina-reranker-v2-base-multilingual"
    default_url = "https://api.jina.ai/v1"
    key_variables = ("JINA_API_KEY",)


class DashScopeReranker(HttpReranker):
    """DashScope's own protocol; it has none that others speak."""

    shape_name = "dashscope"
    default_model = "gte-rerank-v2"
    default_url = "https://dashscope.aliyuncs.com/api/v1"
    key_variables = ("DASHSCOPE_API_KEY",)
    most_texts = 500  # the service's own limit

"""What happens -> numbers for Prometheus. Labels are few and never hold text of a query or a document."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headwater.messages import Usage

# Seconds: a cached hit takes under a millisecond, an answer of a slow model a minute.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
COUNTS = (0, 1, 2, 5, 10, 20, 50, 100, 500, 1000)


class Meters:
    """The numbers of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.search_seconds = Histogram(
            "rag_search_duration_seconds", "Searches.", ["mode", "status"], buckets=SECONDS, registry=registry
        )
        self.search_results = Histogram(
            "rag_search_results_count", "Hits of a search.", ["mode"], buckets=COUNTS, registry=registry
        )
        self.index_seconds = Histogram(
            "rag_index_duration_seconds", "Passes of the indexer.", ["status"], buckets=SECONDS, registry=registry
        )
        self.stage_seconds = Histogram(
            "rag_stage_duration_seconds",
            "Stages of searches and answers.",
            ["stage"],
            buckets=SECONDS,
            registry=registry,
        )
        self.answers = Counter("rag_answers", "Answers by outcome.", ["outcome"], registry=registry)
        self.documents = Counter("rag_documents_indexed", "Jobs that ended, by state.", ["state"], registry=registry)
        self.cache = Counter("rag_cache_hits", "Searches answered from the cache.", registry=registry)
        self.tokens = Counter("rag_tokens", "Tokens that models used.", ["model", "kind"], registry=registry)
        self.errors = Counter("rag_errors", "Errors by name.", ["code"], registry=registry)
        self.requests = Histogram(
            "http_request_duration_seconds",
            "Requests.",
            ["method", "route", "status"],
            buckets=SECONDS,
            registry=registry,
        )
        self.refused = Counter("http_requests_refused", "Told to come back later.", ["pool"], registry=registry)

    def used(self, model: str, usage: Usage) -> None:
        """What a reply of a language model took."""
        self.tokens.labels(model, "prompt").inc(usage.input_tokens)
        self.tokens.labels(model, "completion").inc(usage.output_tokens)

    def gauge(self, name: str, says: str, value: Callable[[], float]) -> None:
        """A number that is asked for when somebody looks."""
        Gauge(name, says, registry=self.registry).set_function(value)

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self.registry)

"""Settings -> what looks at passages again, by name. Made when it is first named, and kept."""

from collections.abc import Mapping
from threading import Lock
from typing import Any

from headwater.config import Config
from headwater.models.known import known_reranker, reranking_of
from headwater.protocols import Reranker
from headwater.registry import accepted, check_settings, installed, load

# Keyword arguments that a reranker gets from here when it names them; settings may not give them.
GIVEN = ("models_folder", "cutter", "language_model", "prompts", "environment", "meaning_weight")


class Rerankers:
    """The reranker of the section `rerank`, and any other that is installed, with its defaults."""

    def __init__(self, config: Config, *, given: Mapping[str, Any]) -> None:
        self._config, self._given = config, given
        self._made: dict[tuple[str, float], Reranker] = {}
        self._lock = Lock()

    def named(self, name: str, *, embedder: str = "") -> Reranker:
        """The one of that name, for passages of an embedder (its fingerprint); an unknown name is refused."""
        key = name, reranking_of(embedder)
        with self._lock:
            if key not in self._made:
                self._made[key] = self._make(*key)
            return self._made[key]

    def close(self) -> None:
        """Let go of connections."""
        for reranker in self._made.values():
            if hasattr(reranker, "close"):
                reranker.close()

    def _make(self, name: str, meaning_weight: float) -> Reranker:
        group, used, arguments = self._config.component("rerank")
        own = arguments if name == used else {}
        # A model's name stands for the component that runs it.
        if name not in installed(group) and (known := known_reranker(name)) is not None:
            own = {"model": known.model or name, **own}
        component = load(group, name)
        check_settings(component, own, section="rerank", given=GIVEN)
        given = {**self._given, "meaning_weight": meaning_weight}
        made: Reranker = component(**accepted(component, given), **own)
        return made

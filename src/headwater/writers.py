"""Settings -> what writes answers, by name, each made when it is first needed.

The section `generate` says what writes unless a request names another; every `[llm.NAME]` is one that it may name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from threading import Lock
from typing import Any

from headwater.config import Config
from headwater.errors import UnknownComponent
from headwater.protocols import Generator, LanguageModel, Writer
from headwater.registry import accepted, check_settings, load
from headwater.types import EXTRACTIVE

# Keyword arguments that a writer gets from the home when it names them; settings may not give them.
GIVEN = ("cutter", "embedder", "spending_folder", "environment", "on_usage")


class Writers:
    """What writes in one home. Safe to use from several threads."""

    def __init__(self, config: Config, *, given: Mapping[str, Any], model: LanguageModel | None = None) -> None:
        self._config, self._given, self._model = config, given, model
        self._made: dict[str, Writer] = {}
        self._lock = Lock()

    @cached_property
    def default(self) -> Writer:
        """What writes where nothing else is said."""
        if self._model is not None:
            return self._model
        group, name, arguments = self._config.component("generate")
        made: Writer = self._writer(group, name, arguments, section="generate")
        return made

    @cached_property
    def fallback(self) -> Generator:
        """What writes where everything else fails: the documents' own sentences."""
        made: Generator = self._writer("generators", EXTRACTIVE, {}, section="generate")
        return made

    @property
    def model(self) -> LanguageModel | None:
        """The language model among them that is used unless another is named."""
        return self.default if isinstance(self.default, LanguageModel) else None

    def named(self, name: str) -> Writer:
        """The one of that name; an unknown one is refused with those that exist."""
        if name == EXTRACTIVE:
            return self.fallback
        with self._lock:
            if name not in self._made:
                if name not in self.names():
                    names = ", ".join(self.names())
                    raise UnknownComponent(f"no model is named {name!r}; there are: {names} (sections [llm.NAME])")
                arguments = {"model": name, **self._config.table("llm", name)}
                use = str(arguments.pop("use", "openai"))
                self._made[name] = self._writer("generators", use, arguments, section=f"llm.{name}")
            return self._made[name]

    def names(self) -> list[str]:
        """Every name that a request may give."""
        return [EXTRACTIVE, *self._config.names("llm")]

    def close(self) -> None:
        """Let go of connections."""
        writers = [*self._made.values(), *([self.default] if "default" in self.__dict__ else [])]
        for writer in writers:
            if writer is not self._model and hasattr(writer, "close"):
                writer.close()

    def _writer(self, group: str, name: str, arguments: Mapping[str, Any], *, section: str) -> Any:
        component = load(group, name)
        check_settings(component, arguments, section=section, given=GIVEN)
        return component(**accepted(component, self._given), **arguments)

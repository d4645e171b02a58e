"""headwater: ask your documents, get answers that cite the exact passage.

Names are looked up when they are used, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.build import KnowledgeBase
    from headwater.build import open_home as open
    from headwater.causes import Explanation
    from headwater.config import Config
    from headwater.errors import HeadwaterError
    from headwater.filters import Filter
    from headwater.types import (
        Answer,
        Chunk,
        Citation,
        Document,
        Hit,
        Labels,
        Options,
        Query,
        Record,
        Report,
        Restart,
        Results,
        Sentence,
        Span,
        Step,
    )

__version__ = "0.1.0"

_HOMES = {
    "KnowledgeBase": "build",
    "open": "build:open_home",
    "Config": "config",
    "Explanation": "causes",
    "HeadwaterError": "errors",
    "Filter": "filters",
    **dict.fromkeys(
        ("Answer", "Chunk", "Citation", "Document", "Hit", "Labels", "Options", "Query", "Record", "Report", "Restart"),
        "types",
    ),
    **dict.fromkeys(("Results", "Sentence", "Span", "Step"), "types"),
}

__all__ = [
    "Answer",
    "Chunk",
    "Citation",
    "Config",
    "Document",
    "Explanation",
    "Filter",
    "HeadwaterError",
    "Hit",
    "KnowledgeBase",
    "Labels",
    "Options",
    "Query",
    "Record",
    "Report",
    "Restart",
    "Results",
    "Sentence",
    "Span",
    "Step",
    "open",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}")
    module, _, inside = _HOMES[name].partition(":")
    return getattr(import_module(f"headwater.{module}"), inside or name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

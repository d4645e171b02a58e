from collections.abc import Callable, Sequence

from headwater.scanning import Term

class Dictionary:
    def __init__(
        self, *, chars: object, firsts: object, slots: object, counts: object, emissions: object, steps: object
    ) -> None: ...

class Scan:
    @property
    def folded(self) -> str: ...
    def lanes(self, *, pairs: int = 0) -> list[tuple[str, str, str]]: ...
    def terms(self) -> list[Term]: ...

class Scanner:
    def __init__(
        self,
        *,
        shift: object,
        kind: object,
        uses: object,
        stemmer: Callable[[str], str],
        dictionary: Callable[[], Dictionary],
        term: type[Term],
    ) -> None: ...
    def fold(self, text: str) -> str: ...
    def scan(self, texts: Sequence[str]) -> Scan: ...

from collections.abc import Callable, Sequence

class Pieces:
    def __init__(
        self,
        *,
        spelled: object,
        likelihoods: object,
        unknown: float,
        spelling: object,
        plain: Callable[[str], str],
        fold: dict[int, str],
        table: object,
        scales: object,
    ) -> None: ...
    def cut(self, texts: Sequence[str]) -> list[bytes]: ...
    def embed(self, texts: Sequence[str], out: object, dim: int, damping: float) -> None: ...

"""What a version must be for a catalog to take it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from headwater.errors import UsageError
from headwater.selection import TICKET_BITS
from headwater.types import Space, Version, indexed_count, stacked


def check_versions(versions: Collection[Version], space: Space | None) -> None:
    """Refuse what would make the catalog say something that is not so."""
    if space is None:
        raise UsageError("nothing can be committed before open_space has said what it is made with")
    for version in versions:
        _check_version(version, space)
    filled = [version.vectors for version in versions if version.vectors is not None]
    if filled and not np.isfinite(stacked(filled)).all():
        for version in versions:
            if version.vectors is not None and not np.isfinite(version.vectors).all():
                raise _bad_vectors(version, version.vectors.shape)


def _check_version(version: Version, space: Space) -> None:
    change, document, chunks = version.change, version.document, version.chunks
    if change.ticket < 1:
        raise UsageError(f"a version needs a ticket, got {change.ticket} for {change.uri!r}; claim or draw the change")
    if not chunks:
        return
    if document is None:
        raise UsageError(f"{len(chunks)} chunks came without their document for {change.uri!r}; send it with them")
    text, expected = document.text, change.ticket << TICKET_BITS
    for chunk in chunks:
        start, stop = chunk.span
        if chunk.id != expected:
            raise UsageError(f"chunk ids of {change.uri!r} must run from {change.ticket} << 20, got {chunk.id}")
        if text[start:stop] != chunk.text:
            raise UsageError(
                f"the text of a chunk of {change.uri!r} is not what stands at {start}-{stop}; cut it again"
            )
        expected += 1
    wanted = (indexed_count(chunks), space.dim)
    if version.vectors is not None and version.vectors.shape != wanted:
        raise _bad_vectors(version, wanted)


def _bad_vectors(version: Version, wanted: tuple[int, ...]) -> UsageError:
    assert version.vectors is not None
    return UsageError(
        f"{version.change.uri!r} needs a matrix of shape {wanted} of finite numbers, got one of shape "
        f"{version.vectors.shape}; check the embedder"
    )

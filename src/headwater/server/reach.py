"""A caller -> what it can reach: its view of the home, its datasets, and the documents it may change."""

from collections.abc import Iterable, Sequence

from headwater.build import KnowledgeBase
from headwater.errors import NotFound
from headwater.filters import Compare, Filter, conjoin, disjoin
from headwater.server.auth import Caller, Forbidden
from headwater.server.state import State
from headwater.storage.ledger import Dataset, File
from headwater.turns import Conversation
from headwater.types import DEFAULT_COLLECTION, Record, attributes, document_id

__all__ = [
    "Forbidden",
    "NotFound",
    "conversation",
    "dataset",
    "datasets",
    "destination",
    "document",
    "file",
    "files",
    "only",
    "own_collections",
    "own_dataset",
    "own_file",
    "reads",
    "view",
    "visible",
    "whole_owner",
    "writable_collection",
]


def datasets(state: State, caller: Caller) -> list[Dataset]:
    """The datasets a caller may see: its own, then those that others share."""
    known = {found.collection for found in state.ledger.datasets.of(caller.owner)}
    for owner, collection in state.counts():
        if owner == caller.owner and collection not in known:
            state.ledger.datasets.ensure(owner, collection)
    found = [*state.ledger.datasets.of(caller.owner), *state.ledger.datasets.shared(but=caller.owner)]
    if caller.collections:
        found = [one for one in found if {one.id, one.name, one.collection} & set(caller.collections)]
    return found


def view(state: State, caller: Caller) -> KnowledgeBase:
    """The home as the caller sees it."""
    shared = [
        (one.owner, one.collection)
        for one in state.ledger.datasets.shared(but=caller.owner)
        if not caller.collections or {one.id, one.name, one.collection} & set(caller.collections)
    ]
    if not caller.collections:
        return state.kb.for_owner(caller.owner, shared=shared)
    return state.kb.for_owner(caller.owner, collections=own_collections(state, caller), shared=shared)


def own_collections(state: State, caller: Caller) -> list[str] | None:
    """Those of its owner that a key for some collections reaches; None for a key for all."""
    if not caller.collections:
        return None
    return [one.collection for one in datasets(state, caller) if one.owner == caller.owner]


def dataset(state: State, caller: Caller, given: str) -> Dataset:
    """One that the caller may see; NotFound for any other, whether it exists or not."""
    found = state.ledger.datasets.get(given)
    if found is None or found not in datasets(state, caller):
        raise NotFound(f"no dataset has the id {given!r}; list the datasets to see those that exist")
    return found


def own_dataset(state: State, caller: Caller, given: str) -> Dataset:
    """One that the caller may change."""
    found = dataset(state, caller, given)
    if found.owner != caller.owner:
        raise Forbidden(f"the dataset {found.name!r} is shared by somebody else; only its owner changes it")
    return found


def writable_collection(state: State, caller: Caller, name: str) -> Dataset:
    """The caller's dataset of this name or id, made where it is missing."""
    for one in datasets(state, caller):
        if one.owner == caller.owner and name in (one.id, one.name, one.collection):
            return one
    if caller.collections and name not in caller.collections:
        raise Forbidden(f"your key is for {', '.join(caller.collections)}, not for {name!r}")
    return state.ledger.datasets.create(caller.owner, name)


def destination(
    state: State, caller: Caller, *, dataset_id: str | None = None, collection: str | None = None
) -> Dataset:
    """Where a document goes: the dataset that is named, by id or by name, else the first one that the caller has."""
    if dataset_id:
        return own_dataset(state, caller, dataset_id)
    default = caller.collections[0] if caller.collections else DEFAULT_COLLECTION
    return writable_collection(state, caller, collection or default)


def document(state: State, caller: Caller, *, within: Dataset, given: str) -> Record:
    """A document of a dataset that the caller may see."""
    found = view(state, caller).seen(given)
    if (found.owner, found.collection) != (within.owner, within.collection):
        raise NotFound(f"no document has the id {given!r}; list the documents to see those that exist")
    return found


def files(state: State, caller: Caller) -> list[File]:
    """Those that the caller's owner sent, as far as its key reaches."""
    pairs = _pairs(state, caller)
    return [one for one in state.ledger.files.of(caller.owner) if _may_see(state, caller, one, pairs)]


def file(state: State, caller: Caller, given: str) -> File | None:
    """One that the caller may see: sent by its owner, or a document of a dataset it may see; None for any other."""
    found = state.ledger.files.get(given)
    return found if found is not None and _may_see(state, caller, found, _pairs(state, caller)) else None


def own_file(state: State, caller: Caller, given: str) -> File:
    """One that the caller may put into datasets."""
    found = file(state, caller, given)
    if found is None:
        raise NotFound(f"no file has the id {given!r}; list the files to see those that exist")
    if found.owner != caller.owner:
        raise Forbidden(f"the file {found.name!r} was sent by somebody else; send it yourself to use it")
    return found


def _pairs(state: State, caller: Caller) -> set[tuple[str, str]]:
    return {(one.owner, one.collection) for one in datasets(state, caller)}


def _may_see(state: State, caller: Caller, one: File, pairs: set[tuple[str, str]]) -> bool:
    """A key for some collections sees what such a key sent, and what is in those collections."""
    reaches = not caller.collections or (one.collections and set(one.collections) <= set(caller.collections))
    if one.owner == caller.owner and reaches:
        return True
    return any((made.owner, made.collection) in pairs for made in state.ledger.files.documents(one))


def visible(state: State, caller: Caller, documents: Iterable[str]) -> set[str]:
    """Those of these documents that exist and that the caller may see."""
    seen = view(state, caller)
    records = map(state.kb.catalog.record, set(documents))
    return {one.id for one in records if one is not None and seen.scope.matches(attributes(one))}


def conversation(state: State, caller: Caller, given: str) -> Conversation:
    """One of the owner's with all that was said; for a key for some collections, if no answer in it quotes another."""
    found = view(state, caller).conversations.get(given)
    if not reads(state, caller, found):
        raise NotFound(f"no conversation has the id {given!r}; list the conversations to see those that exist")
    return found


def reads(state: State, caller: Caller, found: Conversation) -> bool:
    """Whether the caller may know of a conversation: its questions, too, are about what its answers quote."""
    if not caller.collections:
        return True
    quoted = {one.document_id: one.uri for turn in found.turns for one in turn.citations}
    own = own_collections(state, caller) or ()
    # A document that is there no more still says by its id where it was.
    gone = {id for id, uri in quoted.items() if any(document_id(caller.owner, name, uri) == id for name in own)}
    return not quoted.keys() - gone - visible(state, caller, quoted.keys() - gone)


def whole_owner(caller: Caller, what: str) -> None:
    """Refuse a key for some collections what is of all of them."""
    if caller.collections:
        raise Forbidden(f"your key is for {', '.join(caller.collections)}, and the {what} is of all collections")


def only(chosen: Sequence[Dataset]) -> Filter:
    """A filter for these datasets and no other."""
    return disjoin(
        *(conjoin(Compare("owner", "=", one.owner), Compare("collection", "=", one.collection)) for one in chosen)
    )

"""A request -> who is asking: an owner, the collections a key names, and what it may do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from headwater.errors import UsageError
from headwater.server.state import State, state_of
from headwater.storage.ledger import Rights
from headwater.types import LOCAL_OWNER

_RANK: dict[str, int] = {"read": 0, "write": 1, "admin": 2}
# Documented in OpenAPI; what is missing is refused here, in our own words.
_bearer = HTTPBearer(auto_error=False, description="A key of `headwater key create`. Not needed where there are none.")


class Unauthorized(UsageError):
    """No key, or none that is valid."""


class Forbidden(UsageError):
    """A key that does not allow this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who is asking. Without collections, all that the owner has and all that is shared."""

    owner: str
    rights: Rights = "read"
    collections: tuple[str, ...] = ()
    key_id: str = ""

    def may(self, wanted: Rights) -> bool:
        """Whether this is allowed."""
        return _RANK[self.rights] >= _RANK[wanted]


async def caller_of(
    request: Request, said: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)] = None
) -> Caller:
    """The caller of a request; raises Unauthorized. One look into a table, for which no thread is worth it."""
    return authenticate(state_of(request), said.credentials if said else None, request)


def authenticate(state: State, secret: str | None, request: Any = None) -> Caller:
    """Who a secret belongs to. Without one: the local owner, where no key is needed."""
    if secret:
        key = state.ledger.keys.find(secret)
        if key is None:
            raise Unauthorized("this key is unknown, revoked or expired; make one with `headwater key create`")
        return Caller(owner=key.owner, rights=key.rights, collections=key.collections, key_id=key.id)
    if request is not None and request.headers.get("authorization"):
        raise Unauthorized("the Authorization header must be `Bearer KEY`")
    if state.needs_key():
        raise Unauthorized("a key is needed: send `Authorization: Bearer KEY`; make one with `headwater key create`")
    return Caller(owner=LOCAL_OWNER, rights="admin")


def may_manage(caller: Caller, *, owner: str, of: Sequence[str]) -> bool:
    """Whether a key for this owner and these collections reaches no further than the caller's own.

    The owner `local`, who runs the server, manages the keys of all.
    """
    if caller.owner == LOCAL_OWNER and not caller.collections:
        return True
    narrow = not caller.collections or (bool(of) and set(of) <= set(caller.collections))
    return owner == caller.owner and narrow


def _needs(rights: Rights) -> Callable[..., Any]:
    async def check(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        if not caller.may(rights):
            raise Forbidden(f"this needs a key with the right to {rights}; yours is for {caller.rights}")
        return caller

    return check


Reader = Annotated[Caller, Depends(_needs("read"))]
Writer = Annotated[Caller, Depends(_needs("write"))]
Admin = Annotated[Caller, Depends(_needs("admin"))]

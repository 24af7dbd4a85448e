"""Who calls, and what they may do. Every route names exactly one need; a test checks all routes.

| kind   | who                                                             | may                            |
|--------|-----------------------------------------------------------------|--------------------------------|
| local  | any caller on this machine, while the store has no token        | everything, for any org        |
| admin  | an operator                                                     | everything, for any org        |
| writer | a trusted service, of one org or (without an org) of all        | read, append                   |
| tenant | a customer, of one org                                          | read                           |
| peer   | another node of a community                                     | what is served to peers        |

A caller bound to an org sees only the events of that org, and nothing of the infrastructure: neither `tally.*` streams
nor the kinds that are declared as infrastructure. What a caller may not see looks like something that does not exist.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tallystick import errors
from tallystick.server.gate import CALLER

if TYPE_CHECKING:
    from tallystick.server.service import Service

_SCHEME = "bearer "

CONNECTION = "tally.connection"  # in the scope of a request: the connection that it came on


class Need(enum.Enum):
    """What a caller must be allowed to do, to use a route."""

    OPEN = "look at what is public"
    READ = "read"
    APPEND = "append"
    ADMIN = "administer the store"
    PEER = "act as a peer"


_EVERYTHING = frozenset(Need)
MAY: dict[str, frozenset[Need]] = {
    "nobody": frozenset({Need.OPEN}),
    "local": _EVERYTHING,
    "admin": _EVERYTHING,
    "writer": frozenset({Need.OPEN, Need.READ, Need.APPEND}),
    "tenant": frozenset({Need.OPEN, Need.READ}),
    "peer": frozenset({Need.OPEN, Need.PEER}),
}


class Principal(msgspec.Struct, frozen=True):
    """A caller: its kind, its org (None: it is not bound to one), its name, and its token."""

    kind: str
    org: str | None
    actor: str
    token_id: str = ""

    @property
    def actor_type(self) -> str:
        """The value of `actor_type` in the meta of events."""
        return "user" if self.kind in ("local", "tenant") else "service_principal"

    @property
    def caller(self) -> str | None:
        """Whose share of the limits its requests use: its org's, or its token's. None: no share limits it."""
        return f"org {self.org}" if self.org is not None else f"token {self.token_id}" if self.token_id else None

    def may(self, need: Need) -> bool:
        """Whether it is allowed to do this."""
        return need in MAY[self.kind]


LOCAL = Principal("local", None, "local")
NOBODY = Principal("nobody", None, "nobody")


class Grant(Protocol):
    """What a token allows, and for whom."""

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def actor(self) -> str: ...
    @property
    def org(self) -> str | None: ...


class TokenBook(Protocol):
    """The tokens of a store, as authorisation uses them."""

    @property
    def required(self) -> bool:
        """Whether a token was issued. Then every caller needs one."""

    @property
    def is_stale(self) -> bool:
        """Whether another process may have changed the tokens since the last look."""

    async def fresh(self) -> None:
        """Look again if the book is stale."""

    async def authenticate(self, secret: str) -> Grant:
        """What the token allows. An unknown, expired or revoked token is refused with an error."""


class NoTokens:
    """The book of a store that has no tokens."""

    required = False
    is_stale = False

    async def fresh(self) -> None:
        """There is nothing to look at."""

    async def authenticate(self, secret: str) -> Grant:
        """Refuse every token."""
        raise errors.NotAuthenticated(reason="this store has issued none")


async def authorise(service: Service, scope: Any, need: Need) -> Principal:
    """The caller who sent this request. Raises `NotAuthenticated` or `NotAllowed` if they may not do what it needs."""
    principal = await _identify(service, bearer(scope["headers"]), need)
    if not principal.may(need):
        if principal is NOBODY:
            raise errors.NotAuthenticated(reason="the request shows none")
        raise errors.NotAllowed(kind=principal.kind, what=need.value)
    scope["tally.principal"] = principal
    caller = _address(scope) if principal is NOBODY else principal.caller
    CALLER.set(caller)
    if principal is not NOBODY and CONNECTION in scope:
        scope[CONNECTION].identify(caller)
    return principal


def _address(scope: Any) -> str:
    client = scope.get("client")
    return f"address {client[0]}" if client else "address"


async def _identify(service: Service, secret: str | None, need: Need) -> Principal:
    if need is Need.OPEN:  # probes get an answer even if the store cannot say who has a token
        return NOBODY
    if secret is None:
        if service.tokens.is_stale:
            await service.tokens.fresh()
        return NOBODY if service.needs_token else LOCAL
    return await holder(service.tokens, secret)


async def holder(tokens: TokenBook, secret: str) -> Principal:
    """The principal who holds a token."""
    try:
        grant = await tokens.authenticate(secret)
    except errors.Refused as refused:
        raise errors.NotAuthenticated(reason=refused.message) from None
    if grant.kind not in MAY or (grant.kind == "tenant" and not grant.org):
        raise errors.NotAuthenticated(reason="its kind is unknown, or it is a tenant token without an org")
    return Principal(grant.kind, grant.org, grant.actor, grant.id)


def bearer(headers: list[tuple[bytes, bytes]]) -> str | None:
    """The token in the header of a request; None without the header. Several headers or another scheme are refused."""
    found = [value for name, value in headers if name == b"authorization"]
    if not found:
        return None
    text = found[0].decode("latin-1")
    if len(found) > 1 or text[: len(_SCHEME)].lower() != _SCHEME or not text[len(_SCHEME) :].strip():
        raise errors.NotAuthenticated(reason="there must be one `Authorization: Bearer TOKEN`")
    return text[len(_SCHEME) :].strip()

"""Tokens: who may use the service. They are control facts of the store, so every engine keeps them, and the audit too.

A token is `tally_<kind>_<43 characters of base 62>`: 256 bits from the system, in a form that secret scanners and our
own guard recognise. It is shown once, when it is issued. The store keeps only its SHA-256.

- A token is refused as soon as it expires, or as soon as this process records its revocation. A revocation that another
  process recorded takes effect within `FRESH_SECONDS`.
- If the facts cannot be read, every caller is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
import string
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from tallystick import errors
from tallystick.event import names
from tallystick.event.model import Event, NewEvent
from tallystick.store import facts
from tallystick.store.idempotency import CommandRecord
from tallystick.store.selection import Selection
from tallystick.store.store import Store

STREAM = "tally.store/tokens"
ISSUED = "tally.token.issued"
REVOKED = "tally.token.revoked"

KINDS = ("tenant", "writer", "admin", "peer")
LIFETIME_DAYS = 90
LIFETIME_DAYS_MAX = 3650
FRESH_SECONDS = 0.5

FORM = re.compile(r"tally_(?:tenant|writer|admin|peer)_[0-9A-Za-z]{43}")

_DAY_NS = 24 * 3600 * 1_000_000_000
_BASE62 = string.digits + string.ascii_letters
_RANDOM_CHARACTERS = 43  # 62^43 > 2^256
_PAGE = 1000


class TokenIssued(facts.Fact, frozen=True, kw_only=True):
    """A token was issued. The meta does not name its org, because one stream has the tokens of all orgs."""

    id: str
    kind: str
    actor: str
    org: str | None
    sha256: str
    expires: int
    note: str = ""


class TokenRevoked(facts.Fact, frozen=True, kw_only=True):
    """A token was revoked, and why."""

    id: str
    reason: str = ""


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret. Times are in ns."""

    id: str
    kind: str
    actor: str
    org: str | None
    issued: int
    expires: int
    revoked: int | None = None
    note: str = ""

    def refusal(self, now: int) -> str | None:
        """Why it is refused at this time; None if it is accepted."""
        if self.revoked is not None:
            return "it was revoked"
        return "it has expired" if now >= self.expires else None


class Issued(msgspec.Struct, frozen=True):
    """A new token with its secret, which is stored nowhere."""

    token: Token
    secret: str

    def __repr__(self) -> str:
        return f"Issued(token={self.token!r}, secret=…)"


class Tokens:
    """The tokens of a store. A check reads no disk; `refresh` reads the facts that were recorded since."""

    def __init__(self, store: Store, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._monotonic = monotonic
        self._reading = threading.Lock()
        self._turn: asyncio.Lock | None = None
        # A thread of its own, because the threads of the event loop may all be busy with large bodies.
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="tallystick-tokens")
        self._seq = 0
        self._has_lost = False
        self._by_id: dict[str, Token] = {}
        self._id_by_hash: dict[str, str] = {}
        self._refreshed = float("-inf")
        self.refresh()

    # --- looking ---------------------------------------------------------------------------------------------------

    @property
    def required(self) -> bool:
        """Whether a token was ever issued, or may have been. This stays true when the last token has expired."""
        return bool(self._by_id) or self._has_lost

    @property
    def usable(self) -> bool:
        """Whether any token is accepted now."""
        now = self._store.clock()
        return any(token.refusal(now) is None for token in self._by_id.values())

    def all(self) -> list[Token]:
        """Every token that was ever issued, oldest first."""
        return sorted(self._by_id.values(), key=lambda token: (token.issued, token.id))

    @property
    def is_stale(self) -> bool:
        """Whether another process may have recorded facts since the last look."""
        return self._monotonic() - self._refreshed >= FRESH_SECONDS

    def check(self, secret: str) -> Token:
        """The token with this secret; `TokenRefused` if it is not accepted now. It looks again first if it is stale."""
        if self.is_stale:
            self.refresh()
        return self._check(secret)

    async def authenticate(self, secret: str) -> Token:
        """`check` for an event loop: one task looks again in a thread, and the others wait for it."""
        await self.fresh()
        return self._check(secret)

    async def fresh(self) -> None:
        """Look again if the tokens are stale."""
        if not self.is_stale:
            return
        self._turn = self._turn or asyncio.Lock()
        async with self._turn:
            if self.is_stale:
                await asyncio.get_running_loop().run_in_executor(self._looking, self.refresh)

    def _check(self, secret: str) -> Token:
        if not FORM.fullmatch(secret):
            raise errors.TokenRefused(reason="it does not have the form of one")
        digest = _hash(secret)
        id_ = self._id_by_hash.get(digest)
        token = self._by_id.get(id_) if id_ is not None else None
        # The lookup compares hashes, which say nothing about similar secrets. The kind is part of the secret.
        if token is None or not hmac.compare_digest(secret.split("_")[1], token.kind):
            raise errors.TokenRefused(reason="it is unknown here")
        if (reason := token.refusal(self._store.clock())) is not None:
            raise errors.TokenRefused(reason=reason)
        return token

    def refresh(self) -> None:
        """Read the facts that were recorded since the last look."""
        with self._reading:
            looked = self._monotonic()
            head = self._store.stream_head(STREAM)
            try:
                while head is not None and self._seq < head.seq:
                    self._take(self._store.read_stream(STREAM, after=self._seq, until=head.seq, limit=_PAGE))
            except errors.HistoryLost:
                assert head is not None
                self._begin_again(head.seq)
            self._refreshed = looked

    def _begin_again(self, seq: int) -> None:
        """Start again after facts were lost. Any of them may have revoked a token, so only later tokens count."""
        after = max(loss.last for loss in self._store.log.losses())
        mine = Selection(streams=frozenset({STREAM}))
        self._has_lost, self._by_id, self._id_by_hash = True, {}, {}
        if found := list(self._store.events(after=after, selection=mine)):
            self._take(found)
        else:
            self._seq = seq

    def _take(self, events: list[Event]) -> None:
        if not events:
            raise errors.ReadFailed(path=STREAM, reason="events are missing there")
        tokens, hashes = dict(self._by_id), dict(self._id_by_hash)
        for event in events:
            if event.type == ISSUED:
                issued = facts.parse(event, TokenIssued)
                tokens.setdefault(issued.id, _token(issued, event.time))
                hashes.setdefault(issued.sha256, issued.id)
            elif event.type == REVOKED:
                id_ = facts.parse(event, TokenRevoked).id
                if id_ in tokens and tokens[id_].revoked is None:
                    tokens[id_] = msgspec.structs.replace(tokens[id_], revoked=event.time)
        self._by_id, self._id_by_hash, self._seq = tokens, hashes, events[-1].seq

    # --- changing --------------------------------------------------------------------------------------------------

    def issue(
        self,
        kind: str,
        *,
        actor: str,
        org: str | None = None,
        days: float = LIFETIME_DAYS,
        note: str = "",
        by: str = "local",
        command: Callable[[Token], CommandRecord] | None = None,
    ) -> Issued:
        """Issue a token for `actor`, on behalf of `by`. A tenant's token must name the org, others may.

        The record that `command` makes goes into the same commit.
        """
        _check_claims(kind, actor, org, days, note)
        self.refresh()
        now = self._store.clock()
        secret = f"tally_{kind}_" + "".join(secrets.choice(_BASE62) for _ in range(_RANDOM_CHARACTERS))
        fact = TokenIssued(
            stream="",
            id=self._new_id(),
            kind=kind,
            actor=actor,
            org=org,
            sha256=_hash(secret),
            expires=now + round(days * _DAY_NS),
            note=note,
        )
        record = None if command is None else command(_token(fact, now))
        self._record(ISSUED, fact, by, time_ns=now, command=record)
        return Issued(self._by_id[fact.id], secret)

    def revoke(self, id: str, *, reason: str = "", by: str = "local") -> Token:
        """Revoke a token. A second call changes nothing."""
        if reason:
            names.check_label("reason", reason)
        self.refresh()
        if id not in self._by_id:
            raise errors.TokenUnknown(id=_displayable(id))
        if self._by_id[id].revoked is None:
            self._record(REVOKED, TokenRevoked(stream="", id=id, reason=reason), by)
        return self._by_id[id]

    def _new_id(self) -> str:
        while (id_ := secrets.token_hex(6)) in self._by_id:
            continue
        return id_

    def _record(
        self,
        type_: str,
        fact: facts.Fact,
        by: str,
        *,
        time_ns: int | None = None,
        command: CommandRecord | None = None,
    ) -> None:
        meta = {"actor_type": "user", "actor_id": by}
        self._store.record([(STREAM, NewEvent(type_, fact.payload, meta=meta, time=time_ns))], command=command)
        self.refresh()


def _token(fact: TokenIssued, time_ns: int) -> Token:
    return Token(
        id=fact.id,
        kind=fact.kind,
        actor=fact.actor,
        org=fact.org,
        issued=time_ns,
        expires=fact.expires,
        note=fact.note,
    )


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _displayable(id: str) -> str:
    """An id that may be repeated in a log: a caller may have given the secret instead of the id."""
    return "…" if id.startswith("tally_") else id[:40]


def _check_claims(kind: str, actor: str, org: str | None, days: float, note: str) -> None:
    if kind not in KINDS:
        raise errors.InvalidValue(what="kind of token", value=names.display(kind), must="one of " + ", ".join(KINDS))
    names.check_label("actor", actor)
    if org is not None:
        names.check_label("org", org)
    elif kind == "tenant":
        raise errors.InvalidValue(what="org", value=None, must="the org that the tenant belongs to")
    if org is not None and kind in ("admin", "peer"):
        raise errors.InvalidValue(what="org", value=org, must=f"left out: a token of kind {kind!r} is for the store")
    if note:
        names.check_label("note", note)
    if not 0 < days <= LIFETIME_DAYS_MAX:
        raise errors.InvalidValue(what="days", value=days, must=f"more than 0, at most {LIFETIME_DAYS_MAX}")

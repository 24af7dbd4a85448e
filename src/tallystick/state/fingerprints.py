"""Fingerprints: one hash over a stream's events and the state that follows from them, sealed as a control fact.

Sealing requires that the stream still ends where it was folded. A fingerprint is stale when the stream has grown or an
event under it was erased, until it is sealed again. A fingerprint by other code is not comparable; that is not damage.
"""

from __future__ import annotations

import msgspec

from tallystick import errors
from tallystick.event.model import NewEvent
from tallystick.state import shelf
from tallystick.state.fold import State, Until, check_state
from tallystick.state.reducer import Reducer
from tallystick.state.snapshots import control, fold, retry_on_new_facts
from tallystick.store import facts
from tallystick.store.claims import fingerprint
from tallystick.store.store import Store


class Seal(msgspec.Struct, frozen=True):
    """The newest fingerprint of a stream, and why it is stale (empty: it is not).

    `erased` is the first seq under it that was erased since; 0 if none was. Then it cannot be compared.
    """

    fact: facts.Sealed
    stale: str
    erased: int = 0


class Comparison(msgspec.Struct, frozen=True):
    """The fingerprints of full replay, of snapshot + tail, and the stored one; None if there is none."""

    stream: str
    seq: int
    stored: bytes | None
    full: bytes | None
    resumed: bytes | None
    reason: str = ""

    @property
    def equal(self) -> bool:
        """Whether all that exist are equal."""
        return len({item for item in (self.stored, self.full, self.resumed) if item is not None}) <= 1


def seal(store: Store, reducer: Reducer, stream: str) -> facts.Sealed:
    """Seal the fingerprint of a stream at its end."""

    def attempt(require: list[tuple[str, int]]) -> facts.Sealed:
        state = fold(store, reducer, stream)
        if state.seq == 0:
            raise errors.SnapshotUnusable(snapshot="", reason=f"{stream!r} has no events to seal")
        fact = sealed_fact(store, reducer, state)
        store.record([(shelf.facts_stream(stream), as_event(store, fact))], require=[(stream, state.seq), *require])
        return fact

    return retry_on_new_facts(store, stream, attempt)


def sealed_fact(store: Store, reducer: Reducer, state: State) -> facts.Sealed:
    """The fact that seals a state."""
    check_state(reducer, state)
    return facts.Sealed(
        stream=state.stream,
        seq=state.seq,
        link=state.link.hex(),
        reducer=reducer.name,
        reducer_version=reducer.version,
        upcasters=shelf.upcasters_of(store, reducer).hex(),
        state_hash=state.hash.hex(),
        fingerprint=fingerprint(state.link, state.hash).hex(),
    )


def as_event(store: Store, fact: facts.Sealed) -> NewEvent:
    """The control event of a seal."""
    return control(store, facts.SEALED, fact)


def latest(store: Store, stream: str, *, reducer: str | None = None) -> Seal | None:
    """The newest fingerprint of a stream (by one reducer, if named); None if it was never sealed."""
    erased = 0
    for event in shelf.facts_backwards(store, stream):
        if event.type == facts.ERASED:
            seq = facts.parse(event, facts.Erased).seq
            erased = min(erased, seq) if erased else seq
        elif event.type == facts.SEALED:
            fact = facts.parse(event, facts.Sealed)
            if reducer is None or fact.reducer == reducer:
                under = erased if erased <= fact.seq else 0
                return Seal(fact, _stale(store, fact, under), under)
    return None


def _stale(store: Store, fact: facts.Sealed, erased: int) -> str:
    if erased:
        return f"seq {erased} was erased since"
    head = store.stream_head(fact.stream)
    return f"the stream continued to seq {head.seq}" if head is not None and head.seq > fact.seq else ""


def compare(store: Store, reducer: Reducer, stream: str) -> Comparison:
    """Fold a stream in full and from its snapshot, up to its newest comparable fingerprint, and compare all three."""
    found = latest(store, stream, reducer=reducer.name)
    reason, until, stored = "never sealed", Until(), None
    if found is not None and not shelf.same_code(store, reducer, found.fact):
        reason = f"sealed by version {found.fact.reducer_version} or through other upcasters: not comparable"
    elif found is not None and found.erased:
        reason = found.stale
    elif found is not None:
        reason, until, stored = "", Until(seq=found.fact.seq), bytes.fromhex(found.fact.fingerprint)
    full: bytes | None = None
    try:
        full = _print(fold(store, reducer, stream, until=until, snapshots=False))
    except errors.HistoryPruned:
        reason = reason or "pruned: only snapshot and tail can be folded"
    try:
        resumed = fold(store, reducer, stream, until=until)
    except errors.HistoryPruned:
        seq = until.seq if until.seq is not None else 0
        return Comparison(stream, seq, stored, full, None, "pruned: no snapshot from before the fingerprint is left")
    return Comparison(stream, resumed.seq, stored, full, _print(resumed), reason)


def _print(state: State) -> bytes:
    return fingerprint(state.link, state.hash)

"""Snapshots of a run: `snapshot.json` next to its log, or bodies in the store if the engine stores them.

`snapshot.json` is the state of the run as canonical JSON. It is replaced atomically and derived only from the events. A
run continues from a snapshot only if a control fact confirms it: the fact that sealed the run when its last session
ended, or the one that was recorded with a body in the store. Otherwise the events are replayed.
"""

from __future__ import annotations

import json

import msgspec

from tallystick import errors
from tallystick.event import chain
from tallystick.runs import schema
from tallystick.runs.reducer import NAME as REDUCER
from tallystick.runs.reducer import RUN, STATE, at, from_plain
from tallystick.runs.state import RunReducer, RunState
from tallystick.state import fingerprints, shelf
from tallystick.state.fold import Until
from tallystick.store.capabilities import MULTI_STREAM
from tallystick.store.facts import Sealed
from tallystick.store.run_documents import RunDocuments
from tallystick.store.store import Store

NAME = "snapshot.json"
FAILURE = "failure.json"

_decode = msgspec.json.Decoder(RunState).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def encode(state: RunState) -> bytes:
    """The bytes of a snapshot. A state has exactly one text.

    They equal `canonical.encode_state`; a test compares them. All parts of a state come from canonical payloads, so the
    checks of that function are not needed.
    """
    return _encode(state) + b"\n"


def decode(data: bytes) -> RunState:
    """Decode a snapshot. One that does not fit its schema, or is not canonical, is refused with the place."""
    try:
        state = _decode(data)
        if encode(state) == data:
            return state
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as problem:
        raise _refused(f"not JSON: {problem}") from None
    schema.check("snapshot", document)
    raise _refused("it fits the schema, but it is not the canonical form of a state")


def newest(store: Store, run: str, *, until: int | None = None) -> RunReducer | None:
    """The state of the newest snapshot of a run that a control fact confirms; None if there is none."""
    documents = store.log.run_documents
    if documents is not None:
        return _vouched(store, documents, run, until)
    found = shelf.start(store, STATE, RUN + run, until=Until(seq=until))
    return None if found is None else from_plain(found.value)


def _vouched(store: Store, documents: RunDocuments, run: str, until: int | None) -> RunReducer | None:
    """The state in `snapshot.json`, if the run was sealed over exactly this state and this log."""
    sealed = fingerprints.latest(store, RUN + run, reducer=REDUCER)
    if sealed is None or not shelf.same_code(store, STATE, sealed.fact):
        return None
    fact = sealed.fact
    data = documents.load(run, NAME)
    if (until is not None and fact.seq > until) or data is None or data[-1:] != b"\n":
        return None
    if chain.checksum(data[:-1]).hex() != fact.state_hash:
        return None
    last = store.at(RUN + run, fact.seq)
    if last is None or last.link.hex() != fact.link:
        return None
    end, first = last.position, last.position - fact.seq + 1
    is_whole = not any(hole.first <= end and hole.last >= first for hole in store.log.holes())
    return RunReducer(run, decode(data)) if is_whole else None  # a damaged log is reported, even if the state is known


def seal(store: Store, stream: str, reducer: RunReducer) -> Sealed:
    """Seal the fingerprint of a run at its end."""
    if MULTI_STREAM in store.log.capabilities:
        return fingerprints.seal(store, STATE, stream)
    fact = fingerprints.sealed_fact(store, STATE, at(reducer, stream))  # the lease prevents changes
    store.record([(shelf.facts_stream(stream), fingerprints.as_event(store, fact))])
    return fact


def _refused(reason: str) -> errors.SchemaViolation:
    return errors.SchemaViolation(type="snapshot.schema.json", version=1, pointer="", reason=reason[:500])

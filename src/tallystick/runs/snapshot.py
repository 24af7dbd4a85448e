"""`snapshot.json`: the state of a run as canonical JSON, replaced whole, derivable from the events alone."""

from __future__ import annotations

import json
from typing import Protocol

import msgspec

from tallystick import errors
from tallystick.runs import schema
from tallystick.runs.state import RunState

NAME = "snapshot.json"
FAILURE = "failure.json"

_decode = msgspec.json.Decoder(RunState).decode
_encode = msgspec.json.Encoder(order="sorted").encode


class Documents(Protocol):
    """What an engine offers that keeps documents beside a run's log. Others have none, and replay instead."""

    def place(self, run: str) -> str: ...
    def exists(self, run: str) -> bool: ...
    def load(self, run: str, name: str) -> bytes | None: ...
    def replace(self, run: str, name: str, data: bytes) -> None: ...
    def remove(self, run: str, name: str) -> None: ...


def encode(state: RunState) -> bytes:
    """The bytes of a snapshot: one state, exactly one text.

    They are those of `canonical.encode_state`, which a test compares. All parts of a state come from canonical
    payloads, so there is nothing left to refuse, and the walk over every one of them is spared.
    """
    return _encode(state) + b"\n"


def decode(data: bytes) -> RunState:
    """The state of a snapshot; one that does not fit its schema, or is not canonical, is refused with the place."""
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


def _refused(reason: str) -> errors.SchemaViolation:
    return errors.SchemaViolation(type="snapshot.schema.json", version=1, pointer="", reason=reason[:500])

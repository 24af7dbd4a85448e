"""Errors of pruning, erasing, snapshots, folds and moves."""

from __future__ import annotations

from tallystick.errors.given import InvalidInput
from tallystick.errors.refused import Refused

__all__ = [
    "EraseRefused",
    "ExportOutdated",
    "FoldDiverged",
    "MoveRefused",
    "PruneRefused",
    "ReducerFailed",
    "ReducerInvalid",
    "SnapshotUnusable",
    "TransferRefused",
]


class PruneRefused(Refused):
    """A prune is not covered by a snapshot, or its boundary is not allowed."""

    template = "cannot prune {stream!r} before seq {before}: {reason}"
    advice = "Nothing was removed. Make a snapshot that covers the range, or choose another boundary (see --dry-run)."
    stream: str
    before: int
    reason: str


class EraseRefused(Refused):
    """The payload cannot be erased."""

    template = "cannot erase seq {seq} of {stream!r}: {reason}"
    advice = "Nothing was erased. `tally read` shows the events of the stream. Control facts cannot be erased."
    stream: str
    seq: int
    reason: str


class SnapshotUnusable(Refused):
    """The requested snapshot cannot be used."""

    template = "snapshot {snapshot} cannot be used: {reason}"
    advice = "`tally verify` says what is wrong. A fold without it starts from an older one or from the first event."
    snapshot: str
    reason: str


class TransferRefused(Refused):
    """A part of another store's log does not continue where this log ends, or its hashes or numbers are wrong."""

    template = "position {position} cannot be taken over: {reason}"
    advice = "Nothing of this part was written. Export the other store again, and check it with `tally verify`."
    position: int
    reason: str


class MoveRefused(Refused):
    """The store cannot take over a whole export with pruned or erased parts."""

    template = "{url} cannot take over the export: {reason}"
    advice = "Parts of it were pruned or erased. Import into a new store of the same profile, of any engine but ndjson."
    url: str
    reason: str


class ExportOutdated(Refused):
    """Events were pruned or erased during the export."""

    template = "{url} was pruned or erased while it was exported"
    advice = "The export has no last line, so it cannot be imported. Run it again."
    url: str


class ReducerInvalid(InvalidInput):
    """A reducer lacks a required part, does not fold what was asked for, or has the name of another one."""

    template = "reducer {name!r}: {reason}"
    advice = "A reducer has a name, a version, initial() and apply(state, event); see docs/state.md."
    name: str
    reason: str


class ReducerFailed(Refused):
    """A reducer raised an exception, or returned a state that is not plain JSON."""

    template = "reducer {name!r} failed at seq {seq} of {stream!r}: {reason}"
    advice = "Fix the reducer. The log is unchanged. An erased event has the payload None."
    name: str
    stream: str
    seq: int
    reason: str


class FoldDiverged(Refused):
    """A reducer gives another state if its state was sent through JSON: it depends on key order or identity."""

    template = "reducer {name!r} is not a function of its JSON state: two folds differ at seq {seq} of {stream!r}"
    advice = "Do not depend on the order of keys, on object identity, or on anything that JSON does not keep."
    name: str
    stream: str
    seq: int

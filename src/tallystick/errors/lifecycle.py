"""What pruning, erasing, snapshots and folds refuse."""

from __future__ import annotations

from tallystick.errors.given import InvalidInput
from tallystick.errors.refused import Refused

__all__ = [
    "EraseRefused",
    "FoldDiverged",
    "PruneRefused",
    "ReducerFailed",
    "ReducerInvalid",
    "SnapshotUnusable",
]


class PruneRefused(Refused):
    """Pruning would lose what nothing covers, or cut where no cut may be."""

    template = "cannot prune {stream!r} before seq {before}: {reason}"
    advice = "Nothing was removed. Make a snapshot that covers the range, or choose another boundary (--dry-run shows)."
    stream: str
    before: int
    reason: str


class EraseRefused(Refused):
    """The payload cannot be erased."""

    template = "cannot erase seq {seq} of {stream!r}: {reason}"
    advice = "Nothing was erased. `tally read` shows what the stream holds; control facts cannot be erased."
    stream: str
    seq: int
    reason: str


class SnapshotUnusable(Refused):
    """A snapshot was asked for that cannot be used."""

    template = "snapshot {snapshot} cannot be used: {reason}"
    advice = "`tally verify` says what is wrong; a fold without it starts from an older one or from the first event."
    snapshot: str
    reason: str


class ReducerInvalid(InvalidInput):
    """A reducer lacks something, or two of them share a name."""

    template = "reducer {name!r}: {reason}"
    advice = "A reducer has a name, a version, initial() and apply(state, event); see docs/state.md."
    name: str
    reason: str


class ReducerFailed(Refused):
    """A reducer raised an exception, or gave a state that is not plain JSON."""

    template = "reducer {name!r} failed at seq {seq} of {stream!r}: {reason}"
    advice = "Mend the reducer; the log is unchanged. An erased event has the payload None."
    name: str
    stream: str
    seq: int
    reason: str


class FoldDiverged(Refused):
    """A reducer gives another state when its state went through JSON: it depends on key order or identity."""

    template = "reducer {name!r} is not a function of its JSON state: it parts at seq {seq} of {stream!r}"
    advice = "Do not depend on the order of keys, on object identity, or on anything that JSON does not keep."
    name: str
    stream: str
    seq: int

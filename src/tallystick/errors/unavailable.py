"""The store cannot be used as asked."""

from __future__ import annotations

from tallystick.errors.base import TallyError

__all__ = [
    "Busy",
    "CheckpointDamaged",
    "Damaged",
    "DeadLettersDamaged",
    "FormatTooOld",
    "HistoryLost",
    "HistoryReplaced",
    "LargeEventWarning",
    "NewerFormat",
    "NoSpace",
    "NotLoadable",
    "NotPermitted",
    "NotReachable",
    "NotRecorded",
    "OlderFormat",
    "ProjectionNotFound",
    "ReadFailed",
    "ReadOnly",
    "RowsDamaged",
    "StoreClosed",
    "StoreFailed",
    "StoreLocked",
    "StoreNotFound",
    "StreamNotFound",
    "Unavailable",
    "UnknownUrl",
    "UnsafeServer",
]


class Unavailable(TallyError):
    """The store could not be opened or used."""


class UnknownUrl(Unavailable):
    """No engine answers to this URL."""

    template = "cannot open {url!r}: {reason}"
    advice = "Use files:DIR, sqlite:FILE, postgresql://HOST/DATABASE, ndjson:DIR or memory:."
    url: str
    reason: str


class StoreNotFound(Unavailable):
    """There is no store at this place."""

    template = "there is no store at {url!r}"
    advice = "Check the path; a first append creates the store."
    url: str


class StreamNotFound(TallyError):
    """Nothing was ever appended to a stream of this name."""

    template = "there is no stream {stream!r} in {url}"
    advice = "Check the name; `tally streams URL` lists them."
    exit_status = 1
    stream: str
    url: str


class ProjectionNotFound(TallyError):
    """There are no rows of a projection of this name: it has another name, or nobody has run it yet."""

    template = "there are no rows of a projection {name!r}: there are those of {known}"
    advice = "Check the name, or run it first: `tally project URL MODULE:NAME`."
    exit_status = 1
    name: str
    known: str


class StoreLocked(Unavailable):
    """Another process writes to this store."""

    template = "{path} is being written by {owner}"
    advice = "Stop that writer, or open with readonly=True to read beside it."
    path: str
    owner: str


class HistoryReplaced(Unavailable):
    """The log behind an open handle is not the one that it read: a copy that lacks events, or another store."""

    template = "{url} has another history than this handle has read: {reason}"
    advice = "Open the store again, and go on from cursors that it accepts; docs/operations.md says which are safe."
    url: str
    reason: str


class ReadOnly(Unavailable):
    """The store was opened for reading."""

    template = "the store is open read-only: {reason}"
    advice = "Open it for writing."
    reason: str


class NotLoadable(Unavailable):
    """A module, a catalog or a document that was named cannot be loaded."""

    template = "cannot load {reference!r}: {reason}"
    advice = "Give MODULE:NAME of something that can be imported from here, or the path of a file."
    reference: str
    reason: str


class NotReachable(Unavailable):
    """The server of the store does not answer."""

    template = "cannot reach {url}: {reason}"
    advice = "Check that the server runs and the URL is right, and try again; a retry with the same event ids is safe."
    url: str
    reason: str


class NotPermitted(Unavailable):
    """The role that logs in to the server lacks a right."""

    template = "{url} does not allow it: {reason}"
    advice = (
        "Grant it the role it lacks: tally_app to append (tally_reader for one org), tally_control for tokens and "
        "snapshots, tally_maintenance to prune, tally_projector for tables of projections; `tally migrate` needs more."
    )
    url: str
    reason: str


class UnsafeServer(Unavailable):
    """The server or the role is set up so that a promise of the store would not hold."""

    template = "{url} is not safe to use: {reason}"
    advice = "Change that setting and open the store again."
    url: str
    reason: str


class NewerFormat(Unavailable):
    """The store was written by a newer version of tallystick."""

    template = "{path} has format {found}, this version knows up to {known}"
    advice = "Upgrade tallystick; an older version must not touch it."
    path: str
    found: int
    known: int


class OlderFormat(Unavailable):
    """The store has to be migrated before it can be used as asked."""

    template = "{path} has format {found}, this version needs {known}"
    advice = "Run `tally migrate` on it; nothing is lost."
    path: str
    found: int
    known: int


class FormatTooOld(Unavailable):
    """The store was written by a version so old that this one cannot migrate it."""

    template = "{path} has format {found}, this version migrates formats from {oldest}"
    advice = "Run `tally export` with the version that wrote it, and `tally import` into a new store with this one."
    path: str
    found: int
    oldest: int


class StoreClosed(Unavailable):
    """The store was closed."""

    template = "the store is closed"
    advice = "Open it again."


class NoSpace(Unavailable):
    """The disk is full; the commit was rolled back."""

    template = "no space left for {needed} bytes in {path}"
    advice = "Free some room: reads go on, nothing acknowledged is lost, and appends resume by themselves."
    needed: int
    path: str


class StoreFailed(Unavailable):
    """A write or an fsync failed; the outcome is unknown and the writer is poisoned."""

    template = "the writer stopped after {operation} failed: {reason}"
    advice = "Reopen the store: recovery decides what is there. Then retry with the same event ids."
    operation: str
    reason: str


class ReadFailed(Unavailable):
    """The disk did not give back what was asked for."""

    template = "cannot read {path}: {reason}"
    advice = "Nothing was changed. Check the disk and try again; `tally doctor` shows the state of the store."
    path: str
    reason: str


class Busy(Unavailable):
    """The store stayed locked by others for longer than the bound."""

    template = "the store was busy for {waited_ms} ms"
    advice = "Try again with the same event ids; nothing was written."
    waited_ms: int


class Damaged(Unavailable):
    """Bytes that were once acknowledged are gone or changed."""

    template = "positions {first} to {last} are damaged: {reason}"
    advice = "Events outside are readable (after={last}); run `tally doctor`, and refill the range from a copy."
    exit_status = 1
    first: int
    last: int
    reason: str


class RowsDamaged(Unavailable):
    """A row of a projection, or its place, is not what was written. The log is not concerned."""

    template = "the rows of projection {name!r} are damaged: {reason}"
    advice = "Rebuild it with `tally rebuild`; if that is refused too, `tally projections drop` it and run it again."
    exit_status = 1
    name: str
    reason: str


class CheckpointDamaged(Unavailable):
    """The stored place of a consumer is not what was written. The log is not concerned."""

    template = "the checkpoint of {name!r} is damaged: it is not what was written"
    advice = "Drop it with `tally consumers drop` and let the consumer begin again, or set its place."
    exit_status = 1
    name: str


class DeadLettersDamaged(Unavailable):
    """Dead letters vanished underneath, or came from nowhere. The log is not concerned."""

    template = "dead letters are damaged: {kept} were kept, and {found} are found"
    advice = "Look at what is left with `tally deadletters --recount`, which records it. The events are in the log."
    exit_status = 1
    kept: str
    found: int


class HistoryLost(Damaged):
    """The range was damaged, and its loss was accepted: what needs it cannot be had, and is not made from the rest."""

    template = "positions {first} to {last} are lost: {reason}"
    advice = "The loss was accepted (`tally audit`). Events outside are readable: after={last}."


class NotRecorded(Unavailable):
    """What was found damaged could not be put on record, or the record could not be cleared."""

    template = "the record of damage {path} cannot be changed: {reason}"
    advice = "Make its place writable and verify again; until then only this process knows what it found."
    path: str
    reason: str


class LargeEventWarning(UserWarning):
    """An event is past the advisory size: it is stored, but it will be slow to read and replay."""

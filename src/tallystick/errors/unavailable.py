"""The store cannot be opened or used."""

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
    """No engine handles this URL, or the file or directory is not a store."""

    template = "cannot open {url!r}: {reason}"
    advice = "Use files:DIR, sqlite:FILE, postgresql://HOST/DATABASE, ndjson:DIR or memory:."
    url: str
    reason: str


class StoreNotFound(Unavailable):
    """There is no store at this location."""

    template = "there is no store at {url!r}"
    advice = "Check the path. The first append creates the store."
    url: str


class StreamNotFound(TallyError):
    """Nothing was ever appended to a stream with this name."""

    template = "there is no stream {stream!r} in {url}"
    advice = "Check the name. `tally streams URL` lists all streams."
    exit_status = 1
    stream: str
    url: str


class ProjectionNotFound(TallyError):
    """No rows exist for a projection of this name: it has another name, or nobody has run it yet."""

    template = "there are no rows for a projection {name!r}; there are rows for {known}"
    advice = "Check the name, or run it first: `tally project URL MODULE:NAME`."
    exit_status = 1
    name: str
    known: str


class StoreLocked(Unavailable):
    """Another process is writing to this store."""

    template = "{path} is being written by {owner}"
    advice = "Stop that writer, or open with readonly=True to read while it runs."
    path: str
    owner: str


class HistoryReplaced(Unavailable):
    """An open handle was connected to a log that lacks events it has read, or that is another store."""

    template = "{url} does not have the history that this handle has read: {reason}"
    advice = "Open the store again, and continue from cursors that it accepts. docs/operations.md says which are safe."
    url: str
    reason: str


class ReadOnly(Unavailable):
    """The store was opened for reading."""

    template = "the store is open read-only: {reason}"
    advice = "Open it for writing."
    reason: str


class NotLoadable(Unavailable):
    """The given module, catalog or document cannot be loaded."""

    template = "cannot load {reference!r}: {reason}"
    advice = "Give MODULE:NAME of something that can be imported from this directory, or the path of a file."
    reference: str
    reason: str


class NotReachable(Unavailable):
    """The server of the store does not respond."""

    template = "cannot reach {url}: {reason}"
    advice = "Check the URL and that the server runs, and try again. A retry with the same event ids is safe."
    url: str
    reason: str


class NotPermitted(Unavailable):
    """The database role of the login lacks a privilege."""

    template = "{url} does not allow it: {reason}"
    advice = (
        "Grant the role that is missing: tally_app to append (tally_reader for one org), tally_control for tokens and "
        "snapshots, tally_maintenance to prune, tally_projector for tables of projections. `tally migrate` needs more."
    )
    url: str
    reason: str


class UnsafeServer(Unavailable):
    """The server or the role is configured so that a guarantee of the store would not hold."""

    template = "{url} is not safe to use: {reason}"
    advice = "Change that setting and open the store again."
    url: str
    reason: str


class NewerFormat(Unavailable):
    """The store was written by a newer version of tallystick."""

    template = "{path} has format {found}, this version knows formats up to {known}"
    advice = "Upgrade tallystick. An older version must not change the store."
    path: str
    found: int
    known: int


class OlderFormat(Unavailable):
    """The store must be migrated first."""

    template = "{path} has format {found}, this version needs {known}"
    advice = "Run `tally migrate` on it. Nothing is lost."
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
    advice = (
        "Free some disk space. Reads still work, nothing acknowledged is lost, and appends work again as soon as there "
        "is space."
    )
    needed: int
    path: str


class StoreFailed(Unavailable):
    """A write or an fsync failed. The outcome is unknown, and the writer is poisoned."""

    template = "the writer stopped after {operation} failed: {reason}"
    advice = "Open the store again: recovery decides what is stored. Then retry with the same event ids."
    operation: str
    reason: str


class ReadFailed(Unavailable):
    """The disk could not be read."""

    template = "cannot read {path}: {reason}"
    advice = "Nothing was changed. Check the disk and try again; `tally doctor` shows the state of the store."
    path: str
    reason: str


class Busy(Unavailable):
    """Other processes locked the database for longer than `busy_ms`."""

    template = "the store was busy for {waited_ms} ms"
    advice = "Nothing was written. Try again with the same event ids."
    waited_ms: int


class Damaged(Unavailable):
    """Bytes that were acknowledged are gone or changed."""

    template = "positions {first} to {last} are damaged: {reason}"
    advice = "Events outside are readable (after={last}). Run `tally doctor`, and refill the range from a copy."
    exit_status = 1
    first: int
    last: int
    reason: str


class RowsDamaged(Unavailable):
    """A row of a projection, or its place, is not what was written. The log is not affected."""

    template = "the rows of projection {name!r} are damaged: {reason}"
    advice = "Rebuild it with `tally rebuild`. If that fails too, drop it (`tally projections drop`) and run it again."
    exit_status = 1
    name: str
    reason: str


class CheckpointDamaged(Unavailable):
    """The checkpoint of a consumer is not what was written. The log is not affected."""

    template = "the checkpoint of {name!r} is damaged: it is not what was written"
    advice = "Drop it with `tally consumers drop`, and let the consumer start again, or set its position."
    exit_status = 1
    name: str


class DeadLettersDamaged(Unavailable):
    """Dead letters are missing, or were added by something else. The log is not affected."""

    template = "dead letters are damaged: {kept} were stored, {found} were found"
    advice = "Accept the dead letters that are left with `tally deadletters --recount`. The events are in the log."
    exit_status = 1
    kept: str
    found: int


class HistoryLost(Damaged):
    """The range was damaged, and its loss was accepted. Anything that needs it is unavailable."""

    template = "positions {first} to {last} are lost: {reason}"
    advice = "The loss was accepted (`tally audit`). Events outside are readable: after={last}."


class NotRecorded(Unavailable):
    """Damage was found but could not be recorded, or its record could not be cleared."""

    template = "the record of damage {path} cannot be changed: {reason}"
    advice = "Make its directory writable and run `tally verify`. Until then only this process knows of the damage."
    path: str
    reason: str


class LargeEventWarning(UserWarning):
    """An event is larger than advised. It is stored, but it will be slow to read and replay."""

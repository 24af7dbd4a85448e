"""Every error a user can meet, under one base.

An error names the rule that was broken (its class), carries the values as attributes, and says what to do next.
`exit_status` is what `tally` exits with: 1 when the answer is no, 2 when the question could not be put.
"""

from __future__ import annotations

from typing import Any, ClassVar


class TallyError(Exception):
    """The base of every error raised on purpose by tallystick."""

    template: ClassVar[str] = "{reason}"
    advice: ClassVar[str] = ""
    exit_status: ClassVar[int] = 2

    def __init__(self, **values: Any) -> None:
        self.values = values
        for name, value in values.items():
            setattr(self, name, value)
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The rule and the values, in one sentence."""
        return self.template.format(**self.values)

    @property
    def next_step(self) -> str:
        """What the reader of the message can do about it."""
        return self.advice.format(**self.values)

    def __str__(self) -> str:
        return f"{self.message}. {self.next_step}".rstrip() if self.next_step else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.values))

    def as_json(self) -> dict[str, Any]:
        """The error as a plain JSON object, for `--json` and for the service."""
        return {
            "error": type(self).__name__,
            "message": self.message,
            "advice": self.next_step,
            "values": {name: _plain(value) for name, value in self.values.items()},
        }


def copy(failure: BaseException) -> BaseException:
    """An exception to raise once more elsewhere: a traceback belongs to one thread or task alone."""
    return type(failure)(**failure.values) if isinstance(failure, TallyError) else failure


def _rebuild(kind: type[TallyError], values: dict[str, Any]) -> TallyError:
    return kind(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


# --- what was handed in is not acceptable; nothing was written -------------------------------------------------------


class InvalidInput(TallyError):
    """Something handed in breaks a rule of the envelope."""

    exit_status = 1


class InvalidName(InvalidInput):
    """A stream, event type or other name does not have its form."""

    template = "{what} {value!r} is not a valid name: it must match {form}"
    advice = "Rename it; a stream is written kind/name."
    what: str
    value: str
    form: str


class ReservedName(InvalidInput):
    """Streams and types whose name starts with `tally.` are those of control facts, written by the store alone."""

    template = "{name!r} is reserved for control facts"
    advice = "Choose a name that does not start with 'tally.'."
    name: str


class NotCanonical(InvalidInput):
    """A value has no canonical JSON form."""

    template = "{what} at {pointer!r}: {reason}"
    advice = (
        "Send plain JSON: objects with string keys, lists, strings, finite numbers within int64, true, false, null."
    )
    what: str
    pointer: str
    reason: str


class TooLarge(InvalidInput):
    """An event or a commit is past a hard limit."""

    template = "{what} has {size} {unit}, the limit is {limit}"
    advice = "Split it, or store the bulk elsewhere and keep a reference and its hash in the event."
    what: str
    size: int
    unit: str
    limit: int


class InvalidValue(InvalidInput):
    """An argument is outside of what it may be."""

    template = "{what} is {value!r}, but it must be {must}"
    advice = "Correct the value and try again."
    what: str
    value: object
    must: str


class MissingMeta(InvalidInput):
    """The store's profile requires a meta key that the event lacks."""

    template = "event {index} ({type}) lacks meta {key!r}, which the profile {profile!r} requires"
    advice = "Give it in NewEvent(meta=...) or --meta {key}=VALUE."
    index: int
    type: str
    key: str
    profile: str


class UnknownType(InvalidInput):
    """The catalog or the profile closes the set of event types, and this one is not in it."""

    template = "event type {type!r} version {version} is not in the catalog"
    advice = "Register the type and version in the catalog, or correct the name."
    type: str
    version: int


class SchemaViolation(InvalidInput):
    """A payload does not fit the model of its type."""

    template = "payload of {type} version {version} does not fit its model: {reason}"
    advice = "Correct the payload; `tally schema export` shows the model."
    type: str
    version: int
    pointer: str
    reason: str


class SchemaIncompatible(InvalidInput):
    """A catalog changes a schema in a way that old events do not survive."""

    template = "{type}: {reason}"
    advice = "Schemas only grow: give new fields a default, keep old ones, and bump the version."
    type: str
    reason: str


class SecretFound(InvalidInput):
    """Something that looks like a secret was about to be written for ever."""

    template = "{where} at {pointer!r} looks like a secret (rule {secret_rule}, {length} characters)"
    advice = "Store the secret in a vault and its version id here. The value itself is not shown or kept."
    where: str
    pointer: str
    secret_rule: str
    length: int


class Forbidden(InvalidInput):
    """The setting is not available in this profile."""

    template = "{what} is not available in the profile {profile!r}"
    advice = "Use another profile, or keep the default."
    what: str
    profile: str


# --- the store says no; nothing was written --------------------------------------------------------------------------


class Refused(TallyError):
    """The request was well-formed, and the state of the store decided against it."""

    exit_status = 1


class Conflict(Refused):
    """The stream is not where the writer expected it to be."""

    template = "stream {stream!r} is at seq {actual}, expected {expected}"
    advice = "Read the stream, decide again, and append with expected={actual}."
    stream: str
    expected: int
    actual: int


class DuplicateId(Refused):
    """An event id exists already, with other content."""

    template = "event id {id} exists already: {reason}"
    advice = "Ids name one event for ever; mint a new id for a new event."
    id: str
    reason: str


class OrgMismatch(Refused):
    """A stream belongs to one org, fixed by the first event that names one."""

    template = "stream {stream!r} belongs to org {org!r}, the event names {given!r}"
    advice = "Append to a stream of that org."
    stream: str
    org: str
    given: str


class SourceRepeated(Refused):
    """A source's sequence went back or stood still."""

    template = "source {source!r} is at sequence {last}, the event has {given}"
    advice = "Leave source_seq out and it is assigned in the commit, or continue after {last}."
    source: str
    last: int
    given: int


class Nested(Refused):
    """A thread appended while it was appending: only a signal handler can do that."""

    template = "an append was made inside another append of the same thread"
    advice = "Do not append in a signal handler: set a flag there, and append when the handler has returned."


class LeaseHeld(Refused):
    """Another writer holds the lease of this run."""

    template = "{stream!r} is written by {owner} (lease {number})"
    advice = "Wait until that writer is done; it is taken over when dead. On another host: acquire_lease(steal=True)."
    stream: str
    owner: str
    number: int


class LeaseLost(Refused):
    """The lease was taken over; this writer is fenced off."""

    template = "the lease {held} on {stream!r} was taken over (now {number})"
    advice = "Stop writing to this run, or take a new lease with acquire_lease() and read what happened since."
    stream: str
    held: int
    number: int


class WrongStore(Refused):
    """A checkpoint was made on another store, or on another history of this one."""

    template = "checkpoint {name!r} does not belong to this history: {reason}"
    advice = "The store was restored, replaced or forked. Rebuild this consumer from position 0."
    name: str
    reason: str


class HistoryPruned(Refused):
    """The range asked for was pruned and no archive supplies it."""

    template = "positions {first} to {last} were pruned"
    advice = "Read from after={last}, or attach the archive that holds the range."
    first: int
    last: int


class UnsupportedCapability(Refused):
    """The engine does not offer this."""

    template = "the {engine} engine does not offer {capability}"
    advice = "Use an engine that does: see docs/architecture.md."
    engine: str
    capability: str


# --- the store cannot be used as asked -------------------------------------------------------------------------------


class Unavailable(TallyError):
    """The store could not be opened or used."""


class UnknownUrl(Unavailable):
    """No engine answers to this URL."""

    template = "cannot open {url!r}: {reason}"
    advice = "Use files:DIR, sqlite:FILE or memory:."
    url: str
    reason: str


class StoreNotFound(Unavailable):
    """There is no store at this place."""

    template = "there is no store at {url!r}"
    advice = "Check the path; a first append creates the store."
    url: str


class StoreLocked(Unavailable):
    """Another process writes to this store."""

    template = "{path} is being written by {owner}"
    advice = "Stop that writer, or open with readonly=True to read beside it."
    path: str
    owner: str


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


class LargeEventWarning(UserWarning):
    """An event is past the advisory size: it is stored, but it will be slow to read and replay."""

"""The store says no; nothing was written."""

from __future__ import annotations

from tallystick.errors.base import TallyError

__all__ = [
    "AcceptRefused",
    "Conflict",
    "DuplicateId",
    "HistoryPruned",
    "LeaseHeld",
    "LeaseLost",
    "LettersLeft",
    "Nested",
    "OrgMismatch",
    "ReaderNotFound",
    "ReaderRuns",
    "RefillRefused",
    "Refused",
    "SourceRepeated",
    "UnsupportedCapability",
    "WrongStore",
]


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

    template = "{what} {first} to {last} were pruned"
    advice = "Read from after={last} on, start from a snapshot, or attach the archive that holds the range."
    what: str
    first: int
    last: int


class UnsupportedCapability(Refused):
    """The engine does not offer this."""

    template = "the {engine} engine does not offer {capability}"
    advice = "Use an engine that does: see docs/architecture.md."
    engine: str
    capability: str


class RefillRefused(Refused):
    """A damaged range cannot be refilled from what was named."""

    template = "cannot refill {url!r} from {source!r}: {reason}"
    advice = "Nothing was changed. Name a copy or an export of this very store that holds all of the damaged range."
    url: str
    source: str
    reason: str


class AcceptRefused(Refused):
    """The loss of what is damaged cannot be accepted."""

    template = "cannot accept the loss of what is damaged in {url!r}: {reason}"
    advice = "Nothing was changed. Refill the range from a copy, or export what is left and begin a new store."
    url: str
    reason: str


class ReaderNotFound(Refused):
    """There is no projection or consumer of this name."""

    template = "there is no {kind} {name!r} here"
    advice = "`tally {kind}s list` shows those that there are."
    kind: str
    name: str


class ReaderRuns(Refused):
    """A projection that is to be dropped is kept current by this service, which would make its rows again."""

    template = "the {kind} {name!r} is run by this service"
    advice = "Serve without it (--projection), and drop it then; or rebuild it."
    kind: str
    name: str


class LettersLeft(Refused):
    """A consumer that is to be dropped has dead letters: events that it could not handle."""

    template = "consumer {consumer!r} has {count} dead letters"
    advice = "Replay them (`tally deadletters`), or drop them with the consumer (--letters)."
    consumer: str
    count: int

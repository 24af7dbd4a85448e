"""The state of the store does not allow it; nothing was written."""

from __future__ import annotations

from tallystick.errors.base import TallyError

__all__ = [
    "AcceptRefused",
    "ConditionFailed",
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
    """The request is well-formed, but the state of the store does not allow it."""

    exit_status = 1


class Conflict(Refused):
    """The stream is not where the writer expected it to be."""

    template = "stream {stream!r} is at seq {actual}, expected {expected}"
    advice = "Read the stream, decide again, and append with expected={actual}."
    stream: str
    expected: int
    actual: int


class ConditionFailed(Refused):
    """An event that the writer did not see matches the query on which its decision depends."""

    template = "the condition does not hold: {found} matches {query}"
    advice = "Consult the query again, decide again, and append with the new marker."
    query: str
    found: str


class DuplicateId(Refused):
    """An event id exists already, with other content."""

    template = "event id {id} exists already: {reason}"
    advice = "An id permanently names one event. Use a new id for a new event."
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
    """The sequence number of a source did not increase."""

    template = "source {source!r} is at sequence {last}, the event has {given}"
    advice = "Leave source_seq out, so that the commit assigns it, or continue after {last}."
    source: str
    last: int
    given: int


class Nested(Refused):
    """A thread called append inside its own append. Only a signal handler can do that."""

    template = "an append was made inside another append of the same thread"
    advice = "Do not append in a signal handler. Set a flag there, and append after the handler has returned."


class LeaseHeld(Refused):
    """Another writer holds the lease of this run."""

    template = "{stream!r} is written by {owner} (lease {number})"
    advice = (
        "Wait until that writer is done. If it is dead, the lease is taken over automatically; if it ran on another "
        "host, use acquire_lease(steal=True)."
    )
    stream: str
    owner: str
    number: int


class LeaseLost(Refused):
    """The lease was taken over, so this writer is fenced off."""

    template = "the lease {held} on {stream!r} was taken over (now {number})"
    advice = "Stop writing to this run, or take a new lease with acquire_lease() and read what was appended since."
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
    """The requested range was pruned, and no archive supplies it."""

    template = "{what} {first} to {last} were pruned"
    advice = "Read from after={last} on, start from a snapshot, or attach the archive that holds the range."
    what: str
    first: int
    last: int


class UnsupportedCapability(Refused):
    """The engine does not offer this."""

    template = "the {engine} engine does not offer {capability}"
    advice = "Use an engine that offers it; docs/architecture.md has a table."
    engine: str
    capability: str


class RefillRefused(Refused):
    """A damaged range cannot be refilled from the given source."""

    template = "cannot refill {url!r} from {source!r}: {reason}"
    advice = "Nothing was changed. Name a copy or an export of this store that has all of the damaged range."
    url: str
    source: str
    reason: str


class AcceptRefused(Refused):
    """The loss of the damaged range cannot be accepted."""

    template = "cannot accept the loss of the damaged range in {url!r}: {reason}"
    advice = "Nothing was changed. Refill the range from a copy, or export what is left into a new store."
    url: str
    reason: str


class ReaderNotFound(Refused):
    """No projection or consumer has this name."""

    template = "there is no {kind} {name!r}"
    advice = "`tally {kind}s list` lists all."
    kind: str
    name: str


class ReaderRuns(Refused):
    """The projection to be dropped is run by this service, which would make its rows again."""

    template = "the {kind} {name!r} is run by this service"
    advice = "Start the service without it (--projection), then drop it. Or rebuild it."
    kind: str
    name: str


class LettersLeft(Refused):
    """The consumer to be dropped has dead letters: events that it could not handle."""

    template = "consumer {consumer!r} has {count} dead letters"
    advice = "Replay them (`tally deadletters`), or drop them with the consumer (--letters)."
    consumer: str
    count: int

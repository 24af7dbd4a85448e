"""What commands, consumers and projections refuse."""

from __future__ import annotations

from tallystick.errors.given import InvalidInput
from tallystick.errors.refused import Refused

__all__ = [
    "CommandRepeated",
    "IdempotencyKeyReuse",
    "NoDeadLetter",
    "NotCaughtUp",
    "ProjectionChanged",
    "ProjectionFailed",
    "ProjectionInvalid",
    "ProjectionKeyInvalid",
    "ProjectionRefused",
    "ViewMoved",
]


class CommandRepeated(Refused):
    """The command was run already; its stored response answers it."""

    template = "the command {key!r} of {actor!r} at {endpoint!r} was run already"
    advice = "Take the stored response: run the command through tallystick.commands."
    org: str
    actor: str
    endpoint: str
    key: str


class IdempotencyKeyReuse(Refused):
    """An idempotency key was used for another request before."""

    code = "idempotency_key_reuse"
    template = "the idempotency key {key!r} of {actor!r} at {endpoint!r} was used for another request"
    advice = "Send the same request again to get its response, or make a new key for a new request."
    org: str
    actor: str
    endpoint: str
    key: str


class ProjectionInvalid(InvalidInput):
    """A projection lacks something, or asks for what its kind cannot do."""

    template = "projection {name!r}: {reason}"
    advice = "A projection has types, a key, initial() and apply(state, event); see docs/projections.md."
    name: str
    reason: str


class ProjectionRefused(Refused):
    """A projection could not take an event. If it runs inline, the event was not appended."""


class ProjectionKeyInvalid(ProjectionRefused):
    """An event has no key that rows can stand under."""

    template = "projection {name!r}: {key} of seq {seq} of {stream!r} (position {position}) is {found}"
    advice = "Keys are texts of at most 500 characters after upcasting: choose another key, or upcast the old version."
    name: str
    key: str
    stream: str
    seq: int
    position: int
    found: str


class ProjectionFailed(ProjectionRefused):
    """A projection raised an exception, or gave a state that is not plain JSON."""

    template = "projection {name!r} failed at seq {seq} of {stream!r} (position {position}): {reason}"
    advice = "Mend the projection, then run it again: it goes on where it was. An erased event has the payload None."
    name: str
    stream: str
    seq: int
    position: int
    reason: str


class ProjectionChanged(Refused):
    """The stored rows were made by another definition of this projection."""

    template = "the rows of projection {name!r} were made with another definition: {reason}"
    advice = "Run `tally rebuild`: the old rows stay readable until the new ones have caught up."
    name: str
    reason: str


class ViewMoved(Refused):
    """Somebody else moved the rows of a projection meanwhile; nothing was written."""

    template = "epoch {epoch} of projection {projection!r} is at {actual}, expected {expected}"
    advice = "Another runner or a rebuild is at work. Look at the place again and go on from there."
    projection: str
    epoch: int
    expected: str
    actual: str


class NotCaughtUp(Refused):
    """A projection did not reach a position in the time given."""

    template = "projection {name!r} is at position {reached}, not yet at {position} after {waited_ms} ms"
    advice = "Wait longer, read what is there, or see with `tally project` whether a runner is at work."
    name: str
    position: int
    reached: int
    waited_ms: int


class NoDeadLetter(Refused):
    """There is no such dead letter."""

    template = "consumer {consumer!r} has no dead letter at position {position}"
    advice = "`tally deadletters` lists those that are there."
    consumer: str
    position: int

"""What commands, consumers and projections refuse."""

from __future__ import annotations

from tallystick.errors.given import InvalidInput
from tallystick.errors.refused import Refused

__all__ = [
    "CommandRepeated",
    "HandlerFailed",
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
    """The command was run already; the stored response is its answer."""

    template = "the command {key!r} of {actor!r} at {endpoint!r} was run already"
    advice = "Run the command through tallystick.commands, which returns the stored response."
    org: str
    actor: str
    endpoint: str
    key: str


class IdempotencyKeyReuse(Refused):
    """The idempotency key was used for another request."""

    code = "idempotency_key_reuse"
    template = "the idempotency key {key!r} of {actor!r} at {endpoint!r} was used for another request"
    advice = "Send the same request again to get its response, or use a new key for a new request."
    org: str
    actor: str
    endpoint: str
    key: str


class ProjectionInvalid(InvalidInput):
    """A projection lacks a required part, or requests something that its kind does not support."""

    template = "projection {name!r}: {reason}"
    advice = "A projection has types, a key, initial() and apply(state, event); see docs/projections.md."
    name: str
    reason: str


class ProjectionRefused(Refused):
    """A projection could not apply an event. If it runs inline, the event was not appended."""


class ProjectionKeyInvalid(ProjectionRefused):
    """An event has no valid key for a row."""

    template = "projection {name!r}: {key} of seq {seq} of {stream!r} (position {position}) is {found}"
    advice = "A key is a text of 1 to 500 characters after upcasting. Choose another key, or upcast the old version."
    name: str
    key: str
    stream: str
    seq: int
    position: int
    found: str


class ProjectionFailed(ProjectionRefused):
    """A projection raised an exception, or returned a state that is not plain JSON."""

    template = "projection {name!r} failed at seq {seq} of {stream!r} (position {position}): {reason}"
    advice = "Fix the projection and run it again. It continues where it stopped. An erased event has the payload None."
    name: str
    stream: str
    seq: int
    position: int
    reason: str


class ProjectionChanged(Refused):
    """The stored rows were made by another definition of the projection."""

    template = "the rows of projection {name!r} were made with another definition: {reason}"
    advice = "Run `tally rebuild`. The old rows stay readable until the new ones have caught up."
    name: str
    reason: str


class ViewMoved(Refused):
    """Another runner or a rebuild moved the rows of a projection in the meantime; nothing was written."""

    template = "epoch {epoch} of projection {projection!r} is at {actual}, expected {expected}"
    advice = "Another runner or a rebuild is active. Read the place again and continue from there."
    projection: str
    epoch: int
    expected: str
    actual: str


class NotCaughtUp(Refused):
    """A projection did not reach a position before the time-out."""

    template = "projection {name!r} is at position {reached}, not yet at {position} after {waited_ms} ms"
    advice = "Wait longer, read the rows that exist, or start a runner with `tally project`."
    name: str
    position: int
    reached: int
    waited_ms: int


class HandlerFailed(Refused):
    """The handler of a dead letter raised an exception; the dead letter is kept."""

    template = "{handler!r} failed at position {position}: {reason}"
    advice = "Fix the handler, then replay the dead letter again. It is still stored."
    handler: str
    position: int
    reason: str


class NoDeadLetter(Refused):
    """There is no such dead letter."""

    template = "consumer {consumer!r} has no dead letter at position {position}"
    advice = "`tally deadletters` lists all."
    consumer: str
    position: int

"""What typed readers and deciders refuse."""

from __future__ import annotations

from tallystick.errors.given import InvalidInput
from tallystick.errors.refused import Refused

__all__ = [
    "DeciderInvalid",
    "DecisionInvalid",
    "PayloadErased",
    "PayloadMisfit",
    "TypeNotTaken",
]


class PayloadErased(Refused):
    """The payload of an event was erased, so there is no instance of its model."""

    template = "the payload of seq {seq} of {stream!r} ({type}) was erased"
    advice = "Add tallystick.Erased to the types that the reader or the decider takes, and handle it."
    type: str
    stream: str
    seq: int


class PayloadMisfit(Refused):
    """A stored payload does not match the model of its type. It was appended without this model."""

    template = "seq {seq} of {stream!r} does not match the model of {type} version {version}: {reason}"
    advice = "Raise the version of the model, and register an upcaster that brings old payloads into its form."
    type: str
    version: int
    stream: str
    seq: int
    reason: str


class TypeNotTaken(Refused):
    """A typed reader or a decider met an event of a type that it does not take."""

    template = "seq {seq} of {stream!r} is {type}, which {reader} does not take"
    advice = "Add its model to the types that the reader or the decider takes."
    reader: str
    type: str
    stream: str
    seq: int


class DeciderInvalid(InvalidInput):
    """A decider lacks a required part, or does not have the decision."""

    template = "decider {name!r}: {reason}"
    advice = "A decider has initial(), evolve(state, event: …) and decisions; see docs/deciders.md."
    name: str
    reason: str


class DecisionInvalid(InvalidInput):
    """A decision was called with other arguments than it has, or returned something else than events."""

    template = "{decision}: {reason}"
    advice = "A decision returns an event, a list of them, or an empty list. A key and meta are given with request()."
    decision: str
    reason: str

"""What was handed in is not acceptable; nothing was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.errors.base import TallyError

__all__ = [
    "Forbidden",
    "InvalidInput",
    "InvalidName",
    "InvalidValue",
    "MissingMeta",
    "NotCanonical",
    "ReservedName",
    "SchemaIncompatible",
    "SchemaViolation",
    "SecretFound",
    "TooLarge",
    "UnknownType",
]


class InvalidInput(TallyError):
    """The input breaks a rule that has no error of its own; `reason` names it."""

    exit_status = 1

    if TYPE_CHECKING:  # the kinds of it do not have a `reason`, so it is not declared as a value

        def __init__(self, *, reason: str) -> None: ...


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

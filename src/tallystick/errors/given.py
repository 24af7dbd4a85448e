"""The input is not acceptable; nothing was written."""

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
    """A stream name, event type or other name does not match the required form."""

    template = "{what} {value!r} is not a valid name: it must match {form}"
    advice = "Choose another name. The name of a stream is kind/name."
    what: str
    value: str
    form: str


class ReservedName(InvalidInput):
    """The name starts with `tally.`: only the store itself writes such streams and types."""

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
    """An event or a commit exceeds a hard limit."""

    template = "{what} has {size} {unit}, the limit is {limit}"
    advice = "Split it, or store the large part elsewhere, and put a reference and its hash into the event."
    what: str
    size: int
    unit: str
    limit: int


class InvalidValue(InvalidInput):
    """An argument is outside its allowed range."""

    template = "{what} is {value!r}, but it must be {must}"
    advice = "Correct the value and try again."
    what: str
    value: object
    must: str


class MissingMeta(InvalidInput):
    """The store's profile requires a meta key that the event lacks."""

    template = "event {index} ({type}) lacks meta {key!r}, which the profile {profile!r} requires"
    advice = "Set it with NewEvent(meta=...) or --meta {key}=VALUE."
    index: int
    type: str
    key: str
    profile: str


class UnknownType(InvalidInput):
    """The catalog or the profile only accepts registered event types, and this one is not registered."""

    template = "event type {type!r} version {version} is not in the catalog"
    advice = "Register the type and version in the catalog, or correct the name."
    type: str
    version: int


class SchemaViolation(InvalidInput):
    """A payload does not match the model of its type."""

    template = "payload of {type} version {version} does not match its model: {reason}"
    advice = "Correct the payload; `tally schema export` shows the model."
    type: str
    version: int
    pointer: str
    reason: str


class SchemaIncompatible(InvalidInput):
    """A catalog changes a schema so that old events can no longer be read."""

    template = "{type}: {reason}"
    advice = "A schema may only grow: give new fields a default, keep the old fields, and raise the version."
    type: str
    reason: str


class SecretFound(InvalidInput):
    """A value that looks like a secret was about to be stored permanently."""

    template = "{where} at {pointer!r} looks like a secret (rule {secret_rule}, {length} characters)"
    advice = "Store the secret in a vault, and put its version id into the event. The value is not shown or stored."
    where: str
    pointer: str
    secret_rule: str
    length: int


class Forbidden(InvalidInput):
    """A setting is not available in this profile."""

    template = "{what} is not available in the profile {profile!r}"
    advice = "Use another profile, or leave the setting at its default."
    what: str
    profile: str

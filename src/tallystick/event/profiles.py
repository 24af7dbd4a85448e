"""Profiles: the meta that events must have in each kind of store, and what is filled in automatically."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import ids, names, tags

ACTOR_TYPES = ("user", "service_principal", "system")
TEXT_KEYS = frozenset(
    {"org", "app", "env", "actor_type", "actor_id", "request_id", "correlation_id", "causation_id"}
    | {"idempotency_key", "trace_id", "span_id", "source", "author", "alg"}
)
INDEXED_KEYS = frozenset({"org", "source"})
NUMBER_KEYS = frozenset({"source_seq", "lamport"})


class Profile(msgspec.Struct, frozen=True):
    """One kind of store."""

    name: str
    required: tuple[str, ...] = ()
    fill: dict[str, Callable[[bytes], str]] = {}
    numbers_sources: bool = False
    closed: bool = False
    guard_fixed: bool = False
    tenants: bool = False
    signed: bool = False


def _own_id(id_: bytes) -> str:
    return ids.to_text(id_)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("plain"),
        Profile(
            "lighthouse",
            required=("source", "correlation_id"),
            fill={"correlation_id": _own_id},
            numbers_sources=True,
        ),
        Profile(
            "control-plane",
            required=("actor_type", "actor_id", "request_id"),
            guard_fixed=True,
            tenants=True,
        ),
        Profile(
            "run",
            required=("trace_id", "span_id"),
            fill={"trace_id": lambda _: secrets.token_hex(16), "span_id": lambda _: secrets.token_hex(8)},
        ),
        Profile("community", required=("lamport", "author", "alg"), closed=True, signed=True),
    )
}


def named(name: str) -> Profile:
    """The profile of that name."""
    if name not in PROFILES:
        raise errors.InvalidValue(what="profile", value=name, must="one of " + ", ".join(PROFILES))
    return PROFILES[name]


def check_meta(meta: dict[str, Any]) -> None:
    """Refuse a known key whose value is of the wrong kind. Unknown keys are the user's own."""
    for key in TEXT_KEYS & meta.keys():
        if type(meta[key]) is not str or not meta[key]:
            raise errors.NotCanonical(what="meta", pointer=f"/{key}", reason="it must be a text that is not empty")
        if key in INDEXED_KEYS and not names.fits(meta[key]):
            size = len(meta[key].encode("utf-8", "replace"))
            raise errors.TooLarge(what=f"meta {key}", size=size, unit="bytes", limit=names.LABEL_MAX)
    for key in NUMBER_KEYS & meta.keys():
        if type(meta[key]) is not int or meta[key] < 1:
            raise errors.NotCanonical(what="meta", pointer=f"/{key}", reason="it must be an integer from 1 on")
    if "actor_type" in meta and meta["actor_type"] not in ACTOR_TYPES:
        raise errors.NotCanonical(
            what="meta", pointer="/actor_type", reason="it must be one of " + ", ".join(ACTOR_TYPES)
        )
    given = meta.get(tags.KEY)
    if given is None or (type(given) is dict and all(type(value) is str for value in given.values())):
        return
    if type(given) is not list or tags.normal(given) != given:
        reason = "tags must be a sorted list of texts without repeats, or labels, an object of texts"
        raise errors.NotCanonical(what="meta", pointer="/tags", reason=reason)


def complete(profile: Profile, meta: dict[str, Any], *, id_: bytes, index: int, type_: str) -> dict[str, Any]:
    """The meta with the keys that the profile fills in. A required key that is still missing is refused by name."""
    missing = [key for key in profile.required if key not in meta]
    if not missing:
        return meta
    meta = dict(meta)
    for key in missing:
        if key not in profile.fill:
            raise errors.MissingMeta(index=index, type=type_, key=key, profile=profile.name)
        meta[key] = profile.fill[key](id_)
    return meta

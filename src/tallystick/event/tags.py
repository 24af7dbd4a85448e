"""Tags: short texts by which events of any stream are found, and on which the condition of an append is decided.

They are stored in the meta as a list, sorted and without repeats, so the chain covers them and nothing erases them: use
pseudonyms, as `pseudonym` makes them. The object form of `meta.tags` holds labels, which no reader selects by.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b32encode
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from tallystick import errors
from tallystick.event import names

COUNT_MAX = 32
BYTES_MAX = 256
KEY = "tags"
_PSEUDONYM_BYTES = 16
LISTED = b'"tags":["'
"""What the meta of every event with tags contains. Meta without it need not be decoded."""


class Tagged(NamedTuple):
    """The part of an event's meta that queries ask for."""

    tags: tuple[str, ...]
    org: str | None


class _Stored(msgspec.Struct, frozen=True, gc=False):
    tags: Any = None
    org: Any = None


_decode = msgspec.json.Decoder(_Stored).decode
_NOTHING = Tagged((), None)


def check(tag: object) -> str:
    """The tag, if it is a printable text of 1 to 256 bytes in UTF-8."""
    if type(tag) is str and tag.isprintable() and 0 < len(tag.encode("utf-8", "replace")) <= BYTES_MAX:
        return tag
    must = f"a printable text of 1 to {BYTES_MAX} bytes in UTF-8"
    raise errors.InvalidValue(what="tag", value=names.display(tag), must=must)


def normal(given: object) -> list[str]:
    """Tags as they are stored: checked, sorted, without repeats."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise errors.InvalidValue(what="tags", value=names.display(given), must="a list of texts")
    found = sorted({check(tag) for tag in given})
    if len(found) > COUNT_MAX:
        raise errors.TooLarge(what="the list of tags", size=len(found), unit="tags", limit=COUNT_MAX)
    return found


def joined(tags: object, meta: dict[str, Any]) -> dict[str, Any]:
    """The meta of an event with its tags. Labels in the meta become tags too: `label:correction`."""
    own = meta.get(KEY)
    if isinstance(own, dict):
        own = [f"{name}:{value}" for name, value in own.items()]
    return meta | {KEY: normal([*normal(tags), *(own or ())])}


def stored(meta: bytes) -> tuple[str, ...]:
    """The tags in stored meta. They are not checked here: the link of the event covers them."""
    return tagged(meta).tags if LISTED in meta else ()


def tagged(meta: bytes) -> Tagged:
    """The tags and the org in stored meta, as far as they can be decoded."""
    try:
        found = _decode(meta)
    except msgspec.DecodeError:
        return _NOTHING
    given = found.tags if isinstance(found.tags, list) else ()
    return Tagged(
        tuple(tag for tag in given if isinstance(tag, str)), found.org if isinstance(found.org, str) else None
    )


def pseudonym(kind: str, value: str, *, key: bytes) -> str:
    """A tag `kind:…` for a name or an address that must not be readable: a keyed hash, the same each time.

    Who lacks the key can neither read the value nor try values out. Without the key no new event gets the same tag.
    """
    if len(key) < _PSEUDONYM_BYTES:
        raise errors.InvalidValue(what="key", value=f"{len(key)} bytes", must=f"at least {_PSEUDONYM_BYTES} bytes")
    digest = hmac.new(key, f"{kind}\n{value}".encode(), hashlib.sha256).digest()[:_PSEUDONYM_BYTES]
    return check(f"{kind}:{b32encode(digest).decode().rstrip('=').lower()}")

"""A place in the log as a text that readers keep anywhere: with evidence, so that it is refused in another history.

    POSITION.MARK            the event at the position is the evidence
    POSITION.EVIDENCE.MARK   the evidence is the event at an earlier position; 0: none was left

`MARK` is base64url without padding of 6 bytes of SHA-256(store id) and 15 bytes of
SHA-256("tallystick/cursor/1\\n" store id, position of the evidence as decimal, "\\n", its link). It says nothing
about the event, which may be another tenant's. A bare number is taken for a place without evidence.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64encode

import msgspec

from tallystick import errors
from tallystick.event import limits, names

DOMAIN = b"tallystick/cursor/1\n"
FORM = re.compile(r"([0-9]{1,19})(?:(?:\.([0-9]{1,19}))?\.([A-Za-z0-9_-]{28}))?")
STORE_CHARACTERS = 8
_STORE_BYTES, _EVENT_BYTES = 6, 15


class Cursor(msgspec.Struct, frozen=True):
    """What a cursor says. No mark: it is a bare number."""

    position: int
    evidence: int
    mark: str


def mark(store_id: bytes, evidence: int, link: bytes) -> str:
    """What a cursor carries of the store and of one event."""
    event = hashlib.sha256(b"%b%b%d\n%b" % (DOMAIN, store_id, evidence, link)).digest()[:_EVENT_BYTES]
    return urlsafe_b64encode(hashlib.sha256(store_id).digest()[:_STORE_BYTES] + event).decode()


def text(store_id: bytes, position: int, evidence: int, link: bytes) -> str:
    """The cursor of a position, with the event at `evidence` for evidence."""
    place = f"{position}" if position == evidence else f"{position}.{evidence}"
    return f"{place}.{mark(store_id, evidence, link)}"


def parse(given: object) -> Cursor:
    """A cursor that somebody gave, or the number that they gave instead."""
    found = FORM.fullmatch(given) if isinstance(given, str) and given.isascii() else None
    if found is not None:
        position, earlier, marked = found.groups()
        cursor = Cursor(int(position), int(earlier or position), marked or "")
        if cursor.evidence <= cursor.position <= limits.INT_MAX:
            return cursor
    raise errors.InvalidValue(what="cursor", value=names.shown(given), must="a position, or a cursor as it was given")

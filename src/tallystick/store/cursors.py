"""Cursors: a position in the log as a text that readers can store anywhere. Evidence makes other histories refuse it.

    POSITION.MARK            the event at the position is the evidence
    POSITION.EVIDENCE.MARK   the evidence is the event at an earlier position; 0: no event was left

`MARK` is base64url without padding of 6 bytes of SHA-256(store id) and 15 bytes of
SHA-256("tallystick/cursor/1\\n" store id, position of the evidence as decimal, "\\n", its link). It says nothing
about the event, which may be another tenant's. A bare number is a position without evidence.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64encode

import msgspec

from tallystick import errors
from tallystick.event import limits, names
from tallystick.event.model import Event
from tallystick.store import iterate
from tallystick.store.events import EventLog

DOMAIN = b"tallystick/cursor/1\n"
FORM = re.compile(r"([0-9]{1,19})(?:(?:\.([0-9]{1,19}))?\.([A-Za-z0-9_-]{28}))?")
STORE_CHARACTERS = 8
_STORE_BYTES, _EVENT_BYTES = 6, 15
_HEAD_S = 0.5
_WINDOWS = (1, 16, 1000)  # how far below a position its cursor looks for an event


class Cursor(msgspec.Struct, frozen=True):
    """The content of a cursor. Without a mark it is a bare number."""

    position: int
    evidence: int
    mark: str


def mark(store_id: bytes, evidence: int, link: bytes) -> str:
    """The evidence in a cursor: hashes of the store and of one event."""
    event = hashlib.sha256(b"%b%b%d\n%b" % (DOMAIN, store_id, evidence, link)).digest()[:_EVENT_BYTES]
    return urlsafe_b64encode(hashlib.sha256(store_id).digest()[:_STORE_BYTES] + event).decode()


def text(store_id: bytes, position: int, evidence: int, link: bytes) -> str:
    """The cursor of a position, with the event at `evidence` for evidence."""
    place = f"{position}" if position == evidence else f"{position}.{evidence}"
    return f"{place}.{mark(store_id, evidence, link)}"


def parse(given: object) -> Cursor:
    """The content of a given cursor, or of a number that was given instead."""
    found = FORM.fullmatch(given) if isinstance(given, str) and given.isascii() else None
    if found is not None:
        position, earlier, marked = found.groups()
        cursor = Cursor(int(position), int(earlier or position), marked or "")
        if cursor.evidence <= cursor.position <= limits.INT_MAX:
            return cursor
    raise errors.InvalidValue(what="cursor", value=names.display(given), must="a position, or a cursor as it was given")


def made(log: EventLog, position: int) -> str:
    """The cursor of any position of a log. Its evidence is the last event up to there."""
    event = last_event(log, position)
    evidence, link = (event.position, event.link) if event else (0, b"")
    return text(log.store_id, position, evidence, link)


def position(log: EventLog, given: object, *, over_holes: bool) -> int:
    """The position that a cursor means in this log; `WrongStore` if it is not of this history."""
    found = parse(given)
    if found.mark and not _is_ours(log, found, over_holes):
        reason = f"the event that was at position {found.position} is not there"
        raise errors.WrongStore(name=str(given), reason=reason)
    return found.position


def _is_ours(log: EventLog, found: Cursor, over_holes: bool) -> bool:
    if found.mark[:STORE_CHARACTERS] != mark(log.store_id, 0, b"")[:STORE_CHARACTERS]:
        return False
    if found.position > log.head() and log.wait(found.position - 1, timeout=_HEAD_S) < found.position:
        return False  # a head that has to be proven may arrive a moment later
    try:
        event = iterate.event_at(log, found.evidence)
    except errors.Damaged:
        if over_holes:
            return True
        raise
    if event is None and found.evidence <= log.floor():
        return True  # it was pruned since, or there was no event
    return event is not None and found.mark == mark(log.store_id, found.evidence, event.link)


def last_event(log: EventLog, position: int) -> Event | None:
    """The last event up to a position; None if it is far below."""
    for window in _WINDOWS:
        after = max(0, position - window)
        page = log.read(after=after, until=position, limit=window, over_holes=True, over_pruned=True)
        if page.events:
            return page.events[-1]
    return None

"""Donors: where the events of a damaged range can be restored from. Another store with the same history, or an export.

A donor is not trusted. Its events are compared with what is left of the damaged log: every checksum, and every link
from the events before the range, through it, to the events after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from tallystick import errors
from tallystick.event import chain
from tallystick.event.line import FRAME, parse_stored
from tallystick.event.model import Event, NewEvent
from tallystick.store import control, facts, iterate
from tallystick.store.claims import read_claims, unsound_snapshots
from tallystick.store.events import EventLog
from tallystick.store.page import Hole
from tallystick.store.repair import clear, cleared, require_sound
from tallystick.store.snapshots import Snapshot
from tallystick.store.store import Store

_PAGE = 1000


class Donor(Protocol):
    """Something that may have the events of a range."""

    name: str

    @property
    def log(self) -> EventLog | None:
        """Its log, if it is a store."""

    def events(self, first: int, last: int) -> Iterator[Event]:
        """Its events with these positions, ascending; `Damaged` if they cannot be read."""


class Refilled(msgspec.Struct, frozen=True):
    """What was refilled: the ranges, the segments or tables that were written again, and each step in words."""

    source: str
    ranges: tuple[Hole, ...] = ()
    events: int = 0
    made: tuple[str, ...] = ()
    done: tuple[str, ...] = ()


def lost_snapshots(log: EventLog, donor: Donor) -> list[Snapshot]:
    """The snapshots whose bodies are missing or changed, with the donor's bodies. Each body fits its control fact."""
    found = []
    if donor.log is not None:
        for id_, fact, _ in unsound_snapshots(log, read_claims(log)):
            event, body = log.find(id_), donor.log.snapshots.load(id_, bytes_max=fact.body_bytes)
            if event is not None and body is not None and chain.checksum(body).hex() == fact.body_hash:
                found.append(facts.snapshot_of(event, fact, body))
    return found


def with_snapshots(refilled: Refilled, put_back: list[Snapshot]) -> Refilled:
    """What was refilled, with the snapshots whose bodies were put back."""
    names = tuple(f"snapshot {snapshot.id.hex()}" for snapshot in put_back)
    done = tuple(f"put back the body of {name}" for name in names)
    return msgspec.structs.replace(refilled, made=refilled.made + names, done=refilled.done + done)


def record(store: Store, refilled: Refilled) -> None:
    """Verify the whole store, record what was refilled and from where, and clear the record of damage."""
    known = require_sound(store, "after refilling")
    payload = {
        "source": refilled.source,
        "ranges": [[hole.first, hole.last] for hole in refilled.ranges],
        "events": refilled.events,
        "made": list(refilled.made),
        "done": list(refilled.done),
        "on_record": msgspec.to_builtins(known),
    }
    if refilled.made:
        clear(store, NewEvent(control.REPAIRED, payload), known)
    elif known:
        how = f"everything was verified again and compared with {refilled.source}: nothing is wrong"
        clear(store, cleared(known, how=how), known)


class StoreDonor:
    """Another store."""

    def __init__(self, log: EventLog) -> None:
        self.name = log.url
        self._log = log

    @property
    def log(self) -> EventLog | None:
        return self._log

    def events(self, first: int, last: int) -> Iterator[Event]:
        for page in iterate.pages(self._log, after=first - 1, until=last, limit=_PAGE, over_pruned=True):
            yield from page.events


class ExportDonor:
    """A file that `tally export` wrote: NDJSON, ascending by position."""

    log = None

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    def events(self, first: int, last: int) -> Iterator[Event]:
        try:
            with self._path.open("rb") as file:
                for text in file:
                    if text.startswith(FRAME):
                        continue
                    event = parse_stored(text)
                    if first <= event.position <= last:
                        yield event
        except (OSError, ValueError) as problem:  # msgspec's errors are values' errors
            raise errors.NotLoadable(reference=self.name, reason=f"it is not an export: {problem}") from problem

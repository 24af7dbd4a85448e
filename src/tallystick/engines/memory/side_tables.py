"""Checkpoints, snapshots, commands, rows and dead letters in dicts. One lock makes each call on rows a transaction."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

import msgspec

from tallystick import errors
from tallystick.store.checkpoints import Checkpoint
from tallystick.store.deadletters import DeadLetter, LetterCounts
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.snapshots import within
from tallystick.store.views import DISCARDED, ROWS_PAGE, Place, Rows, Seen, ViewRow, can_become_live


class MemoryCheckpoints:
    """Checkpoints in a dict."""

    def __init__(self) -> None:
        self._by_name: dict[str, Checkpoint] = {}

    def load(self, name: str) -> Checkpoint | None:
        return self._by_name.get(name)

    def save(self, checkpoint: Checkpoint, *, previous: int | None) -> None:
        stored = self._by_name.get(checkpoint.name)
        actual = stored.position if stored else None
        if actual != previous:
            raise errors.Conflict(stream=checkpoint.name, expected=previous or 0, actual=actual or 0)
        self._by_name[checkpoint.name] = checkpoint

    def names(self) -> list[str]:
        return sorted(self._by_name)

    def delete(self, name: str) -> None:
        self._by_name.pop(name, None)


class MemorySnapshots:
    """Snapshot bodies in a dict."""

    def __init__(self) -> None:
        self.bodies: dict[bytes, bytes] = {}

    def load(self, id: bytes, *, bytes_max: int | None = None) -> bytes | None:
        return within(self.bodies.get(id), bytes_max)

    def ids(self) -> list[bytes]:
        return sorted(self.bodies)

    def size(self) -> int:
        return sum(map(len, self.bodies.values()))


class MemoryCommands:
    """Command records in a dict, in the order they were made."""

    def __init__(self) -> None:
        self.records: dict[CommandKey, CommandRecord] = {}

    def load(self, key: CommandKey) -> CommandRecord | None:
        return self.records.get(key)

    def touching(self, stream: str, seq: int) -> list[CommandKey]:
        return [
            record.key
            for record in self.records.values()
            if any(name == stream and first <= seq <= last for name, first, last in record.ranges)
        ]

    def erase_response(self, key: CommandKey) -> None:
        """Keep nothing of a command but that it took effect."""
        if (record := self.records.get(key)) is not None:
            self.records[key] = record.without_response

    def forget(self, *, before: int, limit: int) -> int:
        old = [record.key for record in self.records.values() if record.recorded < before][:limit]
        for key in old:
            del self.records[key]
        return len(old)


class MemoryViews:
    """The rows of projections, by projection and epoch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.seen: Seen = set()
        self._places: dict[tuple[str, int], Place] = {}
        self._rows: dict[tuple[str, int], dict[str, ViewRow]] = {}
        self._batches: dict[tuple[str, int], dict[bytes, dict[str, ViewRow]]] = {}

    def place(self, projection: str) -> Place | None:
        return next((place for place in self.places() if place.projection == projection and place.live), None)

    def places(self) -> list[Place]:
        return [place for _, place in sorted(self._places.copy().items())]

    def begin(self, place: Place) -> None:
        with self._lock:
            live = self.place(place.projection)
            if (place.projection, place.epoch) in self._places or (place.live and live is not None):
                raise _moved(place, "none", "there")
            self._places[place.projection, place.epoch] = place
            self._rows[place.projection, place.epoch] = {}

    def rows(
        self,
        projection: str,
        *,
        epoch: int | None = None,
        keys: Sequence[str] | None = None,
        after: str = "",
        until: str | None = None,
        limit: int = ROWS_PAGE,
    ) -> Rows:
        with self._lock:
            place = self.place(projection) if epoch is None else self._places.get((projection, epoch))
            if place is None:
                return Rows(None, [])
            stored = self._rows[projection, place.epoch]
            if keys is not None:
                return Rows(place, [stored[key] for key in sorted(set(keys)) if key in stored])
            chosen = [row for key, row in sorted(stored.items()) if after < key and (until is None or key <= until)]
            return Rows(place, [row for row in chosen if row.state is not None][:limit])

    def write(self, place: Place, rows: Sequence[ViewRow], *, previous: int) -> None:
        with self._lock:
            self._write(place, rows, previous)

    def fill_batch(self, place: Place, batch: bytes, rows: Sequence[ViewRow]) -> None:
        with self._lock:
            self._require_at(place, place.position)
            batches = self._batches.setdefault((place.projection, place.epoch), {})
            batches.setdefault(batch, {}).update({row.key: row for row in rows})

    def write_batch(self, place: Place, batch: bytes, *, rows: int, previous: int) -> None:
        with self._lock:
            self._require_at(place, previous)
            found = self._batches.get((place.projection, place.epoch), {}).get(batch, {})
            if len(found) != rows:
                raise _moved(place, f"a batch of {rows} rows", f"a batch of {len(found)}")
            self._write(place, list(found.values()), previous)
            self._batches.pop((place.projection, place.epoch), None)

    def _require_at(self, place: Place, position: int) -> Place:
        stored = self._places.get((place.projection, place.epoch))
        if stored is None or (stored.position, stored.drops, stored.live) != (position, place.drops, place.live):
            raise _moved(place, str(position), "gone" if stored is None else str(stored.position))
        return stored

    def _write(self, place: Place, rows: Sequence[ViewRow], previous: int) -> None:
        self._require_at(place, previous)
        self._places[place.projection, place.epoch] = place
        kept = self._rows[place.projection, place.epoch]
        kept |= {row.key: row for row in rows}
        for row in rows:
            if row.state is None:
                del kept[row.key]

    def switch(self, projection: str, epoch: int, *, over: int | None) -> None:
        with self._lock:
            staged, live = self._places.get((projection, epoch)), self.place(projection)
            if staged is None or not can_become_live(staged, live, over=over):
                raise errors.ViewMoved(projection=projection, epoch=epoch, expected=str(over), actual=_display(live))
            if live is not None:
                self._places[projection, live.epoch] = msgspec.structs.replace(live, live=False)
            self._places[projection, epoch] = msgspec.structs.replace(staged, live=True)

    def discard(self, projection: str, epoch: int, *, limit: int, live: bool = False) -> int:
        with self._lock:
            place = self._places.get((projection, epoch))
            if place is None or (place.live and not live):
                return 0
            self._places[projection, epoch] = msgspec.structs.replace(place, position=DISCARDED, live=False)
            self._batches.pop((projection, epoch), None)
            rows = self._rows[projection, epoch]
            gone = list(rows)[:limit]
            for key in gone:
                del rows[key]
            if len(gone) < limit:
                del self._places[projection, epoch], self._rows[projection, epoch]
            return len(gone)

    def drop(self, projection: str, keys: Sequence[str]) -> None:
        with self._lock:
            for at, place in list(self._places.items()):
                if place.projection == projection:
                    rows = self._rows[at]
                    rows |= {key: ViewRow(key, None) for key in keys if key in rows}
                    self._places[at] = msgspec.structs.replace(place, drops=place.drops + 1)
                    self._batches.pop(at, None)

    def counted(self, projection: str, *, epoch: int | None = None) -> int | None:
        with self._lock:
            place = self.place(projection) if epoch is None else self._places.get((projection, epoch))
            if place is None or place.discarded:
                return None
            return sum(row.state is not None for row in self._rows[projection, place.epoch].values())

    def dropped(self, projection: str, epoch: int, *, limit: int) -> list[str]:
        with self._lock:
            rows = self._rows.get((projection, epoch), {})
            return sorted(key for key, row in rows.items() if row.state is None)[:limit]


class MemoryDeadLetters:
    """Dead letters by position and consumer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._letters: dict[tuple[int, str], DeadLetter] = {}

    def park(self, letter: DeadLetter) -> None:
        with self._lock:
            self._letters[letter.position, letter.consumer] = letter

    def load(self, consumer: str, position: int) -> DeadLetter | None:
        return self._letters.get((position, consumer))

    def letters(self, consumer: str | None = None, *, after: int = 0, limit: int) -> list[DeadLetter]:
        with self._lock:
            found = [letter for _, letter in sorted(self._letters.items()) if letter.position > after]
        return [letter for letter in found if consumer in (None, letter.consumer)][:limit]

    def remove(self, consumer: str, position: int) -> bool:
        with self._lock:
            return self._letters.pop((position, consumer), None) is not None

    def counts(self) -> LetterCounts:
        with self._lock:
            found = Counter(consumer for _, consumer in self._letters)
        return LetterCounts(kept=found.total(), by_consumer=dict(found))

    def recount(self) -> LetterCounts:
        return self.counts()

    def redact(self, position: int, reason: str) -> None:
        with self._lock:
            for at, letter in self._letters.items():
                if letter.position == position:
                    self._letters[at] = msgspec.structs.replace(letter, reason=reason)


def _moved(place: Place, expected: str, actual: str) -> errors.ViewMoved:
    return errors.ViewMoved(projection=place.projection, epoch=place.epoch, expected=expected, actual=actual)


def _display(live: Place | None) -> str:
    return "none" if live is None else f"epoch {live.epoch} at {live.position}"

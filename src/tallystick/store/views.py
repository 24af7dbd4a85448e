"""The rows of projections, stored next to the log and rebuilt from it.

The key of a row is (projection, epoch, key). One epoch of a projection is live: readers see its rows. A rebuild fills
another epoch, which becomes live in one step when its position has reached that of the live one, so readers never go
back in time. Every write of rows moves the place of its epoch in the same transaction, if the place is still where it
was. So two runners of one projection, or one that was killed, apply no event twice and skip none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

import msgspec

from tallystick import errors
from tallystick.event import canonical
from tallystick.event.model import Event, Row
from tallystick.store.checkpoints import Checkpoint

ROWS_PAGE = 1000
KEY_CHARACTERS_MAX = 500  # 2,000 bytes: what every engine can index
ROWS = "rows"
TABLES = "tables"
DISCARD_ROWS = 10_000  # removed in one transaction
DISCARDED = -1  # the position of an epoch that is being removed
BY_STREAM = "stream"
BY_KIND = "kind"
BY_PAYLOAD = "payload."


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """What rows depend on besides the events. Rows of another definition are not comparable."""

    kind: str
    version: int
    key: str
    order: str
    types: list[str]
    upcasters: str

    @property
    def text(self) -> bytes:
        """The definition as it is stored."""
        return canonical.encode(msgspec.to_builtins(self))


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch of a projection: the definition of its rows, and how far the log was folded into them.

    `drops` counts how often states were dropped: rows that were computed before a drop must not be stored after it.
    Rows that were computed while an epoch was live must not be stored in it when it no longer is.
    """

    projection: str
    epoch: int
    live: bool
    definition: bytes
    store_id: bytes
    position: int = 0
    link_position: int = 0
    link: bytes = b""
    drops: int = 0

    @property
    def checkpoint(self) -> Checkpoint:
        """Its position in the log, as a checkpoint."""
        return Checkpoint(self.projection, self.store_id, self.position, self.link_position, self.link)

    @property
    def defined(self) -> Definition:
        """The definition, decoded; `RowsDamaged` if it cannot be."""
        try:
            return msgspec.convert(canonical.decode(self.definition), Definition)
        except (errors.Damaged, msgspec.ValidationError, TypeError):
            reason = f"the definition of epoch {self.epoch!r} is not what was written"
            raise errors.RowsDamaged(name=self.projection, reason=reason) from None

    @property
    def discarded(self) -> bool:
        """Whether it is being removed."""
        return self.position == DISCARDED

    def moved(self, position: int, last: Event | None) -> Place:
        """The place after the log was read up to `position`; `last` is the last event that was read."""
        if last is None:
            return msgspec.structs.replace(self, position=position)
        return msgspec.structs.replace(self, position=position, link_position=last.position, link=last.link)


class ViewRow(msgspec.Struct, frozen=True, array_like=True):
    """One key and its state as canonical JSON; None if the state was dropped and must be folded again.

    `mark` is the place of the last applied event in its order, for orders other than that of the log.
    """

    key: str
    state: bytes | None
    mark: bytes = b""


class Rows(msgspec.Struct, frozen=True):
    """Rows, and the place of their epoch at the same moment; no place if there is no such epoch."""

    place: Place | None
    rows: list[ViewRow]


Seen: TypeAlias = "set[tuple[str, int, int]]"
"""Epochs of projections whose rows a handle has counted and found complete, with the number of their drops."""


class Views(Protocol):
    """The rows in an engine. Each call is one transaction. Handles of one process may share `seen`."""

    seen: Seen

    def place(self, projection: str) -> Place | None:
        """The live place of a projection."""

    def places(self) -> list[Place]:
        """Every place, in order of projection and epoch."""

    def begin(self, place: Place) -> None:
        """Create an epoch. `ViewMoved` if it exists, or if it should be live and another one is."""

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
        """The rows of these keys, dropped ones too; or those with after < key <= until, ascending, at most `limit`.

        They are of the live epoch unless one is given. Keys are ordered by their UTF-8 bytes.
        """

    def write(self, place: Place, rows: Sequence[ViewRow], *, previous: int) -> None:
        """Store rows and move their epoch to `place`, if it is still at `previous` and `drops`; otherwise `ViewMoved`.

        It is also `ViewMoved` if the epoch has become live, or no longer is: then a runner reads again which one is
        live. A row without a state is removed.
        """

    def fill_batch(self, place: Place, batch: bytes, rows: Sequence[ViewRow]) -> None:
        """Store rows of a batch where no reader sees them, if their epoch is still at `place`, `drops` and `live`.

        Many tasks may fill one batch, each several times. Of two rows with one key, the batch has the later one.
        """

    def write_batch(self, place: Place, batch: bytes, *, rows: int, previous: int) -> None:
        """As `write`, with the rows of a batch; also `ViewMoved` if there are not exactly so many rows.

        Afterwards all batches of the epoch are empty, as after a `drop` or a `discard`.
        """

    def switch(self, projection: str, epoch: int, *, over: int | None) -> None:
        """Make an epoch live instead of `over` (None: no epoch is live); `ViewMoved` if it has not come as far."""

    def discard(self, projection: str, epoch: int, *, limit: int, live: bool = False) -> int:
        """Remove up to `limit` rows of an epoch, and its place when no row is left; returns how many were removed.

        From the first call on its position is `DISCARDED`, so that no runner can write to it or switch to it. A live
        epoch is only removed with `live`.
        """

    def drop(self, projection: str, keys: Sequence[str]) -> None:
        """Drop the states of these keys in every epoch, and count the drop: they may contain an erased payload."""

    def counted(self, projection: str, *, epoch: int | None = None) -> int | None:
        """The number of rows with a state in an epoch, if all that were written are there; otherwise `RowsDamaged`.

        It is the live epoch unless one is given. None if there is no such epoch, or if it is being removed. `rows` does
        the same check once per handle, before it returns a page or says that a key does not exist.
        """

    def dropped(self, projection: str, epoch: int, *, limit: int) -> list[str]:
        """Keys whose states were dropped and are not folded again yet."""


def can_become_live(staged: Place, live: Place | None, *, over: int | None) -> bool:
    """Whether an epoch may become live instead of `over`, which is expected to be live now."""
    if staged.discarded or (live.epoch if live else None) != over:
        return False
    return live is None or staged.position >= live.position


class Inline(Protocol):
    """Projections that an engine calls within every commit, so that their rows are never behind.

    `prepare` gets the rows that are about to be written, and refuses the commit by raising. It returns a function that
    stores the rows of the projections before the commit is acknowledged: in the same transaction if there is one.
    """

    def prepare(self, rows: Sequence[Row], views: Views) -> Callable[[Views], None]: ...


class Absent:
    """The value at a path that does not exist."""


ABSENT = Absent()


def value_at(path: str, event: Event) -> Any:
    """The value of a key for an event: its stream, its kind, or a value in its payload; ABSENT if there is none."""
    if path == BY_STREAM:
        return event.stream
    if path == BY_KIND:
        return event.stream.partition("/")[0]
    value = event.data
    for step in path.removeprefix(BY_PAYLOAD).split("."):
        if type(value) is not dict or step not in value:
            return ABSENT
        value = value[step]
    return value


def sound_definition(views: Views, place: Place) -> Definition | None:
    """The definition of the rows of a place; None if the place is damaged, so that nobody can tell."""
    try:
        views.rows(place.projection, epoch=place.epoch, keys=())
        return place.defined
    except errors.RowsDamaged:
        return None


def drop_rows_of(views: Views, event: Event, digest: Callable[[list[str]], bytes]) -> list[tuple[str, str]]:
    """Drop the states that this upcast event went into; returns their (projection, key). The payload must still exist.

    `digest` names the upcasters at hand. If rows were made through other upcasters, or these fail on the event, or the
    place is damaged, the keys are unknown. Then all rows of the epoch are removed, and the next runner starts again.
    """
    wanted: set[tuple[str, str]] = set()
    for place in views.places():
        made = sound_definition(views, place)
        if made is not None and (made.kind != ROWS or event.type not in made.types):
            continue
        if made is not None and (made.key in (BY_STREAM, BY_KIND) or made.upcasters == digest(made.types).hex()):
            with suppress(errors.SchemaIncompatible, errors.Damaged):
                key = value_at(made.key, event)
                wanted.update([(place.projection, key)] if type(key) is str else [])
                continue
        while views.discard(place.projection, place.epoch, limit=DISCARD_ROWS, live=True) == DISCARD_ROWS:
            pass
    rows = sorted(wanted)
    for projection, key in rows:
        views.drop(projection, [key])
    return rows

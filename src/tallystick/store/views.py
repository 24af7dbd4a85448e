"""The rows that projections keep, beside the log and rebuilt from it.

Rows stand under (projection, epoch, key). One epoch of a projection is live: readers see that one. A rebuild fills
another epoch and becomes live in one step, once its checkpoint has reached the live one, so readers never go back.
Every write of rows moves the checkpoint of its epoch in the same transaction, if that is still where it was: two
runners of one projection, or one that was killed, leave no effect twice and none out.
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
    """What rows depend on besides the events: rows of another definition are not comparable."""

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
    """One epoch of a projection: what made its rows, and how far they go.

    `drops` counts how often states were dropped: what was computed before a drop may not be stored after it. Nor may be
    stored in an epoch that is not live what was computed while it was.
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
        """Where it is in the log."""
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
        """The place after looking as far as `position`, the last event seen on the way being `last`."""
        if last is None:
            return msgspec.structs.replace(self, position=position)
        return msgspec.structs.replace(self, position=position, link_position=last.position, link=last.link)


class ViewRow(msgspec.Struct, frozen=True, array_like=True):
    """One key and its state as canonical JSON; None if the state was dropped and has to be folded again.

    `mark` is the place in its order of the last event applied, for orders other than that of the log.
    """

    key: str
    state: bytes | None
    mark: bytes = b""


class Rows(msgspec.Struct, frozen=True):
    """Rows, and the place of their epoch as of the same moment; no place if there is no such epoch."""

    place: Place | None
    rows: list[ViewRow]


Seen: TypeAlias = "set[tuple[str, int, int]]"
"""Epochs of projections that had all their rows when a handle looked, with the number of their drops."""


class Views(Protocol):
    """The rows that an engine holds. Each call is one transaction. Handles of one process may share what was `seen`."""

    seen: Seen

    def place(self, projection: str) -> Place | None:
        """The live place of a projection."""

    def places(self) -> list[Place]:
        """Every place there is, in order of projection and epoch."""

    def begin(self, place: Place) -> None:
        """Make a new epoch. `ViewMoved` if it exists, or if it is to be live and another one is."""

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

        Of the live epoch unless one is named. Keys are ordered by their UTF-8 bytes.
        """

    def write(self, place: Place, rows: Sequence[ViewRow], *, previous: int) -> None:
        """Store rows and move their epoch to `place`, if it is still at `previous` and `drops`; else `ViewMoved`.

        So too if the epoch was switched to or away from: a runner looks again which one is live.
        A row without a state is removed.
        """

    def fill_batch(self, place: Place, batch: bytes, rows: Sequence[ViewRow]) -> None:
        """Keep rows of a batch where nobody sees them, if their epoch is still at `place`, with its `drops` and `live`.

        Many tasks may fill one batch, each again and again: of two rows of one key, the batch has the later one.
        """

    def write_batch(self, place: Place, batch: bytes, *, rows: int, previous: int) -> None:
        """As `write`, with the rows that fill the batch; `ViewMoved` also if there are not exactly so many.

        Batches of the epoch are empty afterwards, as they are after a `drop` or a `discard`.
        """

    def switch(self, projection: str, epoch: int, *, over: int | None) -> None:
        """Make an epoch live in place of `over` (None: there is none); `ViewMoved` unless it has reached it."""

    def discard(self, projection: str, epoch: int, *, limit: int, live: bool = False) -> int:
        """Remove up to `limit` rows of an epoch, and its place when none is left; says how many rows went.

        From the first call on its position is `DISCARDED`, so that nobody can write to it or switch to it. A live epoch
        is left alone, unless that is said.
        """

    def drop(self, projection: str, keys: Sequence[str]) -> None:
        """Drop the states of these keys in every epoch, and count it: they may repeat what was erased."""

    def counted(self, projection: str, *, epoch: int | None = None) -> int | None:
        """How many rows with a state an epoch has, if it has as many rows as were written; else `RowsDamaged`.

        Of the live epoch unless one is named. None if there is no such epoch, or if it is being removed. `rows` sees to
        this too, once a handle, before it gives a page or says that a key is not there.
        """

    def dropped(self, projection: str, epoch: int, *, limit: int) -> list[str]:
        """Keys whose states were dropped and not folded again yet."""


def can_become_live(staged: Place, live: Place | None, *, over: int | None) -> bool:
    """Whether an epoch may take the place of the live one, which is expected to be `over`."""
    if staged.discarded or (live.epoch if live else None) != over:
        return False
    return live is None or staged.position >= live.position


class Inline(Protocol):
    """What an engine calls within a commit, if it is set: projections that are never behind.

    `prepare` is called with what is about to be written, and refuses the commit by raising; what it returns is called
    to store the rows, before the commit is acknowledged: in the same transaction where there is one.
    """

    def prepare(self, rows: Sequence[Row], views: Views) -> Callable[[Views], None]: ...


class Absent:
    """What a path leads to that is not there."""


ABSENT = Absent()


def value_at(path: str, event: Event) -> Any:
    """What a key says of an event: its stream, the kind of it, or a value in its payload; ABSENT if there is none."""
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
    """What made the rows of a place; None if the place is not what was written, so that nobody can tell."""
    try:
        views.rows(place.projection, epoch=place.epoch, keys=())
        return place.defined
    except errors.RowsDamaged:
        return None


def drop_rows_of(views: Views, event: Event, digest: Callable[[list[str]], bytes]) -> list[tuple[str, str]]:
    """Drop the states that this event, upcast, went into, and say where they stood. Its payload has to be there still.

    `digest` names the upcasters at hand. Rows that were made through others, or of an event these fail on, may have
    a key that cannot be told from here, and what a damaged place holds nobody knows: then all of them go, and the next
    runner begins again.
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

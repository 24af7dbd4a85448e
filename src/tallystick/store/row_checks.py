"""A check for each row that is kept beside the log: places and rows of projections, and checkpoints of consumers.

Events have checksums and links; these rows have nothing of the kind, and a database need not notice a changed byte. So
an engine stores a check with each of them, and gives out none that does not have it. A check is the first 16 bytes of
the SHA-256 over the fields, a newline between two; bytes are written in hex, but for JSON, which is taken as it is. The
field that may itself hold a newline comes last. PostgreSQL and SQLite make the same ones when they are migrated.

A check says nothing about a row that is gone. So the rows of an epoch are counted, in its place, and the count is
changed with them. It needs no check: what it is compared with are the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from tallystick import errors
from tallystick.store.checkpoints import Checkpoint
from tallystick.store.views import Place, ViewRow

CHECK_BYTES = 16
FEW_ROWS = 10_000  # so many are held against their checks when it is asked for the first time what is not there


def check_of(*fields: bytes | str | int) -> bytes:
    """The check over these fields."""
    parts = [field if type(field) is bytes else str(field).encode() for field in fields]
    return sha256(b"\n".join(parts)).digest()[:CHECK_BYTES]


def of_place(place: Place) -> bytes:
    """The check of a place. `live` and `drops` are compared in other ways, and change without it."""
    named = (place.projection, place.epoch, place.definition, place.store_id.hex())
    return check_of(*named, place.position, place.link_position, place.link.hex())


def of_rows(place: Place, rows: Iterable[ViewRow]) -> list[bytes]:
    """The check of each row of an epoch; empty for one without a state, which is folded again and never served."""
    head = f"{place.projection}\n{place.epoch}\n".encode()
    return [b"" if row.state is None else _of_row(head, row.key, row.state, row.mark) for row in rows]


def _of_row(head: bytes, key: str, state: bytes, mark: bytes) -> bytes:
    shown = mark.hex().encode() if mark else b""
    return sha256(b"%b%b\n%b\n%b" % (head, shown, state, key.encode())).digest()[:CHECK_BYTES]


def of_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The check of a consumer's place."""
    place = (checkpoint.position, checkpoint.link_position, checkpoint.link.hex())
    return check_of(checkpoint.store_id.hex(), *place, checkpoint.name)


def checked_place(place: Place, check: object) -> Place:
    """A place that is what was written, or one that is being removed."""
    try:
        is_whole = place.discarded or of_place(place) == check
    except (TypeError, AttributeError):  # a damaged row holds values of any type
        is_whole = False
    if not is_whole:
        reason = f"the place of epoch {place.epoch!r} is not what was written"
        raise errors.RowsDamaged(name=place.projection, reason=reason)
    return place


def checked_rows(place: Place, found: Sequence[Sequence[Any]]) -> list[ViewRow]:
    """The rows of an epoch, from key, state, mark and check of each, if they are what was written."""
    rows = [ViewRow(key, state, mark) for key, state, mark, _ in found]
    try:
        checks = of_rows(place, rows)
        wrong = [row.key for row, values, check in zip(rows, found, checks, strict=True) if (values[3] or b"") != check]
    except (TypeError, AttributeError):  # a damaged row holds values of any type
        wrong = ["of another type"]
    if wrong:
        reason = f"the row of key {wrong[0]!r} is not what was written"
        raise errors.RowsDamaged(name=place.projection, reason=reason)
    return rows


def require_count(place: Place, *, counted: object, found: int) -> None:
    """Refuse an epoch that has more or fewer rows than were counted."""
    if counted != found:
        reason = f"{found} rows of epoch {place.epoch} are found, and {counted} were counted"
        raise errors.RowsDamaged(name=place.projection, reason=reason)


def checked_checkpoint(found: Checkpoint, check: object) -> Checkpoint:
    """A checkpoint that is what was written."""
    try:
        is_whole = of_checkpoint(found) == check
    except (TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        raise errors.CheckpointDamaged(name=found.name)
    return found

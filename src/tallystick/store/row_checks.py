"""A check for each row that is stored next to the log: places and rows of projections, and checkpoints of consumers.

Events have checksums and links. These rows do not, and a database may not notice a changed byte. So an engine stores a
check with each row, and returns no row without the right check. A check is the first 16 bytes of the SHA-256 over the
fields, with a newline between two. Bytes are written in hex, JSON as it is. The field that may itself contain a newline
comes last. PostgreSQL and SQLite compute the same checks when they are migrated.

A check does not show that a row is missing. So the place of an epoch has the number of its rows, which changes with
them. The number needs no check: it is compared with the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from tallystick import errors
from tallystick.store.checkpoints import Checkpoint
from tallystick.store.views import Place, ViewRow

CHECK_BYTES = 16
FEW_ROWS = 10_000  # so many are compared with their checks when a missing key is first asked for


def check_of(*fields: bytes | str | int) -> bytes:
    """The check over these fields."""
    parts = [field if type(field) is bytes else str(field).encode() for field in fields]
    return sha256(b"\n".join(parts)).digest()[:CHECK_BYTES]


def of_place(place: Place) -> bytes:
    """The check of a place, without `live` and `drops`, which change on their own and are compared in other ways."""
    named = (place.projection, place.epoch, place.definition, place.store_id.hex())
    return check_of(*named, place.position, place.link_position, place.link.hex())


def of_rows(place: Place, rows: Iterable[ViewRow]) -> list[bytes]:
    """The check of each row of an epoch. It is empty for a row without a state, which is folded again before use."""
    head = f"{place.projection}\n{place.epoch}\n".encode()
    return [b"" if row.state is None else _of_row(head, row.key, row.state, row.mark) for row in rows]


def _of_row(head: bytes, key: str, state: bytes, mark: bytes) -> bytes:
    marked = mark.hex().encode() if mark else b""
    return sha256(b"%b%b\n%b\n%b" % (head, marked, state, key.encode())).digest()[:CHECK_BYTES]


def of_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The check of a checkpoint."""
    place = (checkpoint.position, checkpoint.link_position, checkpoint.link.hex())
    return check_of(checkpoint.store_id.hex(), *place, checkpoint.name)


def checked_place(place: Place, check: object) -> Place:
    """The place, if it has its check or is being removed."""
    try:
        is_whole = place.discarded or of_place(place) == check
    except (TypeError, AttributeError):  # a damaged row holds values of any type
        is_whole = False
    if not is_whole:
        reason = f"the place of epoch {place.epoch!r} is not what was written"
        raise errors.RowsDamaged(name=place.projection, reason=reason)
    return place


def checked_rows(place: Place, found: Sequence[Sequence[Any]]) -> list[ViewRow]:
    """The rows of an epoch, from key, state, mark and check of each, if all have their checks."""
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
    """Refuse an epoch that has more or fewer rows than its count says."""
    if counted != found:
        reason = f"{found} rows of epoch {place.epoch} are found, and {counted} were counted"
        raise errors.RowsDamaged(name=place.projection, reason=reason)


def checked_checkpoint(found: Checkpoint, check: object) -> Checkpoint:
    """The checkpoint, if it has its check."""
    try:
        is_whole = of_checkpoint(found) == check
    except (TypeError, AttributeError):
        is_whole = False
    if not is_whole:
        raise errors.CheckpointDamaged(name=found.name)
    return found

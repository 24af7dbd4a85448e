"""Verification of what is stored next to the log: rows, places and checkpoints by their checks, and how many there are.

What is wrong here is not damage of the log: it is reported and not put on record, and appends still work.
"""

from __future__ import annotations

from collections.abc import Iterator

from tallystick import errors
from tallystick.store import row_checks
from tallystick.store.events import EventLog, Problem
from tallystick.store.views import Place, ViewRow, Views

LISTED_TIMES = 3
ROWS, CHECKPOINT, LETTERS, UNREADABLE = "rows", "checkpoint", "dead letters", "beside"


def side_problems(log: EventLog) -> list[Problem]:
    """Everything that is wrong next to the log: at most one problem for each projection and consumer."""
    found: list[Problem] = []
    for look in (_rows, _checkpoints, _letters):
        try:
            found += look(log)
        except (errors.Damaged, errors.ReadFailed) as problem:
            found.append(Problem(UNREADABLE, problem.message))
    return found


def _rows(log: EventLog) -> Iterator[Problem]:
    for place in log.views.places():
        if not place.discarded:
            try:
                _check_rows(log, place)
            except errors.RowsDamaged as damage:
                yield Problem(ROWS, damage.message)


def _check_rows(log: EventLog, place: Place) -> None:
    require_listed(log.views, place, sum(1 for _ in _listed(log.views, place)))


def require_listed(views: Views, place: Place, listed: int) -> None:
    """Refuse a complete listing of an epoch that gave more or fewer rows than it has, unless it has moved since.

    Dropped rows may be folded again in the meantime without moving the place. So the rows are listed again.
    """
    for _ in range(LISTED_TIMES):
        counted = views.counted(place.projection, epoch=place.epoch)
        if counted in (None, listed) or views.rows(place.projection, epoch=place.epoch, keys=()).place != place:
            return
        listed = sum(1 for _ in _listed(views, place))
    row_checks.require_count(place, counted=counted, found=listed)


def _listed(views: Views, place: Place) -> Iterator[ViewRow]:
    after = ""
    while page := views.rows(place.projection, epoch=place.epoch, after=after).rows:
        yield from page
        after = page[-1].key


def _checkpoints(log: EventLog) -> Iterator[Problem]:
    for name in log.checkpoints.names():
        try:
            log.checkpoints.load(name)
        except errors.CheckpointDamaged as damage:
            yield Problem(CHECKPOINT, damage.message)


def _letters(log: EventLog) -> Iterator[Problem]:
    try:
        log.dead_letters.counts().require_whole()
    except errors.DeadLettersDamaged as damage:
        yield Problem(LETTERS, damage.message)

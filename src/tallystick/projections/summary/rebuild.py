"""Rebuilding the rows of a summary by the database with the log: one query, and one row per key in Python."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from tallystick import errors
from tallystick.event import canonical
from tallystick.projections.live import Live
from tallystick.projections.rebuild import discard, stage, switch
from tallystick.projections.summary.model import Summary
from tallystick.projections.summary.sql import sum_in_database, why_not_sql
from tallystick.store import cursors
from tallystick.store.store import Store
from tallystick.store.summary_sql import AnswersSummaries
from tallystick.store.views import Place, ViewRow

ROWS_A_WRITE = 5000


def why_not_in_database(store: Store, summary: object) -> str | None:
    """Why the database cannot compute these rows; None if it can."""
    if not isinstance(store.log, AnswersSummaries):
        return f"the engine {store.log.engine} is not an SQL database"
    return why_not_sql(summary, store.catalog)


def rebuild_by_sql(store: Store, summary: Summary, *, progress: Callable[[int], None] = lambda done: None) -> Place:
    """Rebuild by the database up to the head; the live runner does the rest and switches.

    Payloads are checked against their checksums on the way. Links are not checked: `verify` does that.
    """
    if reason := why_not_in_database(store, summary):
        raise errors.ProjectionInvalid(name=summary.name, reason=f"SQL cannot compute it: {reason}")
    views = store.log.views
    staged = stage(store, summary, views)
    try:
        _fill(store, summary, staged)
    except BaseException:
        discard(views, staged)
        raise
    return switch(Live(store, summary, epoch=staged.epoch), views, progress)


def _fill(store: Store, summary: Summary, staged: Place) -> None:
    """Write the rows, and after the last row the position up to which they go."""
    until, views = store.head(), store.log.views
    accounts = sum_in_database(store, summary, until=until) if until else {}
    found = (ViewRow(key, canonical.encode_state(summary.to_state(its))) for key, its in accounts.items())
    while rows := list(islice(found, ROWS_A_WRITE)):
        views.write(staged, rows, previous=staged.position)
    views.write(staged.moved(until, cursors.last_event(store.log, until)), [], previous=staged.position)

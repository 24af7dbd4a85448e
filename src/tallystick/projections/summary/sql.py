"""A summary computed by a database: the query, and the accounts from its result.

If the database refuses a value, Python folds the event at that position and raises the same error as every other
runner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from tallystick import errors
from tallystick.event import canonical
from tallystick.event.catalog import Catalog
from tallystick.projections.model import Upcasters
from tallystick.projections.summary.compiled import NS, Accounts
from tallystick.projections.summary.fields import steps
from tallystick.projections.summary.measures import Measure
from tallystick.projections.summary.model import Summary
from tallystick.store.store import Store
from tallystick.store.summary_sql import HEADS, Aggregate, AnswersSummaries, SummaryQuery
from tallystick.store.views import BY_PAYLOAD, KEY_CHARACTERS_MAX

_PLAIN = re.compile(r"payload(\.[A-Za-z_][A-Za-z0-9_]*)+|stream|kind")


def why_not_sql(summary: Any, catalog: Upcasters) -> str | None:
    """Why only Python can fold a projection; None if it is a summary that SQL can compute."""
    if not isinstance(summary, Summary):
        return "it is written in Python"
    if catalog.upcaster_digest(summary.types) != Catalog().upcaster_digest(summary.types):
        return "its types have upcasters, which are written in Python"
    if not _PLAIN.fullmatch(summary.key):
        return f"the key {summary.key} has a name that is not plain"
    return None


def summary_query(summary: Summary) -> SummaryQuery:
    """The query of a summary. It uses the finest window: hours and days are sums of minutes."""
    listed = summary.measures.values()
    finest = min((measure.per for measure in listed if measure.per), default=0)
    return SummaryQuery(summary.key, tuple(sorted(set(summary.types))), tuple(map(_aggregate, listed)), finest * NS)


def _aggregate(measure: Measure) -> Aggregate:
    path = () if measure.field is None else steps(measure.field)
    return Aggregate(measure.operator.sql, measure.takes, path, measure.of, measure.places, measure.size)


def accounts(summary: Summary, rows: Iterable[Sequence[Any]], *, decode: Any, key_of: Any) -> Accounts:
    """The accounts from the rows of a result, which `first_wrong` has checked."""
    listed = list(summary.measures.values())
    finest = min((measure.per for measure in listed if measure.per), default=1)
    found: Accounts = {}
    for key, window, _, _, _, *columns in rows:
        known = found.setdefault(key_of(key), [None] * len(listed))
        rest = iter(columns)
        for at, measure in enumerate(listed):
            account: Any = measure.operator.read(decode, [next(rest) for _ in measure.operator.sql])
            if account is None:
                continue
            if measure.per:
                account = {window * finest // measure.per: account}
            known[at] = account if known[at] is None else measure.merge(known[at], account)
    for known in found.values():
        known[:] = [one.zero() if it is None else it for one, it in zip(listed, known, strict=True)]
    return found


def sum_in_database(store: Store, summary: Summary, *, until: int) -> Accounts:
    """The accounts of a summary over the log up to a position, computed by its database."""
    assert isinstance(store.log, AnswersSummaries)
    rows = store.log.summed(summary_query(summary), until=until)
    is_json = summary.key.startswith(BY_PAYLOAD)
    if (position := first_wrong(rows, is_json=is_json)) is not None:
        _name(store, summary, position)
    return accounts(summary, rows, decode=_decoded, key_of=_decoded if is_json else str)


def _decoded(text: str) -> Any:
    return canonical.decode(text.encode())


def first_wrong(rows: Iterable[Sequence[Any]], *, is_json: bool) -> int | None:
    """The first position with an invalid key, a refused value, or a damaged event."""
    found = []
    for key, _, first, refused, unsound, *_ in rows:
        if is_json and not _is_key(key):
            found.append(first)
        found += [position for position in (refused, unsound) if position is not None]
    return min(found, default=None)


def _is_key(text: str | None) -> bool:
    return text is not None and text[0] == '"' and 0 < len(_decoded(text)) <= KEY_CHARACTERS_MAX


def _name(store: Store, summary: Summary, position: int) -> None:
    """Raise the error that Python finds in the event at a position."""
    summary.accounts_from(store.events(after=position - 1, until=position))
    raise errors.JobFailed(reason=f"SQL refuses position {position:d}, and Python does not: `tally verify` the log")


assert HEADS == 5  # what `accounts` and `first_wrong` take apart

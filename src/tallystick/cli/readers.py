"""What `tally projections` and `tally consumers` share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import code, output

if TYPE_CHECKING:
    from tallystick import Store
    from tallystick.projections import Gauge

reason = click.option("--reason", default="", metavar="TEXT", help="Why; kept in the audit trail.")


@contextmanager
def retiring(url: str) -> Iterator[Store]:
    """The store, for writing: what is done to readers is recorded in it, as done by who is at the command line."""
    with code.open_store(url, None, readonly=False) as store:
        yield store


def told(store: Store, kind: str, *, as_json: bool) -> None:
    """Print the readers of one kind."""
    from tallystick.projections import gauges

    found = [gauge for gauge in gauges(store) if gauge.kind == kind]
    if as_json:
        for gauge in found:
            output.document(_described(gauge))
        return
    headings = ("name", "position", "behind", "oldest unseen")
    if kind == "consumer":
        output.table((*headings, "dead letters"), ((*_row(gauge), gauge.dead_letters) for gauge in found))
    else:
        output.table(headings, map(_row, found))


def _described(gauge: Gauge) -> dict[str, Any]:
    lag = gauge.lag
    place = {"name": gauge.name, "position": lag.position, "head": lag.head}
    behind = {"lag_events": lag.events, "lag_seconds": lag.seconds}
    letters = {"dead_letters": gauge.dead_letters} if gauge.kind == "consumer" else {}
    return place | behind | letters


def _row(gauge: Gauge) -> tuple[Any, ...]:
    return (gauge.name, gauge.lag.position, gauge.lag.events, f"{gauge.lag.seconds:.0f} s" if gauge.lag.events else "")

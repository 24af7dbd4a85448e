"""`tally project` and `tally projections`: keeping the rows of projections current, listing and dropping them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import code, options, output, progress

if TYPE_CHECKING:
    from tallystick import Store
    from tallystick.projections import Gauge

reason = click.option("--reason", default="", metavar="TEXT", help="Why, for the audit trail.")


@click.command("project", short_help="Bring a projection up to date, and keep it current.")
@options.url
@click.argument("reference", metavar="MODULE:NAME")
@options.follow
@code.catalog
@options.as_json
def project(url: str, reference: str, follow: bool, catalog_reference: str | None, as_json: bool) -> None:
    """Apply every event that the rows of a projection have not seen, starting from their checkpoint.

    MODULE:NAME is a Projection; its module is found in the working directory first. Writers and other runners may run
    at the same time. Rows of another version of the projection are refused: replace them with `tally rebuild`.
    """
    projection = code.load_projection(reference)
    with code.open_shared(url, catalog_reference) as store:
        runner = _runner(store, projection)
        head = store.head()
        with progress.bar(projection.name, total=head) as move:
            reached = runner.catch_up(progress=move)
        _show_position(projection.name, reached, head, as_json=as_json)
        if follow:
            _follow(runner, projection.name, as_json=as_json)


def _follow(runner: Any, name: str, *, as_json: bool) -> None:
    newest = -1

    def report(position: int) -> None:
        nonlocal newest
        if position > newest:
            newest = position
            _show_position(name, position, runner.store.head(), as_json=as_json)

    try:
        runner.follow(stopped=lambda: False, progress=report)
    except KeyboardInterrupt:
        return


def _runner(store: Store, projection: Any) -> Any:
    """The runner for this kind of projection."""
    from tallystick.projections import Live, TableProjection, TableRunner

    kind = TableRunner if isinstance(projection, TableProjection) else Live
    return kind(store, projection)


def _show_position(name: str, position: int, head: int, *, as_json: bool) -> None:
    document = {"projection": name, "position": position, "head": head}
    output.result(document, f"{name} is at position {position} of {head}", as_json=as_json)


# --- projections -----------------------------------------------------------------------------------------------------


@click.group("projections", short_help="List and drop the projections of a store.")
def command() -> None:
    """List and drop the projections of a store: rows and tables that were computed from its log.

    Until it is dropped, a projection prevents the pruning of events that it has not seen, even if nobody runs it.
    """


@command.command("list", short_help="List the projections.")
@options.url
@options.as_json
def list_(url: str, as_json: bool) -> None:
    """List every projection that has rows or tables in this store, and how far it lags behind the log."""
    print_gauges(url, "projection", as_json=as_json)


@command.command("drop", short_help="Drop a projection.")
@options.url
@click.argument("name", metavar="NAME")
@reason
@options.as_json
def drop(url: str, name: str, reason: str, as_json: bool) -> None:
    """Drop the rows or tables of a projection, in every epoch, and its checkpoint.

    A control fact records it. The log is not changed: `tally project` or `tally rebuild` computes the rows again. Stop
    every runner of the projection first, or it comes back.
    """
    from tallystick.projections import drop_projection

    with code.open_store(url, readonly=False) as store:
        done = drop_projection(store, name, reason=reason)
    text = f"dropped projection {done.name}, which was at position {done.position}"
    output.result(done, text, as_json=as_json)


def print_gauges(url: str, kind: str, *, as_json: bool) -> None:
    """Print the projections or the consumers of a store, with their lag."""
    from tallystick.projections import gauges

    with options.open_reading(url) as store:
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
    progress = {"name": gauge.name, "position": lag.position, "head": lag.head}
    behind = {"lag_events": lag.events, "lag_seconds": lag.seconds}
    letters = {"dead_letters": gauge.dead_letters} if gauge.kind == "consumer" else {}
    return progress | behind | letters


def _row(gauge: Gauge) -> tuple[Any, ...]:
    return (gauge.name, gauge.lag.position, gauge.lag.events, f"{gauge.lag.seconds:.0f} s" if gauge.lag.events else "")

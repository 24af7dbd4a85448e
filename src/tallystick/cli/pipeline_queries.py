"""`tally pipeline growth` and `sql`: questions to a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import options, output, pipeline

if TYPE_CHECKING:
    from tallystick.pipeline.jobs.growth import GrowthReport

DAYS_SHOWN = 14
ROWS_MAX = 1000


@click.command("growth", short_help="Show sizes by type, events per day, and a forecast.")
@options.url
@pipeline.archive
@click.option(
    "--page",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write an HTML page with plots.",
)
@pipeline.spark
@options.as_json
def growth(url: str, archive_directory: str | None, page: Path | None, spark: pipeline.Spark, as_json: bool) -> None:
    """Show how large each event type is, what was appended each day, and the size expected in a month and a year."""
    with pipeline.job(spark, "counting") as (session, show):
        from tallystick.pipeline.jobs.growth import growth

        found = growth(session, url, archive_directory, show=show)
    if page is not None:
        from tallystick.pipeline.jobs.growth_page import write_page

        write_page(found, page)
    if as_json:
        output.document(found)
    else:
        _show(found, page)


def _show(found: GrowthReport, page: Path | None) -> None:
    output.table(
        ("type", "events", "size", "mean", "largest"),
        (
            (item.type, item.events, output.size(item.size), f"{item.mean:.0f} B", f"{item.largest} B")
            for item in found.types
        ),
    )
    click.echo()
    days = ((item.day, item.events, output.size(item.size), item.streams) for item in found.days[-DAYS_SHOWN:])
    output.table(("day", "events", "size", "active streams"), days)
    click.echo()
    month = output.size(round(found.size_a_month))
    click.echo(f"{found.events_a_day:.1f} events and {output.size(round(found.size_a_day))} per day, {month} per month")
    for item in found.forecasts:
        click.echo(f"in {item.days} days: {item.events} events, {output.size(item.size)}")
    if page is not None:
        click.echo(f"plots: {page}")


@click.command("sql", short_help="Query the log in SQL.")
@options.url
@click.argument("query")
@pipeline.archive
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=ROWS_MAX,
    show_default=True,
    help="At most this many rows.",
)
@pipeline.spark
@options.as_json
def sql(url: str, query: str, archive_directory: str | None, limit: int, spark: pipeline.Spark, as_json: bool) -> None:
    """Run QUERY over the view `events`: the columns of events, `at`, `org`, and payload fields as data.NAME.

    For example: select type, count(*), sum(data.cents) from events group by type
    """
    with pipeline.job(spark, "querying") as (session, show):
        from tallystick.pipeline.jobs.query import sql
        from tallystick.pipeline.spark.failures import clear
        from tallystick.pipeline.spark.progress import watched

        with clear(), watched(session, "sql", show):
            answer = sql(session, url, query, archive_directory)
            rows = [row.asDict(recursive=True) for row in answer.limit(limit).collect()]
            names = answer.columns
    if as_json:
        for row in rows:
            output.document({name: _plain(value) for name, value in row.items()})
    else:
        output.table(names, ([_plain(row[name]) for name in names] for row in rows))


def _plain(value: Any) -> Any:
    return bytes(value).hex() if isinstance(value, (bytes, bytearray)) else value

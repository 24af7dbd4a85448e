"""`tally pipeline growth`: what the log holds, and how fast it grows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tallystick.cli import options, output, progress, spark

if TYPE_CHECKING:
    from tallystick.pipeline.jobs.growth import GrowthReport

DAYS_SHOWN = 14


@click.command("growth", short_help="Sizes by type, events a day, and a forecast.")
@options.url
@spark.archive
@click.option(
    "--page", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="Write an HTML page with plots too."
)
@spark.master
@spark.memory
@options.as_json
def command(
    url: str, archive_directory: str | None, page: Path | None, master: str, memory: str, as_json: bool
) -> None:
    """Say how large each event type is, what happened each day, and where that leads in a month and a year."""
    with spark.session(master, memory=memory) as session, progress.tasks("counting") as show:
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
    click.echo(f"{found.events_a_day:.1f} events and {output.size(round(found.size_a_day))} a day, {month} a month")
    for item in found.forecasts:
        click.echo(f"in {item.days} days: {item.events} events, {output.size(item.size)}")
    if page is not None:
        click.echo(f"plots: {page}")

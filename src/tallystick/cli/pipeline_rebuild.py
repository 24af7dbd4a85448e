"""`tally pipeline rebuild`: the rows of a projection from the whole log, folded on Spark."""

from __future__ import annotations

import click

from tallystick.cli import modules, options, placing, spark
from tallystick.cli.rebuild import made_anew


@click.command("rebuild", short_help="Make the rows of a projection anew, on Spark.")
@options.url
@click.argument("reference", metavar="MODULE:NAME")
@placing.on("spark")
@modules.catalog
@spark.archive
@spark.master
@spark.memory
@options.as_json
def command(
    url: str,
    reference: str,
    place: str,
    catalog: str | None,
    archive_directory: str | None,
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Fold the whole log into new rows beside the old ones, and switch to them once they have caught up.

    With --archive, history that the log has pruned comes from there.
    """
    made_anew(url, reference, place, catalog, placing.Session(master, memory, archive_directory), as_json=as_json)

"""`tally pipeline rebuild`: the rows of a projection from the whole log, folded on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import modules, options, output, progress, spark
from tallystick.cli.project import open_beside_writer

if TYPE_CHECKING:
    from tallystick import Store

PLACES = ("auto", "process", "spark")


@click.command("rebuild", short_help="Make the rows of a projection anew, on Spark.")
@options.url
@click.argument("reference", metavar="MODULE:NAME")
@click.option(
    "--on",
    "place",
    type=click.Choice(PLACES),
    default="spark",
    show_default=True,
    help="Where the log is folded; auto goes by its size.",
)
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
    archive_directory: Path | None,
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Fold the whole log into new rows beside the old ones, and switch to them once they have caught up.

    With --archive, history that the log has pruned comes from there.
    """
    from tallystick.projections import ViewReader

    projection = modules.projection(reference)
    with open_beside_writer(url, catalog=catalog) as store:
        on_spark = place == "spark" or (place == "auto" and _pays_off(store.head()))
        if on_spark or archive_directory is not None:
            _on_spark(store, projection, archive_directory, master, memory)
        else:
            _in_process(store, projection)
        found = ViewReader(store, projection.name).fingerprint()
    answer = {
        "projection": found.name,
        "position": found.position,
        "rows": found.rows,
        "fingerprint": found.digest,
        "on": "spark" if on_spark or archive_directory is not None else "process",
    }
    if as_json:
        output.document(answer)
    else:
        output.facts(answer.items())


def _pays_off(events: int) -> bool:
    from tallystick.pipeline.rebuilding import pays_off

    return pays_off(events)


def _on_spark(store: Store, projection: Any, archive_directory: Path | None, master: str, memory: str) -> None:
    with spark.session(master, memory=memory) as session, progress.tasks(projection.name) as show:
        from tallystick.pipeline.rebuilding import rebuild

        rebuild(session, store, projection, archive_directory, show=show)


def _in_process(store: Store, projection: Any) -> None:
    from tallystick.projections import rebuild

    with progress.bar(projection.name, total=store.head()) as move:
        rebuild(store, projection, progress=move)

"""`tally rebuild`: the rows of a projection, made anew from the whole log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import modules, options, output, placing, spark
from tallystick.cli.project import open_beside_writer

if TYPE_CHECKING:
    from tallystick import Store


@click.command("rebuild", short_help="Make the rows of a projection anew.")
@options.url
@click.argument("reference", metavar="MODULE:NAME")
@placing.on("auto")
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

    Readers see the old rows until then, and never older ones than before. A log of which a part was pruned cannot be
    folded again, unless --archive has that part: else it is refused. Where it is folded, and why there, is said first.
    """
    made_anew(url, reference, place, catalog, placing.Session(master, memory, archive_directory), as_json=as_json)


def made_anew(
    url: str, reference: str, place: str, catalog: str | None, session: placing.Session, *, as_json: bool
) -> None:
    """Rebuild a projection and show what came of it."""
    projection = modules.projection(reference)
    with open_beside_writer(url, catalog=catalog) as store:
        choice = placing.choose(place, projection, events=store.head(), archive=session.archive, store=store)
        position = placing.rebuild(store, projection, choice, session)
        found = {"projection": projection.name, "position": position}
        found |= _fingerprint(store, projection) | {"on": choice.on, "why": choice.why}
    if as_json:
        output.document(found)
    else:
        output.facts(found.items())


def _fingerprint(store: Store, projection: Any) -> dict[str, Any]:
    """The fingerprint of the rows, unless a live runner keeps them moving, or they are SQL tables."""
    from tallystick import errors
    from tallystick.projections import TableProjection, ViewReader

    if isinstance(projection, TableProjection):
        return {}
    try:
        found = ViewReader(store, projection.name).fingerprint()
    except errors.ViewMoved:
        return {"rows": None, "fingerprint": None}
    return {"rows": found.rows, "fingerprint": found.digest}

"""`tally rebuild`: the rows of a projection, made anew from the whole log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import modules, options, output, progress
from tallystick.cli.project import open_beside_writer

if TYPE_CHECKING:
    from tallystick import Store

PLACES = ("auto", "process")


@click.command("rebuild", short_help="Make the rows of a projection anew.")
@options.url
@click.argument("reference", metavar="MODULE:NAME")
@click.option(
    "--on", "place", type=click.Choice(PLACES), default="auto", show_default=True, help="Where the log is folded."
)
@modules.catalog
@options.as_json
def command(url: str, reference: str, place: str, catalog: str | None, as_json: bool) -> None:
    """Fold the whole log into new rows beside the old ones, and switch to them once they have caught up.

    Readers see the old rows until then, and never older ones than before. A log of which a part was pruned cannot be
    folded again: that is refused.
    """
    from tallystick.projections import TableProjection, TableRunner, rebuild

    projection = modules.projection(reference)
    with open_beside_writer(url, catalog=catalog) as store, progress.bar(projection.name, total=store.head()) as move:
        if isinstance(projection, TableProjection):
            position = TableRunner(store, projection).rebuild(progress=move)
            _show({"projection": projection.name, "position": position}, as_json=as_json)
            return
        made = rebuild(store, projection, progress=move)
        fingerprint = _fingerprint(store, projection.name)
    _show({"projection": made.projection, "position": made.position} | fingerprint, as_json=as_json)


def _fingerprint(store: Store, name: str) -> dict[str, Any]:
    """The fingerprint of the rows, unless a live runner keeps them moving."""
    from tallystick import errors
    from tallystick.projections import ViewReader

    try:
        found = ViewReader(store, name).fingerprint()
    except errors.ViewMoved:
        return {"rows": None, "fingerprint": None}
    return {"rows": found.rows, "fingerprint": found.digest}


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.document(found)
    else:
        output.facts(found.items())

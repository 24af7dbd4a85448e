"""`tally rebuild` and `tally pipeline rebuild`: the rows of a projection, computed again from the whole log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import code, options, output, pipeline, rebuild_location

if TYPE_CHECKING:
    from tallystick import Store


def _rebuild(name: str, *, on: str, short_help: str) -> click.Command:
    """The command, which differs only in where it runs by default."""

    @click.command(name, short_help=short_help)
    @options.url
    @click.argument("reference", metavar="MODULE:NAME")
    @rebuild_location.on(on)
    @code.catalog
    @pipeline.archive
    @pipeline.spark
    @options.as_json
    def rebuild(
        url: str,
        reference: str,
        location: str,
        catalog_reference: str | None,
        archive_directory: str | None,
        spark: pipeline.Spark,
        as_json: bool,
    ) -> None:
        """Fold the whole log into new rows, and switch to them when they have caught up.

        Readers see the old rows until then, and never rows that are older than those they have seen. A log with pruned
        events cannot be folded again, unless --archive has these events; otherwise the rebuild is refused. It first
        prints where the log is folded, and why.
        """
        projection = code.load_projection(reference)
        with code.open_shared(url, catalog_reference) as store:
            choice = rebuild_location.choose(
                location, projection, events=store.head(), archive=archive_directory, store=store
            )
            position = rebuild_location.rebuild(store, projection, choice, spark, archive_directory)
            found = {"projection": projection.name, "position": position}
            found |= _fingerprint(store, projection) | {"on": choice.on, "why": choice.why}
        output.facts(found, as_json=as_json)

    return rebuild


def _fingerprint(store: Store, projection: Any) -> dict[str, Any]:
    """The fingerprint of the rows; None while a live runner changes them. SQL tables have none."""
    from tallystick import errors
    from tallystick.projections import TableProjection, ViewReader

    if isinstance(projection, TableProjection):
        return {}
    try:
        found = ViewReader(store, projection.name).fingerprint()
    except errors.ViewMoved:
        return {"rows": None, "fingerprint": None}
    return {"rows": found.rows, "fingerprint": found.digest}


command = _rebuild("rebuild", on="auto", short_help="Rebuild the rows of a projection.")
on_spark = _rebuild("rebuild", on="spark", short_help="Rebuild the rows of a projection on Spark.")

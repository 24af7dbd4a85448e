"""`tally pipeline diff`: what would another version of this code make of the same history?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from tallystick.cli import code, failures, options, output, progress, spark

if TYPE_CHECKING:
    from tallystick.pipeline.jobs.diff import DiffResult


@click.command("diff", short_help="Compare two versions of a reducer or projection over the history.")
@options.url
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@code.catalog
@spark.archive
@spark.master
@spark.memory
@options.as_json
def command(
    url: str,
    old: str,
    new: str,
    catalog_reference: str | None,
    archive_directory: str | None,
    master: str,
    memory: str,
    as_json: bool,
) -> int:
    """Fold the whole history with OLD and with NEW (MODULE:NAME each, reducers or projections) and compare.

    Lists the keys whose states differ, how, and the first event at which they part. Exit status 0 if none differ, 1
    otherwise: made to run before a change of code is merged.
    """
    code.search_here()
    catalog = code.load_catalog(catalog_reference)
    before, after = _loaded(old), _loaded(new)
    with spark.session(master, memory=memory) as session, progress.tasks("comparing") as show:
        from tallystick.pipeline.jobs.diff import diff

        found = diff(session, url, before, after, archive_directory, catalog=catalog, show=show)
    status = failures.decide(failures.DONE if found.same else failures.NO)
    if as_json:
        from tallystick.store.stating import shown

        output.document({"same": found.same, "url": shown(url)} | msgspec.to_builtins(found))
    else:
        _show(found)
    return status


def _loaded(reference: str) -> Any:
    """A projection if it is one, else a reducer."""
    from tallystick import errors, projections, state

    try:
        return projections.load(reference)
    except errors.NotLoadable as problem:
        if "not a tallystick Projection" not in problem.message:
            raise
        return state.load(reference)


def _show(found: DiffResult) -> None:
    rows = [
        (item.key, f"{item.stream}#{item.seq}", item.position, item.type, change.path, change.old, change.new)
        for item in found.differences
        for change in item.changes
    ]
    if rows:
        output.table(("key", "parts at", "position", "type", "path", "old", "new"), rows)
    click.echo(f"{found.differing} of {found.keys} keys differ, up to position {found.until}")

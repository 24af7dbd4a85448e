"""`tally pipeline verify`, `replay-check` and `diff`: checks of a whole history on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from tallystick.cli import code, options, output, pipeline
from tallystick.cli.verify import counted, show_problems

if TYPE_CHECKING:
    from tallystick.pipeline.jobs.diff import DiffResult
    from tallystick.pipeline.jobs.replay_check import ReplayCheckResult
    from tallystick.pipeline.jobs.verify import VerifyResult


def _document(url: str, name: str, ok: bool, found: Any) -> dict[str, Any]:
    """What a check found as a document: the verdict by its name, and the log first."""
    from tallystick.store.urls import redacted

    document: dict[str, Any] = {name: ok, "url": redacted(url)} | msgspec.to_builtins(found)
    return document


@click.command("verify", short_help="Check every event on Spark.")
@options.url
@pipeline.archive
@pipeline.spark
@options.as_json
def verify(url: str, archive_directory: str | None, spark: pipeline.Spark, as_json: bool) -> int:
    """Check checksums, sequences, links, fingerprints, erasures and heads of the whole log, and list every problem.

    With --archive, its files and rows are compared with each other and with the log. Exit status 0 if nothing is wrong,
    1 otherwise.
    """
    with pipeline.job(spark, "verifying") as (session, show):
        from tallystick.pipeline.jobs.verify import verify

        found = verify(session, url, archive_directory, show=show)
    document = _document(url, "ok", found.ok, found)
    return output.answer(found.ok, document, lambda: _show_verified(found), as_json=as_json)


def _show_verified(found: VerifyResult) -> None:
    if found.problems:
        show_problems(found.problems)
        click.echo(f"{counted(found.problems, found.truncated)} in {found.events} events")
    else:
        erased = f", {found.erased} of them erased" if found.erased else ""
        pruned = f", {found.pruned} pruned from the log" if found.pruned else ""
        click.echo(f"ok: {found.events} events{erased} in {found.streams} streams{pruned}, head {found.until}")
    for text in found.unsure:
        output.note(f"not checked: {text}")


@click.command("replay-check", short_help="Fold every sealed run and compare fingerprints.")
@options.url
@code.reducers
@code.catalog
@pipeline.archive
@pipeline.spark
@options.as_json
def replay_check(
    url: str,
    references: tuple[str, ...],
    catalog_reference: str | None,
    archive_directory: str | None,
    spark: pipeline.Spark,
    as_json: bool,
) -> int:
    """Fold every sealed run from its first event and from its snapshots, with the reducer that its fingerprint names.

    Exit status 0 if at least one run could be compared and all agree, 1 otherwise.
    """
    reducers, catalog = code.load_reducers(references), code.load_catalog(catalog_reference)
    with pipeline.job(spark, "replaying") as (session, show):
        from tallystick.pipeline.jobs.replay_check import replay_check

        found = replay_check(session, url, reducers, archive_directory, catalog=catalog, show=show)
    document = _document(url, "ok", found.ok, found)
    return output.answer(found.ok, document, lambda: _show_replayed(found), as_json=as_json)


def _show_replayed(found: ReplayCheckResult) -> None:
    rows = [*found.differences, *found.others]
    if rows:
        headings = ("stream", "seq", "reducer", "verdict", "reason")
        output.table(headings, ([row[name] for name in headings] for row in rows))
    if not found.same and not found.different:
        output.note("nothing was compared: no stream was sealed by one of these reducers (`tally state … --seal`)")
    click.echo(f"{found.same} agree, {found.different} differ, {found.not_comparable} cannot be compared")


@click.command("diff", short_help="Compare two versions of a reducer or projection over the history.")
@options.url
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@code.catalog
@pipeline.archive
@pipeline.spark
@options.as_json
def diff(
    url: str,
    old: str,
    new: str,
    catalog_reference: str | None,
    archive_directory: str | None,
    spark: pipeline.Spark,
    as_json: bool,
) -> int:
    """Fold the whole history with OLD and with NEW (reducers or projections, each MODULE:NAME), and compare.

    Lists the keys whose states differ, how they differ, and the first event after which they do. Exit status 0 if
    nothing differs, 1 otherwise. Run it before you merge a change of code.
    """
    code.search_here()
    catalog = code.load_catalog(catalog_reference)
    before, after = _loaded(old), _loaded(new)
    with pipeline.job(spark, "comparing") as (session, show):
        from tallystick.pipeline.jobs.diff import diff

        found = diff(session, url, before, after, archive_directory, catalog=catalog, show=show)
    document = _document(url, "same", found.same, found)
    return output.answer(found.same, document, lambda: _show_compared(found), as_json=as_json)


def _loaded(reference: str) -> Any:
    """A projection, or otherwise a reducer."""
    from tallystick import errors, projections, state

    try:
        return projections.load(reference)
    except errors.NotLoadable as problem:
        if "not a tallystick Projection" not in problem.message:
            raise
        return state.load(reference)


def _show_compared(found: DiffResult) -> None:
    rows = [
        (item.key, f"{item.stream}#{item.seq}", item.position, item.type, change.path, change.old, change.new)
        for item in found.differences
        for change in item.changes
    ]
    if rows:
        output.table(("key", "differs from", "position", "type", "path", "old", "new"), rows)
    click.echo(f"{found.differing} of {found.keys} keys differ, up to position {found.until}")

"""`tally pipeline replay-check`: does every sealed run fold to its fingerprint?"""

from __future__ import annotations

import click
import msgspec

from tallystick.cli import code, failures, options, output, progress, spark


@click.command("replay-check", short_help="Fold every sealed run and compare fingerprints.")
@options.url
@code.reducers
@code.catalog
@spark.archive
@spark.master
@spark.memory
@options.as_json
def command(
    url: str,
    references: tuple[str, ...],
    catalog_reference: str | None,
    archive_directory: str | None,
    master: str,
    memory: str,
    as_json: bool,
) -> int:
    """Fold every sealed run in full and from its snapshots, with the reducer that its fingerprint names.

    Exit status 0 if something could be compared and all of it agrees, 1 otherwise.
    """
    reducers, catalog = code.load_reducers(references), code.load_catalog(catalog_reference)
    with spark.session(master, memory=memory) as session, progress.tasks("replaying") as show:
        from tallystick.pipeline.jobs.replay_check import replay_check

        found = replay_check(session, url, reducers, archive_directory, catalog=catalog, show=show)
    status = failures.decide(failures.DONE if found.ok else failures.NO)
    if as_json:
        from tallystick.store.stating import shown

        output.document({"ok": found.ok, "url": shown(url)} | msgspec.to_builtins(found))
        return status
    rows = [*found.differences, *found.others]
    if rows:
        headings = ("stream", "seq", "reducer", "verdict", "reason")
        output.table(headings, ([row[name] for name in headings] for row in rows))
    if not found.same and not found.different:
        output.note("nothing was compared: no stream is sealed by a reducer that was named (`tally state … --seal`)")
    click.echo(f"{found.same} agree, {found.different} differ, {found.not_comparable} cannot be compared")
    return status

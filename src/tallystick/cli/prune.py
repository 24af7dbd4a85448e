"""`tally prune`: remove the covered beginning of a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import archived, code, failures, options, output

if TYPE_CHECKING:
    from tallystick.state import Plan


@click.command("prune", short_help="Remove the covered beginning of a stream.")
@options.url
@click.argument("stream")
@click.option("--before", type=click.IntRange(1), required=True, metavar="SEQ", help="Events before this seq go.")
@code.reducers
@code.catalog
@click.option("--snapshot", is_flag=True, help="Make the covering snapshot in the same commit.")
@archived.option
@click.option("--accept", is_flag=True, help="Accept that what was before the cut can no longer be rebuilt.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and everything that stands against it.")
@options.as_json
def command(
    url: str,
    stream: str,
    before: int,
    references: tuple[str, ...],
    catalog_reference: str | None,
    snapshot: bool,
    archive_directory: str | None,
    accept: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Prune the events of a stream before a seq. Heads, links and the audit trail stay.

    Refused: without a covering snapshot, past it, inside a step, before a consumer has seen the events. With --reducer
    the snapshot is compared with a replay first. Needs --accept, unless --archive holds every event that goes: each
    one is looked up there. Exit status 1 if it is refused.
    """
    from tallystick import errors, state

    chosen = code.load_reducers(references)
    with code.open_store(url, catalog_reference, readonly=dry_run) as store:
        asked: dict[str, Any] = {"before": before, "reducers": chosen, "snapshot": snapshot, "accept": accept}
        archive = archived.covering(archive_directory, store)
        found = state.plan(store, stream, **asked, archive=archive)
        if not dry_run and found.ok:
            found.count = state.prune(store, stream, **asked, archive=archive)
    if not dry_run and not found.ok:
        raise errors.PruneRefused(stream=stream, before=before, reason="; ".join(found.refusals))
    _show(found, dry_run=dry_run, as_json=as_json)
    return failures.decide(failures.DONE if found.ok else failures.NO)


def _show(found: Plan, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        output.document(
            {
                "stream": found.stream,
                "before": found.before,
                "count": found.count,
                "pruned": found.ok and not dry_run,
                "snapshots": [entry.id.hex() for entry in found.snapshots],
                "lost": found.lost,
                "archived": found.archived,
                "refusals": found.refusals,
            }
        )
        return
    verb = "would go" if dry_run else "went"
    click.echo(f"{found.count} events of {found.stream} before seq {found.before} {verb}")
    for name in found.lost:
        place = " of the log, but from the archive" if found.archived else ""
        click.echo(f"  {name} can no longer start from the first event{place}")
    for refusal in found.refusals:
        click.echo("  not now: " + output.printable(refusal))

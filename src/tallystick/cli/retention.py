"""`tally prune`, `erase` and `retain`: removing what is not needed, or must not be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from tallystick.cli import code, options, output, progress

if TYPE_CHECKING:
    from tallystick.state import Plan
    from tallystick.state.retention import RetentionAction
    from tallystick.store.maintenance import Reclaimed

PRESETS = ("keep-all", "keep-7-days", "keep-30-days", "keep-90-days")
ALIASES = ("none", "reach", "lighthouse", "community", "control-plane")


@click.command("prune", short_help="Remove the beginning of a stream that a snapshot covers.")
@options.url
@click.argument("stream")
@click.option("--before", type=click.IntRange(1), required=True, metavar="SEQ", help="Prune events before this seq.")
@code.reducers
@code.catalog
@click.option("--snapshot", is_flag=True, help="Make the covering snapshot in the same commit.")
@options.archive(
    "The archive of this log. If it holds the events, --accept is not needed.", variable=options.ARCHIVE_VARIABLE
)
@click.option("--accept", is_flag=True, help="Accept that states before the cut can no longer be rebuilt.")
@click.option("--dry-run", is_flag=True, help="Show what would be pruned, and every reason against it.")
@options.as_json
def prune(
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

    It is refused if no snapshot covers the events, if the cut is inside a step, or if a consumer has not seen the
    events. With --reducer the snapshot is first compared with a replay. --accept is required, unless --archive holds
    every event to be pruned; each of them is looked up there. Exit status 1 if it is refused.
    """
    from tallystick import errors, state

    chosen = code.load_reducers(references)
    with code.open_store(url, catalog_reference, readonly=dry_run) as store:
        asked: dict[str, Any] = {"before": before, "reducers": chosen, "snapshot": snapshot, "accept": accept}
        archive = options.open_archive(archive_directory, store)
        found = state.plan(store, stream, **asked, archive=archive)
        if not dry_run and found.ok:
            found.count = state.prune(store, stream, **asked, archive=archive)
    if not dry_run and not found.ok:
        raise errors.PruneRefused(stream=stream, before=before, reason="; ".join(found.refusals))
    document = {
        "stream": found.stream,
        "before": found.before,
        "count": found.count,
        "pruned": found.ok and not dry_run,
        "snapshots": [entry.id.hex() for entry in found.snapshots],
        "lost": found.lost,
        "archived": found.archived,
        "refusals": found.refusals,
    }
    return output.answer(found.ok, document, lambda: _show_plan(found, dry_run=dry_run), as_json=as_json)


def _show_plan(found: Plan, *, dry_run: bool) -> None:
    verb = "would be pruned" if dry_run else "pruned"
    click.echo(f"{found.count} events of {found.stream} before seq {found.before} {verb}")
    for name in found.lost:
        source = " of the log, but from the archive" if found.archived else ""
        click.echo(f"  {name} can no longer start from the first event{source}")
    for refusal in found.refusals:
        click.echo("  refused: " + output.printable(refusal))


@click.command("erase", short_help="Erase the payload of one event permanently.")
@options.url
@click.argument("stream")
@click.argument("seq", type=click.IntRange(1))
@click.option(
    "--reason", required=True, help="Why, for the audit trail. Write no personal data: the reason cannot be erased."
)
@code.reducers
@code.catalog
@click.option(
    "--accept", is_flag=True, help="Erase it even if a state from before a cut is lost together with its snapshot."
)
@options.as_json
def erase(
    url: str,
    stream: str,
    seq: int,
    reason: str,
    references: tuple[str, ...],
    catalog_reference: str | None,
    accept: bool,
    as_json: bool,
) -> None:
    """Erase a payload. Envelope, checksum and link stay, so the chain still verifies and reports the event as erased.

    In the same commit, snapshots that contain the payload are dropped, those of the given reducers are made again,
    fingerprints are sealed again, and stored responses of commands are dropped.
    """
    from tallystick import state

    chosen = code.load_reducers(references)
    with code.open_store(url, catalog_reference, readonly=False) as store:
        done = state.erase(store, stream, seq, reason=reason, reducers=chosen, accept=accept)
        reclaimed = store.log.reclaim(compress_before=None, progress=lambda amount: None)
    if as_json:
        output.document(msgspec.to_builtins(done) | {"reclaimed": reclaimed.done})
        return
    click.echo(
        f"erased seq {seq} of {stream}: {done.dropped} snapshots dropped, {done.made} made again, "
        f"{done.sealed} fingerprints sealed again, {done.responses} responses dropped"
    )
    for text in reclaimed.done:
        click.echo(f"  {text}")
    if not done.salted:
        output.note("the payload had no salt: a short one can be guessed from its checksum, which is kept")


@click.command("retain", short_help="Apply the retention policy once.")
@options.url
@click.option(
    "--preset", type=click.Choice(PRESETS + ALIASES), help="The retention preset. Default: $TALLY_PRESET, or keep-all."
)
@code.reducers
@code.catalog
@options.archive("The archive of this log. Only events that it holds are pruned.", variable=options.ARCHIVE_VARIABLE)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and what would be kept and why.")
@options.as_json
def retain(
    url: str,
    preset: str | None,
    references: tuple[str, ...],
    catalog_reference: str | None,
    archive_directory: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Thin out snapshots, prune old events that snapshots cover, compress old segments, and free space.

    Every number of a preset can be set by an environment variable (docs/state.md lists them). Only events that a
    verified snapshot covers are pruned. With --archive, only events that the archive holds are pruned; each of them is
    looked up there. Without a preset everything is kept.
    """
    from tallystick.state.policy import policy
    from tallystick.state.retention import retain

    chosen = code.load_reducers(references)
    opened = code.open_store(url, catalog_reference, readonly=dry_run)
    with opened as store, progress.bar("retention", total=None) as move:
        archive = options.open_archive(archive_directory, store)
        actions, reclaimed = retain(store, chosen, policy(preset), dry_run=dry_run, archive=archive, progress=move)
    if as_json:
        output.document({"dry_run": dry_run, "deeds": msgspec.to_builtins(actions), "reclaimed": reclaimed})
    else:
        _show_actions(actions, reclaimed, dry_run=dry_run)


def _show_actions(actions: list[RetentionAction], reclaimed: Reclaimed | None, *, dry_run: bool) -> None:
    if actions:
        rows = ((action.what, action.stream, action.count, action.why_not) for action in actions)
        output.table(("would be" if dry_run else "done", "stream", "count", "why not"), rows)
    for line in reclaimed.done if reclaimed is not None else ():
        click.echo(line)
    if reclaimed is not None and reclaimed.bytes_before > reclaimed.bytes_after:
        click.echo(f"{output.size(reclaimed.bytes_before)} became {output.size(reclaimed.bytes_after)}")
    if not actions and not (reclaimed and reclaimed.done):
        click.echo("nothing to do")

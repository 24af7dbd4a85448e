"""`tally retain`: do what the retention policy says, once, now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from tallystick.cli import archived, code, options, output, progress

if TYPE_CHECKING:
    from tallystick.state.retention import Deed
    from tallystick.store.maintenance import Reclaimed

PRESETS = ("keep-all", "keep-7-days", "keep-30-days", "keep-90-days")
ALIASES = ("none", "reach", "lighthouse", "community", "control-plane")


@click.command("retain", short_help="Apply the retention policy.")
@options.url
@click.option("--preset", type=click.Choice(PRESETS + ALIASES), help="The preset to go by; TALLY_PRESET names it too.")
@code.reducers
@code.catalog
@archived.option
@click.option("--dry-run", is_flag=True, help="Say what would go and why not, and change nothing.")
@options.as_json
def command(
    url: str,
    preset: str | None,
    references: tuple[str, ...],
    catalog_reference: str | None,
    archive_directory: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Thin out snapshots, prune what is old and covered, compress old segments, give room back.

    Every knob of the preset can be set by a variable (docs/state.md lists them). Nothing goes that no verified snapshot
    covers. With --archive, only events that the archive holds are pruned: each one is looked up there. With no preset
    everything is kept.
    """
    from tallystick.state.policy import policy
    from tallystick.state.retention import retain

    chosen = code.load_reducers(references)
    opened = code.open_store(url, catalog_reference, readonly=dry_run)
    with opened as store, progress.bar("retention", total=None) as move:
        archive = archived.covering(archive_directory, store)
        deeds, reclaimed = retain(store, chosen, policy(preset), dry_run=dry_run, archive=archive, progress=move)
    if as_json:
        output.document({"dry_run": dry_run, "deeds": msgspec.to_builtins(deeds), "reclaimed": reclaimed})
    else:
        _show(deeds, reclaimed, dry_run=dry_run)


def _show(deeds: list[Deed], reclaimed: Reclaimed | None, *, dry_run: bool) -> None:
    if deeds:
        rows = ((deed.what, deed.stream, deed.count, deed.why_not) for deed in deeds)
        output.table(("would be" if dry_run else "done", "stream", "count", "why not"), rows)
    for line in reclaimed.done if reclaimed is not None else ():
        click.echo(line)
    if reclaimed is not None and reclaimed.bytes_before > reclaimed.bytes_after:
        click.echo(f"{output.size(reclaimed.bytes_before)} became {output.size(reclaimed.bytes_after)}")
    if not deeds and not (reclaimed and reclaimed.done):
        click.echo("nothing to do")

"""`tally doctor --accept-loss`: what is given up, in words, before or after it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tallystick.cli import output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallystick.store.acceptance import Acceptance
    from tallystick.store.page import Hole

STREAMS_SHOWN = 20


def show(accepted: Acceptance, *, dry_run: bool) -> None:
    """Say which positions and seqs are lost, what nobody knows, and where the damaged bytes are."""
    verb = "would be lost" if dry_run else "lost"
    for loss in accepted.losses:
        known = "an index knows its streams" if loss.is_indexed else "no index is left of it"
        click.echo(f"{verb}: positions {loss.first} to {loss.last} ({loss.count}); {known}")
    for lost in accepted.streams[:STREAMS_SHOWN]:
        click.echo(f"{verb}: {lost.stream} seq {lost.first} to {lost.last}")
    _more(len(accepted.streams))
    for name in accepted.uncertain[:STREAMS_SHOWN]:
        click.echo(f"{name} may have lost events at its end: it goes on after all seqs that it can have had")
    _more(len(accepted.uncertain))
    if any(not loss.is_indexed for loss in accepted.losses):
        click.echo("a stream all of whose events were lost may begin again: nobody knows its name")
    for kept in accepted.kept:
        click.echo(f"kept: {kept.file}, sha256 {kept.sha256}")
    if not accepted.losses:
        click.echo("no event is lost: there is nothing to accept")


def _more(count: int) -> None:
    if count > STREAMS_SHOWN:
        click.echo(f"and {count - STREAMS_SHOWN} more streams")


def show_accepted(holes: Iterable[Hole]) -> None:
    """The losses that were accepted before."""
    for hole in holes:
        click.echo(f"accepted loss: positions {hole.first} to {hole.last}: " + output.printable(hole.reason))

"""`tally import`: events from NDJSON, or a whole export."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from tallystick.cli import options, output, progress

if TYPE_CHECKING:
    from tallystick import Store
    from tallystick.moving import Progress


@click.command("import", short_help="Append events from NDJSON, or take over a whole export.")
@options.url
@click.argument("file", metavar="FILE|-", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--batch", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Lines in one commit.")
@options.creation
@options.as_json
def command(url: str, file: str, batch: int, profile: str | None, secrets: str | None, as_json: bool) -> None:
    """Append the events of an NDJSON file, or of stdin, in the file's order. The store is created if there is none.

    A line is {"stream","type","payload"} and, if wanted, "version", "meta", "expected", "id", "time", "signature".
    Lines of `tally export` are taken too; what they claim (seq, checksum, link) must come true.

    A whole export (`tally export --whole`) gives an empty store the same log again: control facts, what was pruned and
    erased, snapshots, the same positions and links. If its last line is missing, it was cut off: exit status 1.

    Each batch is one commit. At a bad line the import stops with exit status 1, and nothing of its batch is written.
    With ids in the lines it is safe to run it again: what is stored already is skipped.
    """
    import tallystick
    from tallystick.moving import Intake, lines_of

    with ExitStack() as stack:

        def opened(of_export: str | None) -> Store:
            setting = secrets if of_export is None else None  # a control fact, and a store that takes over has none
            return stack.enter_context(tallystick.open(url, profile=profile or of_export, secrets=setting))

        source = sys.stdin.buffer if file == "-" else stack.enter_context(open(file, "rb"))
        total = None if file == "-" else os.path.getsize(file)
        move = stack.enter_context(progress.bar("importing", total=total, in_bytes=True))
        intake = Intake(opened, batch=batch, moved=move)
        try:
            done = intake.run(lines_of(source))
        except KeyboardInterrupt:
            output.note(f"interrupted: {summary(intake.progress)}")
            raise
        store = intake.store or opened(None)
        if secrets is not None:
            store.configure(secrets=secrets)
        show(store, done, as_json=as_json)


def summary(done: Progress) -> str:
    """What was done, in one sentence."""
    text = f"imported {done.imported} events from {done.lines} lines"
    if done.skipped:
        text += f", {done.skipped} were stored already"
    if done.control:
        text += f", {done.control} control facts of the other store left out"
    if done.pruned:
        text += f", {done.pruned} pruned events noted as gone"
    if done.snapshots:
        text += f", {done.snapshots} snapshots"
    if done.snapshots_left_out:
        text += f", {done.snapshots_left_out} snapshots left out"
    if done.appended_because:
        text += f"; they were appended as new events, because {done.appended_because}"
    return text


def show(store: Store, done: Progress, *, as_json: bool) -> None:
    """Print what was done."""
    head = store.head()
    if not as_json:
        click.echo(f"{summary(done)}; head {head}")
        return
    output.document(
        {
            "imported": done.imported,
            "skipped": done.skipped,
            "control": done.control,
            "pruned": done.pruned,
            "snapshots": done.snapshots,
            "snapshots_left_out": done.snapshots_left_out,
            "whole": done.whole,
            "appended_because": done.appended_because or None,
            "lines": done.lines,
            "head": head,
            "url": store.log.url,
            "store_id": store.log.store_id.hex(),
        }
    )

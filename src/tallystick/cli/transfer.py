"""`tally export`, `import` and `copy`: logs that move. `tallystick.moving` does the work."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from tallystick.cli import failures, options, output, progress
from tallystick.event import line

if TYPE_CHECKING:
    from tallystick import Selection, Store
    from tallystick.moving import Progress
    from tallystick.store.page import Page

PAGE = 1000


@click.command("export", short_help="Write events as NDJSON.")
@options.url
@options.after
@options.until
@options.selection
@click.option("--over-holes", is_flag=True, help="Go on after damaged ranges; exit status 1 if there were any.")
@click.option("--whole/--events-only", "is_whole", default=None, help="Everything that makes the log, or events alone.")
@click.option("--without-snapshots", is_flag=True, help="Leave the bodies of snapshots out of a whole export.")
def export(
    url: str,
    after: int | None,
    until: int | None,
    over_holes: bool,
    is_whole: bool | None,
    without_snapshots: bool,
    chosen: Selection,
) -> int:
    """Write events to stdout, one JSON object a line, in order of position.

    Every field of the envelope is there; payload and meta are the stored bytes. `tally import` takes these lines.

    A whole export has lines of its own besides, which begin with the key "tally": what was pruned, snapshots, and a
    last line by which `tally import` knows that nothing was cut off. It moves a log as it is. A log of which something
    was pruned or erased is exported whole, unless only a part of it is asked for, or --events-only.

    Exit status 1 if a stream that was named does not exist; the events of the others are written.
    """
    from tallystick import moving
    from tallystick.store.selection import EVERYTHING

    is_part = after is not None or until is not None or chosen != EVERYTHING or over_holes
    if is_part and is_whole:
        raise click.UsageError("--whole is the whole log: it goes with no option that chooses a part of it.")
    with options.open_reading(url) as store:
        if is_whole or (is_whole is None and not is_part and moving.must_be_whole(store)):
            return _export_whole(store, snapshots=not without_snapshots)
        if after is None:
            options.note_pruned(store)
        status = options.note_missing(store, chosen.streams)
        return _export(store, status, after, _end(store, until), chosen, over_holes)


def _export_whole(store: Store, *, snapshots: bool) -> int:
    from tallystick import moving

    with progress.bar("exporting", total=store.head(), shown=not sys.stdout.isatty()) as move:
        for part in moving.whole(store, snapshots=snapshots, progress=move):
            output.write(part)
    return failures.DONE


def _export(store: Store, status: int, start: int | None, until: int, chosen: Selection, over_holes: bool) -> int:
    first = start or 0
    with progress.bar("exporting", total=max(until - first, 0), shown=not sys.stdout.isatty()) as move:
        for page in store.pages(
            after=first,
            until=until,
            selection=chosen,
            limit=PAGE,
            over_holes=over_holes,
            over_pruned=start is None,
        ):
            output.write(line.lines(page.events))
            status = _tell_holes(page, status)
            move(page.through - first)
    return status


def _tell_holes(page: Page, status: int) -> int:
    for hole in page.holes:
        output.note(f"positions {hole.first} to {hole.last} are damaged and left out: {hole.reason}")
        status = failures.decide(failures.NO)
    return status


def _end(store: Store, until: int | None) -> int:
    head = store.head()
    return head if until is None else min(until, head)


@click.command("import", short_help="Append events from NDJSON, or take over a whole export.")
@options.url
@click.argument("file", metavar="FILE|-", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--batch", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Lines in one commit.")
@options.creation
@options.as_json
def import_(url: str, file: str, batch: int, profile: str | None, secrets: str | None, as_json: bool) -> None:
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
            output.note(f"interrupted: {_summary(intake.progress)}")
            raise
        store = intake.store or opened(None)
        if secrets is not None:
            store.configure(secrets=secrets)
        _show(store, done, as_json=as_json)


def _summary(done: Progress) -> str:
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


def _show(store: Store, done: Progress, *, as_json: bool) -> None:
    """Print what was done."""
    head = store.head()
    if not as_json:
        click.echo(f"{_summary(done)}; head {head}")
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


@click.command("copy", short_help="Copy a whole log into another store.")
@click.argument("source", metavar="URL")
@click.argument("target", metavar="NEW_URL")
@click.option("--batch", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Events in one commit.")
@click.option("--without-snapshots", is_flag=True, help="Leave the bodies of snapshots out.")
@options.as_json
def copy(source: str, target: str, batch: int, without_snapshots: bool, as_json: bool) -> None:
    """Copy a whole log: `tally export --whole URL | tally import NEW_URL -`.

    NEW_URL is created if there is none. It must be empty, or hold the beginning of the same log: a copy that was
    interrupted, or made earlier, is continued. Nothing is written to URL, and what is appended to it after the start
    is not copied. If both stores are written to afterwards, they are two histories.
    """
    import tallystick
    from tallystick.moving import Intake, whole

    with ExitStack() as stack:
        origin = stack.enter_context(options.open_reading(source))
        move = stack.enter_context(progress.bar("copying", total=origin.head()))

        def opened(of_export: str | None) -> Store:
            return stack.enter_context(tallystick.open(target, profile=of_export))

        intake = Intake(opened, batch=batch)
        try:
            done = intake.run(_lines(whole(origin, snapshots=not without_snapshots, progress=move)))
        except KeyboardInterrupt:
            output.note(f"interrupted: {_summary(intake.progress)}")
            raise
        _show(intake.store or opened(None), done, as_json=as_json)


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    for part in parts:
        yield from part.splitlines(keepends=True)

"""`tally export`, `import` and `copy`: logs that move. `tallystick.moving` does the work."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from tallystick.cli import failures, options, output, progress

if TYPE_CHECKING:
    from tallystick import Selection, Store
    from tallystick.moving import Progress
    from tallystick.store.page import Hole

_SNAPSHOTS = click.option("--without-snapshots", is_flag=True, help="Leave out the bodies of snapshots.")


@click.command("export", short_help="Write a log as NDJSON.")
@options.url
@options.after
@options.until
@options.selection
@click.option("--over-holes", is_flag=True, help="Skip damaged ranges; exit status 1 if there are any.")
@click.option(
    "--whole/--events-only",
    "is_whole",
    default=None,
    help="Export everything that makes the log, or only events. Default: see above.",
)
@_SNAPSHOTS
def export(
    url: str,
    after: int | None,
    until: int | None,
    over_holes: bool,
    is_whole: bool | None,
    without_snapshots: bool,
    chosen: Selection,
) -> int:
    """Write events to stdout, one JSON object per line, in order of position.

    Each line has every field of the envelope, with payload and meta exactly as stored. `tally import` reads these
    lines.

    A whole export moves a log as it is. It also has lines that begin with the key "tally": what was pruned, snapshots,
    and a last line, by which `tally import` knows that nothing is missing. If something was pruned or erased, the
    export is whole by default, unless you choose a part of the log.

    Exit status 1 if a --stream does not exist. The events of the other streams are written.
    """
    from tallystick import moving
    from tallystick.store.selection import EVERYTHING

    status = failures.DONE

    def note_hole(hole: Hole) -> None:
        nonlocal status
        status = failures.decide(failures.NO)
        output.note(f"positions {hole.first} to {hole.last} are damaged and were skipped: {hole.reason}")

    is_part = after is not None or until is not None or chosen != EVERYTHING or over_holes
    if is_part and is_whole:
        raise click.UsageError("--whole exports the whole log: it cannot be used with options that choose a part.")
    with options.open_reading(url) as store:
        status = options.note_missing(store, chosen.streams)
        if after is None and (is_part or is_whole is False):
            options.note_pruned(store)
        end = store.head() if until is None else min(until, store.head())
        start = after or 0
        with progress.bar("exporting", total=max(end - start, 0), shown=not sys.stdout.isatty()) as move:
            lines = moving.export(
                store,
                whole=is_whole,
                after=after,
                until=until,
                selection=chosen,
                snapshots=not without_snapshots,
                skipped=note_hole if over_holes else None,
                progress=lambda position: move(position - start),
            )
            for line in lines:
                sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    return status


@click.command("import", short_help="Append events from NDJSON, or restore a whole export.")
@options.url
@click.argument("file", metavar="FILE|-", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--batch", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Lines per commit.")
@options.creation
@options.as_json
def import_(url: str, file: str, batch: int, profile: str | None, secrets: str | None, as_json: bool) -> None:
    """Append the events of an NDJSON file, or of stdin, in the order of the file. The store is created if necessary.

    A line has "stream", "type" and "payload", and optionally "version", "meta", "tags", "expected", "id", "time"
    and "signature". Lines of `tally export` can be imported too. Then their seq, checksum and link must come true.

    A whole export (`tally export --whole`) gives an empty store the same log: control facts, pruned positions, erased
    payloads, snapshots, the same positions and links. If its last line is missing, it is incomplete: exit status 1.

    Each batch is one commit. At a bad line the import stops with exit status 1, and nothing of its batch is written. If
    the lines have ids, it is safe to import them again: events that are already stored are skipped.
    """
    import tallystick
    from tallystick import moving

    with ExitStack() as stack:
        opened: list[Store] = []

        def open_store(of_export: str | None) -> Store:
            setting = secrets if of_export is None else None  # a control fact, and a whole export needs an empty store
            opened.append(tallystick.open(url, profile=profile or of_export, secrets=setting))
            return stack.enter_context(opened[0])

        source = sys.stdin.buffer if file == "-" else stack.enter_context(open(file, "rb"))
        total = None if file == "-" else os.path.getsize(file)
        move = stack.enter_context(progress.bar("importing", total=total, in_bytes=True))
        done = _summed_up(
            lambda report: moving.import_lines(open_store, source, batch=batch, progress=report),
            lambda done: move(done.bytes),
        )
        if secrets is not None:
            opened[0].configure(secrets=secrets)
        _show(opened[0], done, as_json=as_json)


@click.command("copy", short_help="Copy a whole log into another store.")
@click.argument("source", metavar="URL")
@click.argument("target", metavar="NEW_URL")
@click.option("--batch", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Events per commit.")
@_SNAPSHOTS
@options.as_json
def copy(source: str, target: str, batch: int, without_snapshots: bool, as_json: bool) -> None:
    """Copy a whole log. It does the same as `tally export --whole URL | tally import NEW_URL -`.

    NEW_URL is created if it does not exist. It must be empty or hold the beginning of the same log: then an earlier or
    interrupted copy is continued. Nothing is written to URL, and events that are appended to it meanwhile are not
    copied. If you write to both stores afterwards, they have different histories.
    """
    import tallystick
    from tallystick import moving

    with ExitStack() as stack:
        origin = stack.enter_context(options.open_reading(source))
        opened: list[Store] = []

        def open_store(of_export: str | None) -> Store:
            opened.append(tallystick.open(target, profile=of_export))
            return stack.enter_context(opened[0])

        move = stack.enter_context(progress.bar("copying", total=origin.head()))
        done = _summed_up(
            lambda report: moving.copy(
                origin, open_store, batch=batch, snapshots=not without_snapshots, progress=report
            ),
            lambda done: move(done.imported + done.skipped + done.pruned),
        )
        _show(opened[0], done, as_json=as_json)


def _summed_up(run: Callable[[Callable[[Progress], None]], Progress], show: Callable[[Progress], None]) -> Progress:
    """Run an import with its progress shown. If it is interrupted, say how far it came."""
    from tallystick.moving import Progress

    newest = Progress()

    def report(done: Progress) -> None:
        nonlocal newest
        newest = done
        show(done)

    try:
        return run(report)
    except KeyboardInterrupt:
        output.note(f"interrupted: {_summary(newest)}")
        raise


def _summary(done: Progress) -> str:
    """What was done, in one sentence."""
    text = f"imported {done.imported} events from {done.lines} lines"
    counts = (
        (done.skipped, "were already stored"),
        (done.control, "control facts of the other store were left out"),
        (done.pruned, "pruned events were recorded"),
        (done.snapshots, "snapshots"),
        (done.snapshots_left_out, "snapshots were left out"),
    )
    text += "".join(f", {count} {what}" for count, what in counts if count)
    if done.appended_because:
        text += f"; they were appended as new events, because {done.appended_because}"
    return text


def _show(store: Store, done: Progress, *, as_json: bool) -> None:
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

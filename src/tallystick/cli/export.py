"""`tally export`: the log as NDJSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tallystick.cli import failures, ndjson, options, output, progress

if TYPE_CHECKING:
    from tallystick import Selection, Store
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
def command(
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
            options.tell_pruned(store)
        status = options.tell_missing(store, chosen.streams)
        return _export(store, status, after, options.end_of(store, until), chosen, over_holes)


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
            output.write(ndjson.lines(page.events))
            status = _tell_holes(page, status)
            move(page.through - first)
    return status


def _tell_holes(page: Page, status: int) -> int:
    for hole in page.holes:
        output.note(f"positions {hole.first} to {hole.last} are damaged and left out: {hole.reason}")
        status = failures.decide(failures.NO)
    return status

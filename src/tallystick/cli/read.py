"""`tally read`: events on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tallystick.cli import options, output

if TYPE_CHECKING:
    from tallystick import Selection

PAGE = 1000


@click.command("read", short_help="Show events.")
@options.url
@options.after
@options.until
@click.option("--limit", type=click.IntRange(1), help="At most so many events.")
@options.selection
@options.as_json
def command(url: str, after: int | None, until: int | None, limit: int | None, chosen: Selection, as_json: bool) -> int:
    """Show events in order of position: position, time, stream#seq, type, payload.

    Exit status 1 if a stream that was named does not exist; the events of the others are shown.
    """
    with options.open_reading(url) as store:
        status = options.tell_missing(store, chosen.streams)
        if after is None:
            options.tell_pruned(store)
        place, end = after or 0, options.end_of(store, until)
        left = options.INT_MAX if limit is None else limit
        while place < end and left > 0:
            page = store.read(
                after=place, until=end, selection=chosen, limit=min(PAGE, left), over_pruned=after is None
            )
            output.events(page.events, as_json=as_json)
            left -= len(page.events)
            if page.through <= place:
                break
            place = page.through
    return status

"""`tally tail`: the newest events, and those that come."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click

from tallystick.cli import failures, options, output

if TYPE_CHECKING:
    from tallystick import Event, Selection, Store

PAGE = 1000
WAIT_SECONDS = 1.0


@click.command("tail", short_help="Show the newest events, and follow.")
@options.url
@click.option(
    "-n", "--lines", "count", type=click.IntRange(0, 100_000), default=10, show_default=True, help="How many."
)
@click.option("-f", "--follow", is_flag=True, help="Go on as events are appended, until Ctrl-C.")
@options.selection
@options.as_json
def command(url: str, count: int, follow: bool, chosen: Selection, as_json: bool) -> int:
    """Show the last events of the log. With --follow, wait for more; another process may be writing them.

    A stream that was named and does not exist is reported. Exit status 1, but for --follow, which waits for it.
    """
    with options.open_reading(url) as store:
        status = options.tell_missing(store, chosen.streams)
        head = store.head()
        output.events(_last(store, count, head, chosen), as_json=as_json)
        if follow:
            try:
                _follow(store, head, chosen, as_json=as_json)
            except KeyboardInterrupt:
                return failures.DONE
    return status


def _last(store: Store, count: int, head: int, chosen: Selection) -> list[Event]:
    """The last `count` selected events, in order."""
    newest = store.events(until=head, selection=chosen, over_pruned=True, backward=True)
    return list(islice(newest, count))[::-1]


def _follow(store: Store, after: int, chosen: Selection, *, as_json: bool) -> None:
    while True:
        head = store.wait(after, timeout=WAIT_SECONDS)
        for page in store.pages(after=after, until=head, selection=chosen, limit=PAGE, over_pruned=True):
            output.events(page.events, as_json=as_json)
            after = page.through

"""`tally streams`: which streams there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tallystick.cli import failures, options, output

if TYPE_CHECKING:
    from tallystick import Store
    from tallystick.store.page import StreamInfo

PAGE = 1000


@click.command("streams", short_help="List the streams.")
@options.url
@click.option("--kind", metavar="KIND", help="Only streams of this kind.")
@click.option("--org", metavar="ORG", help="Only streams of this org.")
@options.as_json
def command(url: str, kind: str | None, org: str | None, as_json: bool) -> int:
    """List the streams in order of name: how long each is, whose it is, and the link of its last event.

    Exit status 1 if part of the log is damaged: a stream that was there may not be in the list.
    """
    with options.open_reading(url) as store:
        found = (info for info in _all(store, kind) if org is None or info.org == org)
        if as_json:
            for info in found:
                output.document({"stream": info.stream, "seq": info.seq, "org": info.org, "link": info.link.hex()})
        else:
            rows = ((info.stream, info.seq, info.org, info.link.hex()) for info in found)
            output.table(("stream", "seq", "org", "link"), rows)
        holes = store.log.holes()
    for hole in holes:
        output.note(f"a stream may be missing or shorter: positions {hole.first} to {hole.last}: {hole.reason}")
    return failures.NO if holes else failures.DONE


def _all(store: Store, kind: str | None) -> Iterator[StreamInfo]:
    after = "" if kind is None else f"{kind}/"
    while page := store.streams(after=after, limit=PAGE):
        for info in page:
            if kind is not None and not info.stream.startswith(f"{kind}/"):
                return
            yield info
        after = page[-1].stream

"""`tally streams`: which streams there are."""

from __future__ import annotations

import click

from tallystick.cli import failures, options, output
from tallystick.store import iterate


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
        every = iterate.streams(store.log, prefix="" if kind is None else f"{kind}/")
        found = (info for info in every if org is None or info.org == org)
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

"""`tally streams`: which streams there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tallystick.cli import options, output
from tallystick.store import iterate

if TYPE_CHECKING:
    pass

PAGE = 1000


@click.command("streams", short_help="List the streams.")
@options.url
@click.option("--kind", metavar="KIND", help="Only streams of this kind.")
@click.option("--org", metavar="ORG", help="Only streams of this org.")
@options.as_json
def command(url: str, kind: str | None, org: str | None, as_json: bool) -> None:
    """List the streams in order of name: how long each is, whose it is, and the link of its last event."""
    with options.open_reading(url) as store:
        every = iterate.streams(store.log, prefix="" if kind is None else f"{kind}/")
        found = (info for info in every if org is None or info.org == org)
        if as_json:
            for info in found:
                output.document({"stream": info.stream, "seq": info.seq, "org": info.org, "link": info.link.hex()})
            return
        output.table(
            ("stream", "seq", "org", "link"),
            ((info.stream, info.seq, info.org, info.link.hex()) for info in found),
        )

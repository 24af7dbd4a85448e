"""`tally projections`: what rows a store keeps, and dropping those that nobody wants any more."""

from __future__ import annotations

import click
import msgspec

from tallystick.cli import options, output
from tallystick.cli.readers import reason, retiring, told


@click.group("projections", short_help="List and drop the projections of a store.")
def command() -> None:
    """List and drop the projections of a store: rows and tables that were folded from its log.

    A projection that nobody runs any more keeps events from being pruned until it is dropped.
    """


@command.command("list", short_help="List the projections.")
@options.url
@options.as_json
def list_(url: str, as_json: bool) -> None:
    """List every projection that has rows or tables here, with how far it is behind the log."""
    with options.open_reading(url) as store:
        told(store, "projection", as_json=as_json)


@command.command("drop", short_help="Drop a projection.")
@options.url
@click.argument("name", metavar="NAME")
@reason
@options.as_json
def drop(url: str, name: str, reason: str, as_json: bool) -> None:
    """Drop the rows or tables of a projection, in every epoch, and its place.

    A control fact records it. Nothing of the log is lost: `tally project` or `tally rebuild` makes it again. Stop what
    runs it before, or it comes back.
    """
    from tallystick.projections import drop_projection

    with retiring(url) as store:
        done = drop_projection(store, name, reason=reason)
    if as_json:
        output.document(msgspec.to_builtins(done))
    else:
        click.echo(f"projection {done.name}, which was at position {done.position}, is dropped")

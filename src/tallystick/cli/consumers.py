"""`tally consumers`: who keeps a place in a log; dropping one, and letting one go on elsewhere."""

from __future__ import annotations

import click
import msgspec

from tallystick.cli import options, output
from tallystick.cli.readers import reason, retiring, told


@click.group("consumers", short_help="List, drop and reset the consumers of a store.")
def command() -> None:
    """List, drop and reset the consumers of a store: whoever keeps a checkpoint in its log.

    A consumer that nobody runs any more keeps events from being pruned until it is dropped.
    """


@command.command("list", short_help="List the consumers.")
@options.url
@options.as_json
def list_(url: str, as_json: bool) -> None:
    """List every consumer that keeps a place here, with how far it is behind, and its dead letters."""
    with options.open_reading(url) as store:
        told(store, "consumer", as_json=as_json)


@command.command("drop", short_help="Drop a consumer.")
@options.url
@click.argument("name", metavar="NAME")
@click.option("--letters", is_flag=True, help="Drop its dead letters as well.")
@reason
@options.as_json
def drop(url: str, name: str, letters: bool, reason: str, as_json: bool) -> None:
    """Drop the place of a consumer. A control fact records it.

    One with dead letters is refused without --letters. A consumer of this name that starts later begins with the first
    event. Stop what runs it before, or its place comes back.
    """
    from tallystick.projections import drop_consumer

    with retiring(url) as store:
        done = drop_consumer(store, name, letters=letters, reason=reason)
    if as_json:
        output.document(msgspec.to_builtins(done))
        return
    with_it = f", and {done.dead_letters} dead letters" if done.dead_letters else ""
    click.echo(f"consumer {done.name}, which was at position {done.position}{with_it}: dropped")


@command.command("reset", short_help="Let a consumer go on elsewhere.")
@options.url
@click.argument("name", metavar="NAME")
@click.option(
    "--to", "position", type=options.Position, required=True, help="Go on behind this position; 0: from the first."
)
@reason
@options.as_json
def reset(url: str, name: str, position: int, reason: str, as_json: bool) -> None:
    """Let a consumer go on behind another position. A control fact records it.

    Further back it handles events a second time, further on it never sees those between. A consumer that is at work
    takes the new place with its next batch, or overwrites it: stop it before.
    """
    from tallystick.projections import reset_consumer

    with retiring(url) as store:
        done = reset_consumer(store, name, position, reason=reason)
    if as_json:
        output.document(msgspec.to_builtins(done))
    else:
        click.echo(f"consumer {done.name} goes on behind position {done.position}; it was at {done.before}")

"""Arguments and options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tallystick.cli import times

if TYPE_CHECKING:
    from tallystick import Store

Command = TypeVar("Command", bound=Callable[..., Any])

PROFILES = ("plain", "lighthouse", "control-plane", "run", "community")
SECRETS = ("reject", "warn", "off")
INT_MAX = (1 << 63) - 1
PRUNED_SHOWN = 3

Position = click.IntRange(0, INT_MAX)

url = click.argument("url", metavar="URL")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON: one document, or one a line for listings.")
snapshot_hour = click.option(
    "--snapshot-hour",
    type=click.IntRange(0, 23),
    envvar="TALLY_COMMUNITY_SNAPSHOT_HOUR",
    metavar="HOUR",
    help="The local hour of a community's daily snapshot. Default: 3, or TALLY_COMMUNITY_SNAPSHOT_HOUR.",
)
REFILL_VARIABLE = "TALLY_REFILL_FROM"


def refill_from(*also: str, help: str) -> Callable[[Command], Command]:
    """`--refill-from`: where the events of a damaged range can be had again."""
    names = ("--refill-from", *also, "refill_from")
    told = f"{help} {REFILL_VARIABLE} names it too."
    return click.option(*names, metavar="OTHER", envvar=REFILL_VARIABLE, help=told)


after = click.option("--after", type=Position, metavar="POSITION", help="Begin behind this position.")
until = click.option("--until", type=Position, metavar="POSITION", help="End with this position.")

_SELECTION = (
    click.option("--stream", "streams", multiple=True, metavar="KIND/NAME", help="Only this stream. May be repeated."),
    click.option("--type", "types", multiple=True, metavar="TYPE", help="Only events of this type. May be repeated."),
    click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only streams of this kind. May be repeated."),
    click.option("--org", metavar="ORG", help="Only events whose meta names this org."),
    click.option("--app", metavar="APP", help="Only events whose meta names this app."),
    click.option("--env", metavar="ENV", help="Only events whose meta names this env."),
)
_TIME_RANGE = (
    click.option("--from", "time_from", type=times.option, metavar="TIME", help="Only events of this time or later."),
    click.option("--to", "time_until", type=times.option, metavar="TIME", help="Only events before this time."),
)


def time_range(command: Command) -> Command:
    """`--from` and `--to`."""
    for option in reversed(_TIME_RANGE):
        command = option(command)
    return command


def selection(command: Command) -> Command:
    """The options that choose events, handed to the command as one `chosen: Selection`."""

    @functools.wraps(command)
    def with_selection(
        streams: tuple[str, ...],
        types: tuple[str, ...],
        kinds: tuple[str, ...],
        **rest: Any,
    ) -> Any:
        from tallystick import Selection, errors

        scope = {key: rest.pop(key) for key in ("org", "app", "env", "time_from", "time_until")}
        try:
            chosen = Selection(streams=frozenset(streams), types=frozenset(types), kinds=frozenset(kinds), **scope)
        except errors.InvalidInput as problem:
            raise click.UsageError(problem.message + ".") from None
        return command(chosen=chosen, **rest)

    found: Any = time_range(with_selection)
    for option in reversed(_SELECTION):
        found = option(found)
    return found  # type: ignore[no-any-return]


profile = click.option(
    "--profile", type=click.Choice(PROFILES), help="The profile of the store, fixed when it is made."
)


def creation(command: Command) -> Command:
    """The options of commands that may create the store."""
    command = click.option("--secrets", type=click.Choice(SECRETS), help="Change what the guard does about secrets.")(
        command
    )
    return profile(command)


def open_reading(url: str) -> Store:
    """The store at this place, for reading beside any writer. Nothing is created."""
    import tallystick

    return tallystick.open(url, readonly=True, create=False)


def tell_pruned(store: Store) -> None:
    """A note that a reading from the beginning shows only what is left."""
    from tallystick.cli import output

    cuts = store.log.cuts(limit=PRUNED_SHOWN + 1)
    if cuts:
        listed = ", ".join(f"{cut.stream} up to seq {cut.through}" for cut in cuts[:PRUNED_SHOWN])
        output.note(f"pruned: {listed}{' and more' if len(cuts) > PRUNED_SHOWN else ''}")


def tell_missing(store: Store, streams: Iterable[str]) -> int:
    """Name the streams that do not exist; says the exit status. Of a damaged log nobody may know that."""
    from tallystick import errors
    from tallystick.cli import failures, output

    status = failures.DONE
    for stream in sorted(streams):
        with suppress(errors.Damaged):
            if store.stream_head(stream) is None:
                output.note(errors.StreamNotFound(stream=stream, url=store.log.url).message)
                status = failures.decide(failures.NO)
    return status


def end_of(store: Store, until: int | None) -> int:
    """Where a reading ends: where the user said, but never behind what is there now."""
    head = store.head()
    return head if until is None else min(until, head)

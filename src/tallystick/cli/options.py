"""Arguments and options that several commands share, and how a store is opened for reading."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tallystick import errors
from tallystick.cli import failures, output, times

if TYPE_CHECKING:
    from tallystick import Store
    from tallystick.state.archive import Archive

Command = TypeVar("Command", bound=Callable[..., Any])

PROFILES = ("plain", "lighthouse", "control-plane", "run", "community")
SECRETS = ("reject", "warn", "off")
INT_MAX = (1 << 63) - 1
PRUNED_SHOWN = 3
ARCHIVE_VARIABLE = "TALLY_ARCHIVE"
REFILL_VARIABLE = "TALLY_REFILL_FROM"

Position = click.IntRange(0, INT_MAX)


class _Location(click.ParamType[str]):
    """A directory, or the URL of an object store. `click.Path` would make one slash of the two in a URL."""

    name = "location"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if Path(text).is_file():
            self.fail(f"Directory {text!r} is a file.", param, ctx)
        return text


LOCATION = _Location()

url = click.argument("url", metavar="URL")
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: one document, or for a list one document per line."
)
after = click.option("--after", type=Position, metavar="POSITION", help="Start after this position.")
until = click.option("--until", type=Position, metavar="POSITION", help="Stop at this position.")
follow = click.option("-f", "--follow", is_flag=True, help="Continue as events are appended, until Ctrl-C.")
snapshot_hour = click.option(
    "--snapshot-hour",
    type=click.IntRange(0, 23),
    envvar="TALLY_COMMUNITY_SNAPSHOT_HOUR",
    metavar="HOUR",
    help="The local hour of a community's daily snapshot. Default: $TALLY_COMMUNITY_SNAPSHOT_HOUR, or 3.",
)


def refill_from(*also: str, help: str) -> Callable[[Command], Command]:
    """`--refill-from`: a copy of the events in damaged ranges."""
    names = ("--refill-from", *also, "refill_from")
    return click.option(*names, metavar="OTHER", envvar=REFILL_VARIABLE, help=f"{help} Default: ${REFILL_VARIABLE}.")


def archive(help: str, *, variable: str | None = None) -> Callable[[Command], Command]:
    """`--archive`, which the variable names too if one is given."""
    text = help if variable is None else f"{help} Default: ${variable}."
    return click.option("--archive", "archive_directory", metavar="DIR", envvar=variable, type=LOCATION, help=text)


_SELECTION = (
    click.option("--stream", "streams", multiple=True, metavar="KIND/NAME", help="Only this stream. May be repeated."),
    click.option("--type", "types", multiple=True, metavar="TYPE", help="Only events of this type. May be repeated."),
    click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only streams of this kind. May be repeated."),
    click.option("--org", metavar="ORG", help="Only events whose meta names this org."),
    click.option("--app", metavar="APP", help="Only events whose meta names this app."),
    click.option("--env", metavar="ENV", help="Only events whose meta names this env."),
    click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only events with this tag. Repeated: with all."),
    click.option("--actor-id", metavar="ID", help="Only what this actor did."),
    click.option("--correlation-id", metavar="ID", help="Only events with this correlation id."),
    click.option("--causation-id", metavar="ID", help="Only events with this causation id."),
)
_TIME_RANGE = (
    click.option("--from", "time_from", type=times.option, metavar="TIME", help="Only events from this time on."),
    click.option("--to", "time_until", type=times.option, metavar="TIME", help="Only events before this time."),
)


def all_of(options: Iterable[Callable[[Any], Any]]) -> Callable[[Command], Command]:
    """Several options as one decorator, in this order in the help."""
    return lambda command: functools.reduce(lambda inner, option: option(inner), reversed([*options]), command)


time_range = all_of(_TIME_RANGE)


def selection(command: Command) -> Command:
    """The options that choose events, given to the command as one `chosen: Selection`."""

    @functools.wraps(command)
    def with_selection(
        streams: tuple[str, ...],
        types: tuple[str, ...],
        kinds: tuple[str, ...],
        tags: tuple[str, ...],
        time_from: int | None,
        time_until: int | None,
        **rest: Any,
    ) -> Any:
        from tallystick import Selection, match
        from tallystick.store.selection import SCOPE

        try:
            chosen = Selection(
                streams=frozenset(streams),
                types=frozenset(types),
                kinds=frozenset(kinds),
                query=match(tags=tags) if tags else None,
                time_from=time_from,
                time_until=time_until,
                **{key: rest.pop(key) for key in SCOPE},
            )
        except errors.InvalidInput as problem:
            raise click.UsageError(problem.message + ".") from None
        return command(chosen=chosen, **rest)

    found: Any = all_of((*_SELECTION, *_TIME_RANGE))(with_selection)
    return found  # type: ignore[no-any-return]


profile = click.option(
    "--profile", type=click.Choice(PROFILES), help="The profile of the store, fixed when it is created."
)
secrets = click.option(
    "--secrets",
    type=click.Choice(SECRETS),
    help="What to do with events that seem to contain a secret. Saved in the store.",
)
creation = all_of((profile, secrets))
"""The options of commands that may create the store."""


def open_reading(url: str) -> Store:
    """The store at this URL, read-only. Another process may write; nothing is created."""
    import tallystick

    return tallystick.open(url, readonly=True, create=False)


def open_archive(directory: str | None, store: Store) -> Archive | None:
    """The archive in this directory, which knows which events of the store it holds. None without a directory."""
    if directory is None:
        return None
    with failures.needing_spark("pyarrow"):
        from tallystick.pipeline.archive.coverage import ArchiveCoverage
    return ArchiveCoverage(directory, store)


def note_pruned(store: Store) -> None:
    """Note which streams were pruned: a read from the beginning shows only what is left."""
    cuts = store.log.cuts(limit=PRUNED_SHOWN + 1)
    if cuts:
        listed = ", ".join(f"{cut.stream} up to seq {cut.through}" for cut in cuts[:PRUNED_SHOWN])
        output.note(f"pruned: {listed}{' and more' if len(cuts) > PRUNED_SHOWN else ''}")


def note_missing(store: Store, streams: Iterable[str]) -> int:
    """Note the streams that do not exist, and return the exit status. In a damaged log that cannot be known."""
    status = failures.DONE
    for stream in sorted(streams):
        with suppress(errors.Damaged):
            if store.stream_head(stream) is None:
                output.note(errors.StreamNotFound(stream=stream, url=store.log.url).message)
                status = failures.decide(failures.NO)
    return status

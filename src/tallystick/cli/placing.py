"""Where a rebuild runs: in this process or on Spark, chosen by the user or by the size of the log, and why."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tallystick import errors
from tallystick.cli import progress, spark
from tallystick.cli.options import Command

if TYPE_CHECKING:
    from tallystick import Store

PROCESS, SPARK = "process", "spark"
PLACES = ("auto", PROCESS, SPARK)


class Choice(NamedTuple):
    """Where, and why there."""

    on: str
    why: str


class Session(NamedTuple):
    """What a session on Spark is started with, and the archive that history comes from."""

    master: str
    memory: str
    archive: Path | None


def on(default: str) -> Callable[[Command], Command]:
    """The option that says where a log is folded."""
    return click.option(
        "--on",
        "place",
        type=click.Choice(PLACES),
        default=default,
        show_default=True,
        help="Where the log is folded; auto goes by its size.",
    )


def choose(place: str, projection: Any, *, events: int, archive: Path | None) -> Choice:
    """Where to fold a log of so many events."""
    from tallystick.projections import TableProjection
    from tallystick.projections.crossover import CROSSOVER_EVENTS, NEVER, pays_off

    if place == PROCESS and archive is not None:
        raise errors.InvalidValue(what="--on", value=place, must="auto or spark with --archive: only Spark reads one")
    if place != "auto":
        return Choice(place, "asked for")
    if archive is not None:
        return Choice(SPARK, "the history comes from an archive")
    if isinstance(projection, TableProjection):
        return Choice(PROCESS, "it owns SQL tables")
    if CROSSOVER_EVENTS == NEVER:
        return Choice(PROCESS, "with the cores of this machine Spark is never faster")
    crossover = f"{CROSSOVER_EVENTS:,} from which on Spark is faster"
    if not pays_off(events):
        return Choice(PROCESS, f"{events:,} events are fewer than the {crossover}")
    if find_spec("pyspark") is None:
        return Choice(PROCESS, "Spark, which would be faster, is not installed: pip install 'tallystick[spark]'")
    return Choice(SPARK, f"{events:,} events are not fewer than the {crossover}")


def rebuild(store: Store, projection: Any, choice: Choice, session: Session) -> int:
    """Make the rows anew, where it was chosen; says at which position they are."""
    click.echo(f"on {choice.on}: {choice.why}", err=True)
    return _on_spark(store, projection, session) if choice.on == SPARK else _in_process(store, projection)


def _in_process(store: Store, projection: Any) -> int:
    from tallystick.projections import TableProjection, TableRunner, rebuild

    with progress.bar(projection.name, total=store.head()) as move:
        if isinstance(projection, TableProjection):
            return TableRunner(store, projection).rebuild(progress=move)
        return rebuild(store, projection, progress=move).position


def _on_spark(store: Store, projection: Any, session: Session) -> int:
    with spark.session(session.master, memory=session.memory) as running, progress.tasks(projection.name) as show:
        from tallystick.pipeline.rebuilding import rebuild

        return rebuild(running, store, projection, session.archive, show=show).position

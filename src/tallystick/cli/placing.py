"""Where a rebuild runs: in this process, in the database or on Spark, and why. `auto` goes by measured costs."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tallystick import errors
from tallystick.cli import progress, spark
from tallystick.cli.options import Command

if TYPE_CHECKING:
    from tallystick import Store

PROCESS, SQL, SPARK = "process", "sql", "spark"
PLACES = ("auto", PROCESS, SQL, SPARK)
POSTGRES = "postgres"


class Choice(NamedTuple):
    """Where, and why there."""

    on: str
    why: str


class Session(NamedTuple):
    """What a session on Spark is started with, and the archive that history comes from."""

    master: str
    memory: str
    archive: str | None


def on(default: str) -> Callable[[Command], Command]:
    """The option that says where a log is folded."""
    return click.option(
        "--on",
        "place",
        type=click.Choice(PLACES),
        default=default,
        show_default=True,
        help="Where the log is folded. sql: by its database, summaries only. auto: where it costs least, as measured.",
    )


def choose(place: str, projection: Any, *, events: int, archive: str | None, store: Store | None = None) -> Choice:
    """Where to fold a log of so many events; `store` is asked whether its database can do it."""
    from tallystick.projections import TableProjection

    if place in (PROCESS, SQL) and archive is not None:
        raise errors.InvalidValue(what="--on", value=place, must="auto or spark with --archive: only Spark reads one")
    refused = _why_not_sql(projection, store)
    note = f" (Python folds this summary: {refused})" if refused else ""
    if place != "auto":
        return Choice(place, f"asked for{note}")
    if archive is not None:
        return Choice(SPARK, f"the history comes from an archive{note}")
    if isinstance(projection, TableProjection):
        return Choice(PROCESS, "it owns SQL tables")
    if refused is None and store is not None and store.log.engine == POSTGRES:
        return Choice(
            SQL, "it is a summary, which a PostgreSQL server computes at less cost than its events take to read"
        )
    return _by_size(events, is_sql=refused is None, note=note)


def _why_not_sql(projection: Any, store: Store | None) -> str | None:
    """Why SQL cannot compute these rows; empty if nobody would expect it to, None if it can."""
    from tallystick.projections import Summary
    from tallystick.projections.summary.sql import why_not_sql

    if store is None or not isinstance(projection, Summary):
        return ""
    return why_not_sql(projection, store.catalog)


def _by_size(events: int, *, is_sql: bool, note: str) -> Choice:
    """One process or Spark. Both compute a summary at less cost than a projection that is written in Python."""
    from tallystick.projections import crossover

    meets = crossover.SUMMARY_CROSSOVER_EVENTS if is_sql else crossover.CROSSOVER_EVENTS
    if meets == crossover.NEVER:
        return Choice(PROCESS, f"with the cores of this machine Spark is never faster{note}")
    told = f"{meets:,} from which on Spark is faster{note}"
    if events < meets:
        return Choice(PROCESS, f"{events:,} events are fewer than the {told}")
    if find_spec("pyspark") is None:
        reason = "Spark, which would be faster, is not installed: pip install 'tallystick[spark]'"
        return Choice(PROCESS, reason + note)
    return Choice(SPARK, f"{events:,} events are not fewer than the {told}")


def rebuild(store: Store, projection: Any, choice: Choice, session: Session) -> int:
    """Make the rows anew, where it was chosen; says at which position they are."""
    click.echo(f"on {choice.on}: {choice.why}", err=True)
    if choice.on == SPARK:
        return _on_spark(store, projection, session)
    with progress.bar(projection.name, total=store.head()) as move:
        return (_by_sql if choice.on == SQL else _in_process)(store, projection, move)


def _by_sql(store: Store, projection: Any, move: Callable[[int], None]) -> int:
    from tallystick.projections.summary.rebuild import rebuild_by_sql

    return rebuild_by_sql(store, projection, progress=move).position


def _in_process(store: Store, projection: Any, move: Callable[[int], None]) -> int:
    from tallystick.projections import TableProjection, TableRunner, rebuild

    if isinstance(projection, TableProjection):
        return TableRunner(store, projection).rebuild(progress=move)
    return rebuild(store, projection, progress=move).position


def _on_spark(store: Store, projection: Any, session: Session) -> int:
    with spark.session(session.master, memory=session.memory) as running, progress.tasks(projection.name) as show:
        from tallystick.pipeline.jobs.rebuild import rebuild

        return rebuild(running, store, projection, session.archive, show=show).position

"""Where a rebuild runs: in this process, in the database or on Spark. `auto` chooses by measured costs."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tallystick import errors
from tallystick.cli import pipeline, progress
from tallystick.cli.options import Command

if TYPE_CHECKING:
    from tallystick import Store

PROCESS, SQL, SPARK = "process", "sql", "spark"
LOCATIONS = ("auto", PROCESS, SQL, SPARK)
POSTGRES = "postgres"


class LocationChoice(NamedTuple):
    """Where a rebuild runs, and why."""

    on: str
    why: str


def on(default: str) -> Callable[[Command], Command]:
    """`--on`: where the log is folded."""
    return click.option(
        "--on",
        "location",
        type=click.Choice(LOCATIONS),
        default=default,
        show_default=True,
        help="Where to fold the log. sql: in its database (summaries only). auto: where it costs least.",
    )


def choose(
    location: str, projection: Any, *, events: int, archive: str | None, store: Store | None = None
) -> LocationChoice:
    """Where to fold a log with this many events. If `store` is given, its database is considered too."""
    from tallystick.projections import TableProjection

    if location in (PROCESS, SQL) and archive is not None:
        raise errors.InvalidValue(
            what="--on", value=location, must="auto or spark with --archive: only Spark reads one"
        )
    refused = _why_not_sql(projection, store)
    note = f" (Python folds this summary: {refused})" if refused else ""
    if location != "auto":
        return LocationChoice(location, f"chosen with --on{note}")
    if archive is not None:
        return LocationChoice(SPARK, f"the history is read from an archive{note}")
    if isinstance(projection, TableProjection):
        return LocationChoice(PROCESS, "it owns SQL tables")
    if refused is None and store is not None and store.log.engine == POSTGRES:
        return LocationChoice(
            SQL, "it is a summary, and a PostgreSQL server computes it faster than its events can be read"
        )
    return _by_size(events, is_sql=refused is None, note=note)


def _why_not_sql(projection: Any, store: Store | None) -> str | None:
    """Why SQL cannot compute these rows: empty if they are not a summary, None if it can."""
    from tallystick.projections import Summary
    from tallystick.projections.summary.sql import why_not_sql

    if store is None or not isinstance(projection, Summary):
        return ""
    return why_not_sql(projection, store.catalog)


def _by_size(events: int, *, is_sql: bool, note: str) -> LocationChoice:
    """One process or Spark. Both compute a summary faster than a projection that is written in Python."""
    from tallystick.projections import crossover

    meets = crossover.SUMMARY_CROSSOVER_EVENTS if is_sql else crossover.CROSSOVER_EVENTS
    if meets == crossover.NEVER:
        return LocationChoice(PROCESS, f"with this number of cores Spark is never faster{note}")
    why = f"the log has {events:,} events, and Spark is faster from {meets:,} on"
    if events < meets:
        return LocationChoice(PROCESS, why + note)
    if find_spec("pyspark") is None:
        return LocationChoice(PROCESS, f"{why}, but it is not installed: pip install 'tallystick[spark]'{note}")
    return LocationChoice(SPARK, why + note)


def rebuild(store: Store, projection: Any, choice: LocationChoice, spark: pipeline.Spark, archive: str | None) -> int:
    """Rebuild the rows in the chosen place, and return their position."""
    click.echo(f"on {choice.on}: {choice.why}", err=True)
    if choice.on == SPARK:
        return _on_spark(store, projection, spark, archive)
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


def _on_spark(store: Store, projection: Any, spark: pipeline.Spark, archive: str | None) -> int:
    with pipeline.job(spark, projection.name) as (session, show):
        from tallystick.pipeline.jobs.rebuild import rebuild

        return rebuild(session, store, projection, archive, show=show).position

"""`tally pipeline`: jobs on Spark over a log, and what they share: the session, its options, its progress."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click

from tallystick.cli import failures, options, output, progress
from tallystick.cli.group import LazyGroup
from tallystick.cli.options import Command

JOBS = {
    "archive": "pipeline_archive:archive",
    "verify": "pipeline_checks:verify",
    "rebuild": "rebuild:on_spark",
    "replay-check": "pipeline_checks:replay_check",
    "diff": "pipeline_checks:diff",
    "compact": "pipeline_archive:compact",
    "growth": "pipeline_queries:growth",
    "sql": "pipeline_queries:sql",
    "stream": "pipeline_stream:command",
    "lake": "pipeline_lake:command",
}
"""Name of the job -> `module:attribute` in this package."""

_UI = "spark.ui.enabled"


@click.command("pipeline", cls=LazyGroup, sources=JOBS, short_help="Archive, check, rebuild and query logs on Spark.")
def command() -> None:
    """Jobs on Spark over a log: files:DIR, sqlite:FILE or postgresql://….

    They need the extra `spark` (pip install 'tallystick[spark]'). Java 17 or 21 is used if it is installed, otherwise
    the Java that comes with the extra.
    """


class Spark(NamedTuple):
    """Where Spark runs, and the memory of its driver."""

    master: str
    memory: str


def _settings(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> None:
    """Keep the settings for the session that the command will start."""
    for setting in given:
        key, equals, value = setting.partition("=")
        if not equals or not key.startswith("spark."):
            raise click.BadParameter(f"{setting!r} is not spark.NAME=VALUE")
        _kept("settings", {})[key] = value


def _py_files(_: click.Context, __: click.Parameter, given: tuple[Path, ...]) -> None:
    """Keep the modules that the workers need, and make them importable in this process too."""
    for path in given:
        is_package = path.is_dir() and (path / "__init__.py").exists()
        folder = path.parent if path.suffix == ".py" or is_package else path
        sys.path.insert(0, str(folder.resolve()))
        _kept("py_files", []).append(path)


def _ui(_: click.Context, __: click.Parameter, given: bool) -> None:
    if given:
        _kept("settings", {})[_UI] = "true"


def _kept(name: str, nothing: Any) -> Any:
    """What the options of this command line set for the session."""
    return click.get_current_context().meta.setdefault(f"{__name__}.{name}", nothing)


_SPARK = (
    click.option(
        "--master",
        metavar="M",
        default="local[*]",
        show_default=True,
        help="Where Spark runs: local[N] or spark://HOST:PORT.",
    ),
    click.option(
        "--conf",
        metavar="KEY=VALUE",
        multiple=True,
        expose_value=False,
        callback=_settings,
        help="A setting of Spark. May be repeated.",
    ),
    click.option(
        "--py-files",
        metavar="PATH",
        multiple=True,
        type=click.Path(path_type=Path, exists=True),
        expose_value=False,
        is_eager=True,
        callback=_py_files,
        help="A .py file, a .zip file or a directory with modules that the workers need. May be repeated.",
    ),
    click.option(
        "--ui",
        is_flag=True,
        expose_value=False,
        callback=_ui,
        help="Turn on Spark's own web page, and print its address.",
    ),
    click.option("--memory", metavar="SIZE", default="2g", show_default=True, help="Memory of the driver's JVM."),
)


def spark(command: Command) -> Command:
    """The options of a session on Spark, given to the command as one `spark: Spark`."""

    @functools.wraps(command)
    def with_spark(master: str, memory: str, **rest: Any) -> Any:
        return command(spark=Spark(master, memory), **rest)

    found: Any = options.all_of(_SPARK)(with_spark)
    return found  # type: ignore[no-any-return]


archive = options.archive(
    "The archive of this log, a directory or s3://…. History is read from there as far as it goes."
)


@contextmanager
def session(spark: Spark) -> Iterator[Any]:
    """A session for one command. If one is already running, it is used and not stopped."""
    with failures.needing_spark("pyspark"):
        from tallystick import pipeline
    running = pipeline.is_running()
    settings, py_files = _kept("settings", {}), _kept("py_files", [])
    with progress.bar("starting Spark", total=None):
        found = pipeline.session(spark.master, memory=spark.memory, settings=settings, py_files=py_files)
    if settings.get(_UI) == "true":
        page = found.sparkContext.uiWebUrl
        output.note(f"Spark's page: {page or 'none, because its session was already running'}")
    try:
        yield found
    finally:
        if not running:
            found.stop()


@contextmanager
def job(spark: Spark, title: str) -> Iterator[tuple[Any, Callable[[int, int], None]]]:
    """A session, and a function that shows how many of its tasks are done."""
    with session(spark) as running, progress.tasks(title) as show:
        yield running, show

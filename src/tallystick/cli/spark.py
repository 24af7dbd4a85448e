"""What the jobs on Spark share on the command line: the session, its bar, the options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from tallystick import errors
from tallystick.cli import output, places, progress

Command = TypeVar("Command", bound=Callable[..., Any])
_UI = "spark.ui.enabled"


def _settings(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> None:
    """Keep `KEY=VALUE` for the session that the command will start."""
    for setting in given:
        key, equals, value = setting.partition("=")
        if not equals or not key.startswith("spark."):
            raise click.BadParameter(f"{setting!r} is not spark.NAME=VALUE")
        _kept("settings", {})[key] = value


def _py_files(_: click.Context, __: click.Parameter, given: tuple[Path, ...]) -> None:
    """Keep what the workers need, and let it be imported here as well."""
    for path in given:
        is_package = path.is_dir() and (path / "__init__.py").exists()
        place = path.parent if path.suffix == ".py" or is_package else path
        sys.path.insert(0, str(place.resolve()))
        _kept("py_files", []).append(path)


def _ui(_: click.Context, __: click.Parameter, given: bool) -> None:
    if given:
        _kept("settings", {})[_UI] = "true"


def _kept(name: str, nothing: Any) -> Any:
    """What the options of this command line said of the session."""
    return click.get_current_context().meta.setdefault(f"{__name__}.{name}", nothing)


_MASTER = (
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
        help="A .py, a .zip or a directory with modules that the workers need. May be repeated.",
    ),
    click.option(
        "--ui",
        is_flag=True,
        expose_value=False,
        callback=_ui,
        help="Switch on Spark's own web page, and say where it is.",
    ),
)


def master(command: Command) -> Command:
    """Where Spark runs, and how its session is set up."""
    for option in reversed(_MASTER):
        command = option(command)
    return command


memory = click.option("--memory", metavar="SIZE", default="2g", show_default=True, help="Memory of the driver's JVM.")
archive = click.option(
    "--archive",
    "archive_directory",
    metavar="DIR",
    type=places.PLACE,
    help="The archive of this log, a directory or s3://…: history comes from there as far as it goes.",
)


@contextmanager
def session(where: str, *, memory: str = "2g") -> Iterator[Any]:
    """A session for one command. One that was running before is used and left alone."""
    try:
        from tallystick import pipeline
    except ModuleNotFoundError as missing:
        raise errors.SparkMissing(library=missing.name or "pyspark") from missing
    running = pipeline.is_running()
    settings, py_files = _kept("settings", {}), _kept("py_files", [])
    with progress.bar("starting Spark", total=None):
        spark = pipeline.session(where, memory=memory, settings=settings, py_files=py_files)
    if settings.get(_UI) == "true":
        output.note(f"Spark shows what it does at {spark.sparkContext.uiWebUrl or 'no page: its session was running'}")
    try:
        yield spark
    finally:
        if not running:
            spark.stop()

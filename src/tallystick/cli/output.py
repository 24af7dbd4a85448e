"""What commands print: tables, lines of events, JSON. If stdout is not a terminal, it is wide and plain."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tallystick.cli import failures, times
from tallystick.event import line

if TYPE_CHECKING:
    from tallystick.event.model import Event

_WIDE = 100_000
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def document(content: Any) -> None:
    """Print one JSON document on one line."""
    click.echo(msgspec.json.encode(content, enc_hook=str))


def result(content: Any, text: str, *, as_json: bool) -> None:
    """Print what was done, as a document or as a sentence."""
    document(content) if as_json else click.echo(text)


def answer(ok: bool, content: Any, show: Callable[[], None], *, as_json: bool) -> int:
    """Print what a check found, as a document or for people, and return the exit status. It is fixed before anything
    is printed, so that a reader who closes the pipe early does not change it.
    """
    status = failures.decide(failures.DONE if ok else failures.NO)
    document(content) if as_json else show()
    return status


def printable(text: str) -> str:
    """The text with everything that could control a terminal (control and direction characters) escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def size(count: int) -> str:
    """A number of bytes, as people write it."""
    amount = float(count)
    for unit in _UNITS[:-1]:
        if abs(amount) < 1024:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} {_UNITS[-1]}"


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table. A terminal gets long cells folded; otherwise every row is one line and nothing is cut."""
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        grid.add_column(heading, overflow="fold")
    for row in rows:
        grid.add_row(*(_cell(value) for value in row))
    render(grid)


def facts(found: Mapping[str, Any], *, as_json: bool = False) -> None:
    """Print names and values, as a document or one pair per line."""
    if as_json:
        document(found)
        return
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in found.items():
        grid.add_row(name, _cell(value))
    render(grid)


def _cell(value: Any) -> Any:
    from rich.text import Text

    return Text("" if value is None else printable(str(value)))


def render(content: Any) -> None:
    """Print something of rich. If stdout is not a terminal, it is as wide as it needs to be."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if terminal else _WIDE, highlight=False, legacy_windows=False)
    if terminal:
        console.print(content)
        return
    with console.capture() as captured:
        console.print(content)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def events(found: Sequence[Event], *, as_json: bool) -> None:
    """Print events, one per line, as NDJSON or for people."""
    if as_json:
        write(line.lines(found))
        return
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    for event in found:
        click.echo(_line(event, width=width))


def _line(event: Event, *, width: int | None) -> str:
    payload = "(erased)" if event.payload is None else event.payload.decode()
    position, name = f"{event.position:>8}", f"{event.stream}#{event.seq}"
    text = printable(f"{position}  {times.to_text(event.time)}  {name:<28}  {event.type:<20}  {payload}")
    return text if width is None or len(text) <= width else text[: max(width - 1, 0)] + "…"


def write(data: bytes) -> None:
    """Write bytes to stdout, after everything that was printed before."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def note(text: str) -> None:
    """Print a remark on stderr, apart from the output."""
    click.echo(printable(text), err=True)

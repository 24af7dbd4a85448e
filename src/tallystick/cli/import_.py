"""`tally import`: events from NDJSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING

import click

from tallystick.cli import options, output, progress

if TYPE_CHECKING:
    from tallystick import Store
    from tallystick.cli.importing import Progress
    from tallystick.cli.incoming import Line

BATCH_BYTES_MAX = 16 << 20
LINE_BYTES_MAX = 4 << 20


@click.command("import", short_help="Append events from NDJSON.")
@options.url
@click.argument("file", metavar="FILE|-", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--batch", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Lines in one commit.")
@options.creation
@options.as_json
def command(url: str, file: str, batch: int, profile: str | None, secrets: str | None, as_json: bool) -> None:
    """Append the events of an NDJSON file, or of stdin, in the file's order. The store is created if there is none.

    A line is {"stream","type","payload"} and, if wanted, "version", "meta", "expected", "id", "time", "signature".
    Lines of `tally export` are taken too; what they claim (seq, checksum, link) must come true.

    Each batch is one commit. At a bad line the import stops, and nothing of its batch is written. With ids in the
    lines it is safe to run it again: what is stored already is skipped.
    """
    import tallystick
    from tallystick.cli.importing import Importer, Progress

    done = Progress()
    with ExitStack() as stack:
        source = sys.stdin.buffer if file == "-" else stack.enter_context(open(file, "rb"))
        total = None if file == "-" else os.path.getsize(file)
        move = stack.enter_context(progress.bar("importing", total=total, in_bytes=True))
        importer: Importer | None = None
        try:
            for lines, number, offset in _batches(source, batch, done):
                if importer is None:  # only now, so that a file that is bad from the start creates no store
                    store = stack.enter_context(tallystick.open(url, profile=profile, secrets=secrets))
                    importer = Importer(store, done)
                importer.take(lines, through=number)
                move(offset)
        except KeyboardInterrupt:
            output.note(f"interrupted: {_summary(done)}")
            raise
        _show(store if importer else stack.enter_context(tallystick.open(url, profile=profile)), done, as_json=as_json)


def _batches(source: IO[bytes], size: int, done: Progress) -> Iterator[tuple[list[Line], int, int]]:
    """Batches of lines, each with the number of its last line and the bytes read so far."""
    from tallystick import errors
    from tallystick.cli import incoming

    lines: list[Line] = []
    number = offset = began = 0
    while text := source.readline(LINE_BYTES_MAX + 1):
        number += 1
        offset += len(text)
        try:
            if len(text) > LINE_BYTES_MAX:
                raise errors.TooLarge(what="the line", size=len(text), unit="bytes or more", limit=LINE_BYTES_MAX)
            if not text.isspace():
                lines.append(incoming.parse(text, number))
        except errors.TallyError as problem:
            raise done.stopped(problem, first=number, last=number) from problem
        if len(lines) >= size or offset - began >= BATCH_BYTES_MAX:
            yield lines, number, offset
            lines, began = [], offset
    if lines:
        yield lines, number, offset


def _summary(done: Progress) -> str:
    text = f"imported {done.imported} events from {done.lines} lines"
    if done.skipped:
        text += f", {done.skipped} were stored already"
    if done.control:
        text += f", {done.control} control facts of the other store left out"
    return text


def _show(store: Store, done: Progress, *, as_json: bool) -> None:
    head = store.head()
    if not as_json:
        click.echo(f"{_summary(done)}; head {head}")
        return
    output.document(
        {
            "imported": done.imported,
            "skipped": done.skipped,
            "control": done.control,
            "lines": done.lines,
            "head": head,
            "url": store.log.url,
            "store_id": store.log.store_id.hex(),
        }
    )

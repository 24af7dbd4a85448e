"""`tally copy`: a whole export of one store, imported into another, without a file between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from tallystick.cli import options, output, progress
from tallystick.cli.import_ import show, summary

if TYPE_CHECKING:
    from tallystick import Store


@click.command("copy", short_help="Copy a whole log into another store.")
@click.argument("source", metavar="URL")
@click.argument("target", metavar="NEW_URL")
@click.option("--batch", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Events in one commit.")
@click.option("--without-snapshots", is_flag=True, help="Leave the bodies of snapshots out.")
@options.as_json
def command(source: str, target: str, batch: int, without_snapshots: bool, as_json: bool) -> None:
    """Copy a whole log: `tally export --whole URL | tally import NEW_URL -`.

    NEW_URL is created if there is none. It must be empty, or hold the beginning of the same log: a copy that was
    interrupted, or made earlier, is continued. Nothing is written to URL, and what is appended to it after the start
    is not copied. If both stores are written to afterwards, they are two histories.
    """
    import tallystick
    from tallystick.moving import Intake, whole

    with ExitStack() as stack:
        origin = stack.enter_context(options.open_reading(source))
        move = stack.enter_context(progress.bar("copying", total=origin.head()))

        def opened(of_export: str | None) -> Store:
            return stack.enter_context(tallystick.open(target, profile=of_export))

        intake = Intake(opened, batch=batch)
        try:
            done = intake.run(_lines(whole(origin, snapshots=not without_snapshots, progress=move)))
        except KeyboardInterrupt:
            output.note(f"interrupted: {summary(intake.progress)}")
            raise
        show(intake.store or opened(None), done, as_json=as_json)


def _lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    for part in parts:
        yield from part.splitlines(keepends=True)

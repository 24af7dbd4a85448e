"""The reference of the command line as Markdown, generated from the help of the commands.

`python -m tallystick.cli.reference > docs/cli.md` writes the page; a test checks that it is current.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import click

from tallystick.cli.main import tally

_OPENING = """\
# The command line

Generated from the help of the commands. Do not edit: run `python -m tallystick.cli.reference > docs/cli.md`.
"""


def markdown() -> str:
    """The whole page."""
    root = click.Context(tally, info_name="tally", **tally.context_settings)
    sections = [_OPENING, *_sections(tally, root, level=2)]
    return "\n".join(sections)


def _sections(command: click.Command, ctx: click.Context, *, level: int) -> Iterator[str]:
    yield _section(command, ctx, level=level)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from _sections(
                inner,
                click.Context(inner, info_name=name, parent=ctx),
                level=level if ctx.parent is None else level + 1,
            )


def _section(command: click.Command, ctx: click.Context, *, level: int) -> str:
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    lines = [f"{'#' * level} {ctx.command_path}", "", "```", usage, "```", "", _unwrapped(command.help or "")]
    options = [option for option in command.get_params(ctx) if isinstance(option, click.Option)]
    records = [record for option in options if (record := option.get_help_record(ctx))]
    if records:
        lines += ["", *(f"- `{names}`: {text}" for names, text in records)]
    return "\n".join(lines) + "\n"


def _unwrapped(text: str) -> str:
    """The help with one line per paragraph."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


if __name__ == "__main__":
    sys.stdout.write(markdown())

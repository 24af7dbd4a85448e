"""`tally pipeline`: jobs on Spark over a log. Each is one function of `tallystick.pipeline`, its file here is thin."""

from __future__ import annotations

import importlib
from typing import Any

import click

JOBS = {
    "archive": "pipeline_archive",
    "verify": "pipeline_verify",
    "rebuild": "pipeline_rebuild",
    "replay-check": "pipeline_replay_check",
    "diff": "pipeline_diff",
    "compact": "pipeline_compact",
    "growth": "pipeline_growth",
    "sql": "pipeline_sql",
    "stream": "pipeline_stream",
    "lake": "pipeline_lake",
}
"""Name of the job -> module in this package whose `command` it is."""


class Jobs(click.Group):
    """A group that finds its commands by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(JOBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in JOBS:
            return None
        found: Any = importlib.import_module(f"tallystick.cli.{JOBS[cmd_name]}").command
        command: click.Command = found
        return command


@click.command("pipeline", cls=Jobs, short_help="Archive, verify, rebuild and question logs on Spark.")
def command() -> None:
    """Jobs on Spark over a log: files:DIR or sqlite:FILE.

    Needs the extra `spark` (pip install 'tallystick[spark]'). A Java 17 or 21 is used if there is one, else the one
    that comes with the extra.
    """

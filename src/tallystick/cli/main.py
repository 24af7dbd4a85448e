"""`tally`: the command line. A command is one file in this package and one line in `COMMANDS`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

from tallystick.cli import failures

COMMANDS = {
    "append": "append",
    "import": "import_",
    "export": "export",
    "copy": "copy_",
    "read": "read",
    "tail": "tail",
    "streams": "streams",
    "audit": "audit",
    "verify": "verify",
    "doctor": "doctor",
    "schema": "schema",
    "migrate": "migrate",
    "state": "state",
    "snapshot": "snapshot",
    "prune": "prune",
    "erase": "erase",
    "retain": "retain",
    "project": "project",
    "rebuild": "rebuild",
    "projections": "projections",
    "consumers": "consumers",
    "deadletters": "deadletters",
    "run": "run",
    "community": "community",
    "pipeline": "pipeline",
    "serve": "serve",
    "token": "token",
}
"""Name of the command -> module in this package whose `command` it is. Modules are imported when they are asked for."""


class Tally(click.Group):
    """A group that finds its commands by name, and in which no exception gets past as a stack trace."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"tallystick.cli.{COMMANDS[cmd_name]}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        with failures.quiet_interruptions(ctx):
            status = super().invoke(ctx)
            sys.stdout.flush()
            return status

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        arguments = sys.argv[1:] if args is None else list(args)

        def run() -> Any:
            return click.Group.main(
                self,
                args,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )

        sys.exit(failures.exit_status(run, as_json="--json" in arguments))


@click.command(cls=Tally, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tallystick", prog_name="tally")
def tally() -> None:
    """Keep, read, check and move event logs.

    URL says where the log is: files:DIR, sqlite:FILE or ndjson:DIR.

    Exit status: 0 done, 1 the answer is no (conflict, damage found, check failed), 2 could not run (usage, missing
    file, cannot connect). Set TALLY_DEBUG=1 to see the trace of an internal error.
    """


def main() -> None:
    """The entry point of the script `tally`."""
    tally(prog_name="tally")

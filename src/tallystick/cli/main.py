"""`tally`: the command line. Each command has one line in `COMMANDS`, and is imported when it is used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from tallystick.cli import failures
from tallystick.cli.group import LazyGroup

COMMANDS = {
    "append": "events:append",
    "import": "transfer:import_",
    "export": "transfer:export",
    "copy": "transfer:copy",
    "read": "events:read",
    "tail": "events:tail",
    "consult": "conditions:consult",
    "streams": "events:streams",
    "audit": "events:audit",
    "verify": "verify:command",
    "doctor": "doctor:doctor",
    "schema": "schema:command",
    "migrate": "doctor:migrate",
    "state": "state:command",
    "snapshot": "snapshot:command",
    "prune": "retention:prune",
    "erase": "retention:erase",
    "retain": "retention:retain",
    "project": "projections:project",
    "rebuild": "rebuild:command",
    "projections": "projections:command",
    "consumers": "consumers:command",
    "deadletters": "consumers:deadletters",
    "run": "run:command",
    "community": "community:command",
    "pipeline": "pipeline:command",
    "serve": "serve:command",
    "token": "token:command",
}
"""Name of the command -> `module:attribute` in this package."""


class TallyGroup(LazyGroup):
    """The group of all commands: no exception leaves it as a stack trace."""

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


@click.command(cls=TallyGroup, sources=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tallystick", prog_name="tally")
def tally() -> None:
    """Write, read, check and move event logs.

    URL names a log: files:DIR, sqlite:FILE, ndjson:DIR or postgresql://HOST/DATABASE.

    Exit status: 0 if the command succeeded, 1 if the answer is no (a conflict, damage, a failed check), 2 if it could
    not run (wrong usage, a missing file, no connection). Set TALLY_DEBUG=1 to see the stack trace of an internal error.
    """


def main() -> None:
    """The entry point of the script `tally`."""
    tally(prog_name="tally")

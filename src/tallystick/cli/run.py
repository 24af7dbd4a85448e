"""`tally run`: start, resume and fork runs of a workflow; look at them, compare them, prove them."""

from __future__ import annotations

import click

from tallystick.cli import run_compare, run_status, run_work


@click.group("run", short_help="Run workflows that resume where they stopped.")
def command() -> None:
    """Run a workflow: every step is an event, so a run that was stopped anywhere goes on from there.

    A workflow is a Python object, named MODULE:WORKFLOW. Any engine will do; ndjson:DIR keeps a directory a run.
    """


for _part in (
    run_work.start,
    run_work.resume,
    run_work.fork,
    run_status.status,
    run_status.graph,
    run_compare.replay,
    run_compare.diff,
    run_compare.telemetry,
    run_compare.schema,
):
    command.add_command(_part)

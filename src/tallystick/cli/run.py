"""`tally run`: start, resume and fork runs of a workflow. The commands that only read are in two other files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import code, failures, options, output, run_status
from tallystick.cli.group import LazyGroup

if TYPE_CHECKING:
    from tallystick import Store
    from tallystick.runs import RunnerInfo, RunState, Workflow

COMMANDS = {
    "start": "run:start",
    "resume": "run:resume",
    "fork": "run:fork",
    "status": "run_status:status",
    "graph": "run_status:graph",
    "replay": "run_compare:replay",
    "diff": "run_compare:diff",
    "telemetry": "run_compare:telemetry",
    "schema": "run_compare:schema",
}


@click.command("run", cls=LazyGroup, sources=COMMANDS, short_help="Run workflows that resume where they stopped.")
def command() -> None:
    """Run a workflow. Every step is an event, so a run continues from wherever it was stopped.

    A workflow is a Python object, named MODULE:WORKFLOW. Every engine can be used; ndjson:DIR keeps one directory per
    run.
    """


_RUNNER = (
    click.option("--actor", metavar="NAME", help="Who asks for this. Default: the name of the user."),
    click.option("--worker", metavar="NAME", help="What executes it. Default: the name of the host."),
    click.option(
        "--parallel",
        type=click.IntRange(1, 256),
        default=1,
        show_default=True,
        help="How many nodes may run at the same time.",
    ),
    click.option(
        "--attest",
        "attestation",
        nargs=2,
        metavar="KIND FILE",
        help="Evidence of the worker's hardware, recorded with the run.",
    ),
)
_INPUT = click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE",
    help="Copy FILE into the run as this input. May be repeated.",
)
_NEW = click.option("--run", "new", metavar="ID", help="The id of the new run. Default: a new id.")
_WORKSPACE = click.option(
    "--workspace", metavar="DIR", help="The directory of the run's files. Default: next to its log, or runs/ID."
)


def _runner_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_RUNNER):
        command = option(command)
    return command


@click.command("start", short_help="Start a run of a workflow.")
@options.url
@click.argument("reference", metavar="MODULE:WORKFLOW")
@_NEW
@_WORKSPACE
@_INPUT
@_runner_options
@options.as_json
def start(
    url: str,
    reference: str,
    new: str | None,
    workspace: str | None,
    inputs: tuple[str, ...],
    as_json: bool,
    **runner: Any,
) -> int:
    """Start a run and execute it. Exit status 1 if a node failed and its retries are used up; then fix the cause and
    use `tally run resume`.

    The module is found in the working directory first.
    """
    from tallystick import runs

    with _user_output(as_json):
        flow = _loaded(reference)
    with _opened(url) as store:
        run = new or runs.launch.new_run_id(flow, store.clock())
        given = _inputs(inputs)
        return _executed(
            store,
            run,
            lambda: runs.start(
                store,
                flow,
                run=run,
                workspace=workspace,
                inputs=given,
                reference=reference,
                runner=_runner_info(**runner),
            ),
            as_json=as_json,
        )


@click.command("resume", short_help="Continue a run.")
@options.url
@click.argument("run", metavar="RUN")
@click.option("--workflow", "reference", metavar="MODULE:WORKFLOW", help="Load the workflow from here instead.")
@_WORKSPACE
@_INPUT
@click.option(
    "--force",
    multiple=True,
    metavar="NODE",
    help="Execute this node again, and all nodes that depend on it. May be repeated.",
)
@click.option("--accept-changes", is_flag=True, help="Keep the outputs of nodes whose code changed.")
@click.option(
    "--rerun-changed", is_flag=True, help="Execute nodes whose code changed again, and all nodes that depend on them."
)
@_runner_options
@options.as_json
def resume(
    url: str,
    run: str,
    reference: str | None,
    workspace: str | None,
    inputs: tuple[str, ...],
    force: tuple[str, ...],
    accept_changes: bool,
    rerun_changed: bool,
    as_json: bool,
    **runner: Any,
) -> int:
    """Continue a run at its first unfinished node. Finished nodes are not executed again.

    The exceptions are nodes that are forced, and nodes that read an artifact whose SHA-256 has changed. They are
    executed again, with all nodes that depend on them.
    """
    from tallystick import errors, runs

    if accept_changes and rerun_changed:
        raise click.UsageError("--accept-changes and --rerun-changed cannot be used together.")
    with _opened(url, create=False) as store:
        known = reference or _reference(store, run)
        if known is None:
            raise errors.NotLoadable(reference=run, reason="the run does not name its workflow; use --workflow")
        with _user_output(as_json):
            flow = _loaded(known)
        return _executed(
            store,
            run,
            lambda: runs.resume(
                store,
                flow,
                run,
                workspace=workspace,
                inputs=_inputs(inputs),
                force=force,
                accept_changes=accept_changes,
                rerun_changed=rerun_changed,
                runner=_runner_info(**runner),
            ),
            as_json=as_json,
        )


@click.command("fork", short_help="Start a new run from the history of another one.")
@options.url
@click.argument("run", metavar="RUN")
@click.argument("node", metavar="NODE")
@_NEW
@_WORKSPACE
@options.as_json
def fork(url: str, run: str, node: str, new: str | None, workspace: str | None, as_json: bool) -> None:
    """Create a run with the history of RUN up to the start of NODE. Continue it with `tally run resume`.

    The new run refers to the old one (stream, seq, link). As long as it does, the old one cannot be pruned.
    """
    import secrets

    from tallystick import runs

    with _opened(url, create=False) as store:
        child = new or f"{run}.{secrets.token_hex(3)}"
        state = runs.fork(store, run, node, child=child, workspace=workspace)
        kept = sum(item.state == "finished" for item in state.work_items)
        nodes = len(state.work_items)
        document = {"run": child, "parent": state.parent, "finished": kept, "nodes": nodes}
        text = f"{child}: forked from {run} at {node}, {kept} of {nodes} nodes are finished"
        output.result(document, text, as_json=as_json)


def _executed(store: Store, run: str, act: Callable[[], RunState], *, as_json: bool) -> int:
    """Execute it, and show the state of the run afterwards, also if it failed."""
    from tallystick import errors, runs

    fault: errors.RunFault | None = None
    try:
        with _user_output(as_json):
            state = act()
    except errors.RunFault as problem:
        fault = problem
        state = runs.load(store, run).state
    status = failures.decide(failures.DONE if fault is None else failures.NO)
    if as_json:
        output.document(run_status.summary(state))
    else:
        run_status.show(state)
    if fault is not None:
        raise fault
    return status


def _user_output(as_json: bool) -> AbstractContextManager[object]:
    """With --json, let the user's code print to stderr: stdout has only documents that a program reads."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


def _opened(url: str, *, create: bool = True) -> Store:
    """The store, created with the profile for runs if it does not exist."""
    import tallystick
    from tallystick import errors

    try:
        return tallystick.open(url, create=False)
    except errors.StoreNotFound:
        if not create:
            raise
        return tallystick.open(url, profile="run")


def _loaded(reference: str) -> Workflow:
    from tallystick.runs.code import load

    code.search_here()
    return load(reference)


def _reference(store: Store, run: str) -> str | None:
    """The workflow that a run names in its first event, or in its last snapshot if that event cannot be read."""
    from tallystick import errors, runs
    from tallystick.runs.journal import UNREADABLE

    try:
        return runs.load(store, run).state.reference
    except (*UNREADABLE, errors.RunNotFound):
        runs.recovery.for_resume(store, run)  # raises what is wrong, and records it
        raise


def _inputs(given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise click.UsageError(f"--input {text}: it must be NAME=FILE.")
        found[name] = path
    return found


def _runner_info(
    *, actor: str | None, worker: str | None, parallel: int, attestation: tuple[str, str] | None
) -> RunnerInfo:
    from tallystick.runs import Attestation, RunnerInfo

    evidence = None
    if attestation:
        with open(attestation[1], "rb") as file:
            evidence = Attestation(attestation[0], file.read())
    return RunnerInfo(actor=actor or code.user(), worker=worker or "", parallel=parallel, attestation=evidence)

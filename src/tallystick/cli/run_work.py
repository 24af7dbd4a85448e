"""`tally run start`, `resume` and `fork`: the commands that write to a run."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import code, failures, options, output, run_status

if TYPE_CHECKING:
    from tallystick import Store
    from tallystick.runs import RunnerInfo, RunState, Workflow

_CREW = (
    click.option("--actor", metavar="NAME", help="Who asks for this; the user's name unless it is given."),
    click.option("--worker", metavar="NAME", help="What carries it out; the host's name unless it is given."),
    click.option(
        "--parallel", type=click.IntRange(1, 256), default=1, show_default=True, help="Nodes that may run side by side."
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
    "--input", "inputs", multiple=True, metavar="NAME=FILE", help="Copy FILE in as this input. May be repeated."
)
_NEW = click.option("--run", "new", metavar="ID", help="The id of the new run; one is made up unless it is given.")
_WORKSPACE = click.option(
    "--workspace", metavar="DIR", help="Where the run's files are; beside its log, or runs/ID, unless it is given."
)


def _runner_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_CREW):
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
    """Start a run and carry it out. Exit status 1 if a node failed for good; `tally run resume` goes on then.

    The module is looked for here first.
    """
    from tallystick import runs

    with _talking(as_json):
        flow = _loaded(reference)
    with _opened(url) as store:
        run = new or runs.launch.new_run_id(flow, store.clock())
        given = _inputs(inputs)
        return _carried_out(
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


@click.command("resume", short_help="Go on with a run.")
@options.url
@click.argument("run", metavar="RUN")
@click.option("--workflow", "reference", metavar="MODULE:WORKFLOW", help="Another place to load the workflow from.")
@_WORKSPACE
@_INPUT
@click.option("--force", multiple=True, metavar="NODE", help="Do this node again, and what follows. May be repeated.")
@click.option("--accept-changes", is_flag=True, help="Changed code would have made the same: keep what it made.")
@click.option("--rerun-changed", is_flag=True, help="Do nodes whose code changed again, and what follows from them.")
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
    """Go on with a run at its first unfinished node. What had finished is not done again.

    Unless it is forced, or an artifact that it read has another SHA-256 now: then it and everything that follows from
    it is done again, and nothing else.
    """
    from tallystick import errors, runs

    if accept_changes and rerun_changed:
        raise click.UsageError("--accept-changes and --rerun-changed exclude each other.")
    with _opened(url, create=False) as store:
        known = reference or _reference(store, run)
        if known is None:
            raise errors.NotLoadable(
                reference=run, reason="the run does not say where its workflow is; give --workflow"
            )
        with _talking(as_json):
            flow = _loaded(known)
        return _carried_out(
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


@click.command("fork", short_help="Make a new run of an old one's beginning.")
@options.url
@click.argument("run", metavar="RUN")
@click.argument("node", metavar="NODE")
@_NEW
@_WORKSPACE
@options.as_json
def fork(url: str, run: str, node: str, new: str | None, workspace: str | None, as_json: bool) -> None:
    """Make a run that has the history of RUN up to where NODE was begun; `tally run resume` takes it from there.

    The new run refers to the old one (stream, seq, link), which cannot be pruned as long as that is so.
    """
    import secrets

    from tallystick import runs

    with _opened(url, create=False) as store:
        child = new or f"{run}.{secrets.token_hex(3)}"
        state = runs.fork(store, run, node, child=child, workspace=workspace)
        kept = sum(item.state == "finished" for item in state.work_items)
        if as_json:
            output.document({"run": child, "parent": state.parent, "finished": kept, "nodes": len(state.work_items)})
        else:
            click.echo(f"{child}: forked from {run} at {node}, {kept} of {len(state.work_items)} nodes are done")


def _carried_out(store: Store, run: str, act: Callable[[], RunState], *, as_json: bool) -> int:
    """Do it, and show how the run stands then, whatever became of it."""
    from tallystick import errors, runs

    fault: errors.RunFault | None = None
    try:
        with _talking(as_json):
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


def _talking(as_json: bool) -> AbstractContextManager[object]:
    """Where the user's code prints to: not between documents that a program reads."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


def _opened(url: str, *, create: bool = True) -> Store:
    """The store, made for runs if it is not there yet."""
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
    """The place of the workflow that a run names in its first event; of its last snapshot, if that cannot be read."""
    from tallystick import errors, runs
    from tallystick.runs.journal import UNREADABLE

    try:
        return runs.load(store, run).state.reference
    except (*UNREADABLE, errors.RunNotFound):
        runs.recovery.for_resume(store, run)  # says what is wrong, and records it
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
    return RunnerInfo(actor=actor or _user(), worker=worker or "", parallel=parallel, attestation=evidence)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no such user: in a container, say
        return ""

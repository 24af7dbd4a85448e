"""`tally run status` and `graph`: the state of runs, as tables for people, documents for programs, and pictures."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import failures, options, output, times

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tallystick import Store
    from tallystick.runs.state import RunState, WorkItem

FOLLOW_SECONDS = 0.25
MARKS = {"pending": "○", "running": "▶", "finished": "✔", "failed": "✘", "stale": "↻"}
STYLES = {"pending": "dim", "running": "blue", "finished": "green", "failed": "red", "stale": "yellow"}
_ENDED = ("finished", "failed", "interrupted")


@click.command("status", short_help="Show the state of runs.")
@options.url
@click.argument("run", metavar="[RUN]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Show it again whenever it changes, until the run ends or Ctrl-C.")
@options.as_json
def status(url: str, run: str | None, follow: bool, as_json: bool) -> int:
    """Show the state of a run, node by node; without RUN, list every run of the store. It works while a run executes.

    Exit status 1 if a run is damaged.
    """
    if follow and run is None:
        raise click.UsageError("--follow needs a RUN.")
    with options.open_reading(url) as store:
        if run is None:
            return _list(store, as_json=as_json)
        if not follow:
            state = _load(store, run)
            output.document(summary(state)) if as_json else show(state)
        else:
            _follow(store, run, as_json=as_json)
        return failures.DONE


@click.command("graph", short_help="Draw a run's graph.")
@options.url
@click.argument("run", metavar="RUN")
@click.option(
    "--svg",
    "file",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Write an SVG picture to FILE.",
)
@options.as_json
def graph(url: str, run: str, file: str | None, as_json: bool) -> None:
    """Print the graph of a run as Mermaid text, with the state of every node, or draw it as an SVG picture."""
    from tallystick import runs

    with options.open_reading(url) as store:
        state = _load(store, run)
    if file is not None:
        with open(file, "w", encoding="utf-8") as picture:
            picture.write(runs.svg(state))
    if as_json:
        output.document({"run": run, "mermaid": runs.mermaid(state), "svg": file})
    elif file is None:
        click.echo(runs.mermaid(state), nl=False)
    else:
        click.echo(f"wrote {file}")


def _load(store: Store, run: str) -> RunState:
    from tallystick import runs

    return runs.load(store, run).state


def summary(state: RunState) -> dict[str, Any]:
    """A run as a document."""
    return {
        "run": state.run_id,
        "workflow": state.workflow,
        "state": state.run_state,
        "events": state.seq,
        "created": times.to_text(state.created_at),
        "updated": times.to_text(state.updated_at),
        "parent": state.parent,
        "sections": state.section_states,
        "nodes": [
            {"node": item.node, "state": item.state, "section": item.section, "attempts": item.attempts}
            for item in state.work_items
        ],
        "artifacts": {
            name: {"path": item.path, "sha256": item.sha256, "stale": item.stale}
            for name, item in state.artifacts_index.items()
        },
        "issues": state.issues,
    }


def _list(store: Store, *, as_json: bool) -> int:
    rows, unreadable = [], list[str]()
    for state in _runs(store, unreadable):
        done = sum(item.state == "finished" for item in state.work_items)
        issues = sum(issue.state == "open" for issue in state.issues)
        if as_json:
            counts = {"finished": done, "nodes": len(state.work_items), "open_issues": issues}
            output.document({"run": state.run_id, "workflow": state.workflow, "state": state.run_state} | counts)
        row = (state.run_id, state.workflow, state.run_state, f"{done}/{len(state.work_items)}", issues or "")
        rows.append((*row, times.to_text(state.created_at), _took(state.updated_at - state.created_at)))
    if not as_json:
        output.table(("run", "workflow", "state", "nodes", "issues", "created", "took"), rows)
    return failures.NO if unreadable else failures.DONE


def _runs(store: Store, unreadable: list[str]) -> Iterator[RunState]:
    """The runs that can be read. The reasons why others cannot are printed and added to `unreadable`."""
    from tallystick import runs
    from tallystick.runs.journal import UNREADABLE

    for run in runs.run_ids(store):
        try:
            yield _load(store, run)
        except UNREADABLE as problem:
            unreadable.append(f"{run}: {problem.message}")
    unreadable += [hole.reason for hole in store.log.holes()]  # a run whose directory is missing is not in the list
    if unreadable:
        failures.decide(failures.NO)
    for reason in unreadable:
        output.note(reason)


def _took(ns: int) -> str:
    from tallystick.runs.picture import duration

    return duration(ns)


# --- one run ---------------------------------------------------------------------------------------------------------


def show(state: RunState) -> None:
    """Print a run: one line about it, a table of its nodes, its open issues."""
    output.render(_page(state))


def _page(state: RunState) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    done = sum(item.state == "finished" for item in state.work_items)
    head = Text.assemble(
        (output.printable(state.run_id), "bold"),
        f"  {output.printable(state.workflow)}  ",
        (state.run_state, STYLES.get(state.run_state, "")),
        f"  {done} of {len(state.work_items)} nodes, {_took(state.updated_at - state.created_at)}",
    )
    if state.parent is not None:
        head.append(f"\nforked from {state.parent.stream}#{state.parent.seq} at {output.printable(state.parent.node)}")
    issues = [
        Text(f"  {issue.severity}: {output.printable(issue.code)}: {output.printable(issue.message)}", style="yellow")
        for issue in state.issues
        if issue.state == "open"
    ]
    return Group(head, Text(""), _nodes(state), *([Text("\nopen issues", style="bold"), *issues] if issues else []))


def _nodes(state: RunState) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("", "node", "state", "section", "attempts", "took", "outputs"):
        grid.add_column(heading, overflow="fold")
    for item in state.work_items:
        outputs = ", ".join(f"{name} {sha[:8]}" for name, sha in _outputs(item, state))
        cells = (item.node, _word(item), item.section or "", str(item.attempts or ""), _node_took(item), outputs)
        style = STYLES[item.state]
        grid.add_row(Text(MARKS[item.state], style=style), *(Text(output.printable(c), style=style) for c in cells))
    return grid


def _word(item: WorkItem) -> str:
    if item.state == "stale":
        return f"stale: {item.stale_because}"
    return f"{item.state} (inherited)" if item.inherited_from else item.state


def _outputs(item: WorkItem, state: RunState) -> Iterator[tuple[str, str]]:
    for made in item.outputs:
        known = state.artifacts_index.get(made.artifact)
        if known is not None:
            yield made.artifact, known.sha256


def _node_took(item: WorkItem) -> str:
    last = item.history[-1] if item.history else None
    return "" if last is None or last.ended_at is None else _took(last.ended_at - last.started_at)


def _follow(store: Store, run: str, *, as_json: bool) -> None:
    """Show the run again whenever it has new events, until it ends."""
    try:
        if sys.stdout.isatty() and not as_json:
            from rich.live import Live

            with Live(auto_refresh=False) as live:
                for state in _changes(store, run):
                    live.update(_page(state), refresh=True)
            return
        for state in _changes(store, run):
            output.document(summary(state)) if as_json else show(state)
    except KeyboardInterrupt:
        return


def _changes(store: Store, run: str) -> Iterator[RunState]:
    seen = -1
    while True:
        state = _load(store, run)
        if state.seq != seen:
            seen = state.seq
            yield state
        if state.run_state in _ENDED:
            return
        time.sleep(FOLLOW_SECONDS)

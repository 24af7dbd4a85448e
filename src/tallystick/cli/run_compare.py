"""`tally run replay`, `diff`, `telemetry` and `schema`: checks, differences and the audit record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import failures, options, output, times

if TYPE_CHECKING:
    from tallystick.runs.activity import Activity
    from tallystick.runs.recovery import StateComparison

_SHORT = 12


@click.command("replay", short_help="Rebuild a snapshot and compare it.")
@options.url
@click.argument("run", metavar="RUN")
@click.option("--check", is_flag=True, help="Only compare; do not rewrite a wrong snapshot.json.")
@options.as_json
def replay(url: str, run: str, check: bool, as_json: bool) -> int:
    """Rebuild the state of a run from its first event, and compare snapshot.json with it byte for byte.

    Every event is also checked against its JSON Schema. If snapshot.json differs, it is rewritten: exit status 1.
    """
    import msgspec

    import tallystick
    from tallystick import runs

    with tallystick.open(url, readonly=check, create=False) as store:
        validated = runs.recovery.validate(store, run)
        found = runs.replay(store, run)
    document = {**msgspec.to_builtins(found), "valid_events": validated}
    return output.answer(found.equal, document, lambda: _show_replay(run, found), as_json=as_json)


def _show_replay(run: str, found: StateComparison) -> None:
    if not found.equal:
        done = "it was rewritten" if found.rewritten else "it was not changed"
        click.echo(f"{run}: snapshot.json is wrong: {found.reason}; {done}")
    elif found.seq:
        click.echo(f"{run}: {found.events} events; snapshot.json at seq {found.seq} equals their state, byte for byte")
    else:
        click.echo(f"{run}: {found.events} events replayed; this engine has no snapshot.json")
    if found.since:
        click.echo(f"{run}: seq 1 to {found.since} were pruned; the replay started at the snapshot there")


@click.command("diff", short_help="Compare two runs.")
@options.url
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@options.as_json
def diff(url: str, a: str, b: str, as_json: bool) -> int:
    """List the differences between the runs A and B: nodes, code, parameters, artifacts. Times are not compared.

    Exit status 0 if they are the same, 1 otherwise.
    """
    from tallystick import runs

    with options.open_reading(url) as store:
        found = runs.diff(runs.load(store, a).state, runs.load(store, b).state)
    document = {"equal": not found, "a": a, "b": b, "differences": found}

    def show() -> None:
        if found:
            rows = ((item.what, item.name, item.property, _cell(item.a), _cell(item.b)) for item in found)
            output.table(("what", "name", "property", a, b), rows)
        else:
            click.echo(f"{a} and {b} are the same")

    return output.answer(not found, document, show, as_json=as_json)


def _cell(value: str | None) -> str:
    if value is None:
        return "(none)"
    is_hash = len(value) == 64 and all(c in "0123456789abcdef" for c in value)
    return value[:_SHORT] if is_hash else value


@click.command("telemetry", short_help="List who ran what, when, from which commit.")
@options.url
@click.option("--run", metavar="RUN", help="Only this run.")
@click.option("--node", metavar="NODE", help="Only this node.")
@click.option("--worker", metavar="NAME", help="Only what this worker did.")
@click.option("--actor", metavar="NAME", help="Only what this actor asked for.")
@click.option("--artifact", metavar="NAME|SHA256", help="Only attempts that read or wrote this artifact.")
@click.option("--commit", metavar="COMMIT", help="Only what ran from this commit. A prefix is enough.")
@options.time_range
@options.as_json
def telemetry(url: str, as_json: bool, **asked: Any) -> int:
    """List every attempt to execute a node: who, when, inputs, outputs, and from which commit."""
    from tallystick import runs

    with options.open_reading(url) as store:
        found = runs.telemetry(store, runs.ActivityQuery(**asked))
    status = failures.decide(failures.NO if found.unreadable else failures.DONE)
    if as_json:
        for item in found.activities:
            output.document(item)
    else:
        headings = ("started", "run", "node", "attempt", "status", "worker", "actor", "commit", "inputs", "outputs")
        output.table(headings, map(_row, found.activities))
    for run, reason in found.unreadable.items():
        output.note(f"{run}: {reason}")
    return status


def _row(item: Activity) -> tuple[object, ...]:
    commit = (item.commit or "")[:_SHORT] + ("+" if item.dirty else "")
    attempt = (times.to_text(item.started_at), item.run, item.node, item.attempt, item.status)
    return (*attempt, item.worker, item.actor, commit, _hashes(item.inputs), _hashes(item.outputs))


def _hashes(artifacts: dict[str, str]) -> str:
    return ", ".join(f"{name} {sha256[:8]}" for name, sha256 in artifacts.items())


@click.command("schema", short_help="Print a shipped JSON Schema.")
@click.argument("name", type=click.Choice(["event", "snapshot"]))
def schema(name: str) -> None:
    """Print the JSON Schema of a line of events.ndjson (event), or of snapshot.json (snapshot)."""
    from tallystick.runs import schema as schemas

    click.echo(schemas.text(name), nl=False)

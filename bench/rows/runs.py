"""Runs: what a node costs that does nothing, whether that grows with the run, and how long a resume takes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tallystick
from bench.harness import Bar, Row, Spec, alternate, measures
from bench.peers import dbos
from bench.workshop import Workshop
from tallystick import runs
from tallystick.runs.facts import NodeFinished, NodeStarted, RunCreated, RunFact, RunStateChanged
from tallystick.runs.journal import Journal
from tallystick.runs.state import RunReducer

NODES = 1000
FEW, MANY = 500, 4000
RESUMED = 10_000
ROUNDS = 5

OVERHEAD = Spec(
    name="runs: a node that does nothing, of 1,000",
    unit="ms",
    against="DBOS",
    bar=Bar("ratio", "<=", 1.0),
    note=f"ndjson, every event fsynced, chained and schema-checked, snapshot.json on; {dbos.UNEQUAL}",
)
FLAT = Spec(
    name="runs: a node of 4,000 over a node of 500",
    unit="x",
    bar=Bar("value", "<=", 1.25),
    note="ndjson; what a node costs must not grow with the run; the rounds take turns",
)
RESUME = Spec(
    name="runs: resume of a 10,000-node run",
    unit="s",
    bar=Bar("value", "<=", 1.0),
    note="ndjson; from opening the store to the end of the one node that was left, snapshot.json rewritten",
)


def nothing(work: Any) -> None:
    """A node."""


def chain(nodes: int) -> runs.Workflow:
    """A workflow of so many nodes, one after the other."""
    flow = runs.Workflow("nothing")
    for number in range(nodes):
        flow.add(f"node{number}", nothing, after=[f"node{number - 1}"] if number else [])
    return flow


@measures(OVERHEAD, FLAT)
def overhead(workshop: Workshop) -> Iterator[Row]:
    rounds = min(ROUNDS, workshop.scale.rounds)
    flows = {nodes: chain(nodes) for nodes in (FEW, NODES, MANY)}
    with dbos.peer(workshop.place("dbos")) as peer:
        best = alternate(
            {
                "ours": lambda: _ours(workshop, flows[NODES]),
                "dbos": lambda: _timed(lambda: peer.run(NODES)) / NODES,
            },
            rounds=rounds,
        )
    sizes = alternate(
        {"few": lambda: _ours(workshop, flows[FEW]), "many": lambda: _ours(workshop, flows[MANY])}, rounds=rounds
    )
    yield OVERHEAD.row(best["ours"].lowest * 1e3, best["dbos"].lowest * 1e3, note=best["ours"].spread)
    few, many = sizes["few"].lowest, sizes["many"].lowest
    yield FLAT.row(many / few, note=f"{many * 1e3:.2f} ms over {few * 1e3:.2f} ms, {sizes['many'].spread}")


def _ours(workshop: Workshop, flow: runs.Workflow) -> float:
    """Seconds a node, of a whole run."""
    place = workshop.place("runs")
    with tallystick.open(f"ndjson:{place}") as store:
        taken = _timed(lambda: runs.start(store, flow, run="r", workspace=str(place / "work")))
    shutil.rmtree(place)
    return taken / len(flow.nodes)


def _timed(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@measures(RESUME)
def resume(workshop: Workshop) -> Iterator[Row]:
    flow = chain(RESUMED)
    place = workshop.place("unfinished")
    leave_unfinished(f"ndjson:{place}", flow, place)
    best = alternate({"resume": lambda: _resumed(workshop, flow, place)}, rounds=min(ROUNDS, workshop.scale.rounds))
    yield RESUME.row(best["resume"].lowest, note=best["resume"].spread)


def leave_unfinished(url: str, flow: runs.Workflow, place: Path) -> None:
    """A run whose last node is left to be done, as a runner would have recorded it, but in large commits."""
    with tallystick.open(url) as store:
        journal = Journal(store, "r", RunReducer("r"))
        created = RunCreated(workflow=flow.name, workspace=str(place / "work"))
        facts: list[RunFact] = [created, *flow.graph().nodes.values(), RunStateChanged(state="running")]
        for node in list(flow.nodes)[:-1]:
            facts += [NodeStarted(node=node, attempt=1, session="s"), NodeFinished(node=node, attempt=1)]
        journal.record(facts)
        journal.save_snapshot()


def _resumed(workshop: Workshop, flow: runs.Workflow, place: Path) -> float:
    copy = workshop.place("resumed")
    shutil.copytree(place, copy)

    def work() -> None:
        with tallystick.open(f"ndjson:{copy}") as store:
            assert runs.resume(store, flow, "r", workspace=str(copy / "work")).run_state == "finished"

    taken = _timed(work)
    shutil.rmtree(copy)
    return taken

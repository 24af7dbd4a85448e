"""Tags move with their log, and names that were taken stay taken, from every engine to every other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tallystick
from tallystick import NewEvent, Selection, Store, errors, match, moving
from tallystick.cli.main import tally
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing import postgres, upkeep

OPENED, CLOSED = "account.opened", "account.closed"
TAKEN = [
    match(tags=["name:ada"]),
    match(types=[OPENED], tags=["name:ada", "x:1"]),
    match(types=["account.kept"], tags=["name:cleo"]),
    match(types=[OPENED]),
]
FREE = [match(tags=["name:bob"]), match(types=[CLOSED], tags=["name:ada"]), match(types=[CLOSED], tags=["name:cleo"])]


def write(store: Store) -> None:
    """An account whose opening was pruned, one whose payload was erased, and one as it was."""
    opened = NewEvent(OPENED, {"n": 1}, tags=["name:ada", "x:1"], meta={"org": "acme"})
    used = NewEvent("account.used", {}, meta={"org": "acme"})
    store.append("account/1", [opened, used, used])
    store.append("account/2", [NewEvent("account.kept", {"n": 1}, tags=["name:cleo"]), NewEvent("account.used", {})])
    store.append("account/3", NewEvent("account.kept", {"n": 1}, tags=["name:dora"]))
    upkeep.prune(store, "account/1", 3)
    upkeep.erase(store, "account/2", 1)


def require_same(store: Store) -> None:
    """What conditions and consultations answer, for all and for one org."""
    for query in TAKEN:
        with pytest.raises(errors.ConditionFailed):
            store.append("account/9", NewEvent(CLOSED, {}), unless=query)
    for query in (TAKEN[0], TAKEN[3]):
        with pytest.raises(errors.HistoryPruned):
            store.consult(query)
    assert store.consult(TAKEN[0], over_pruned=True).events == []
    assert [event.erased for event in store.consult(TAKEN[2]).events] == [True]
    assert all(store.consult(query).events == [] for query in FREE)
    dora = Selection(query=match(tags=["name:dora"]))
    assert [event.stream for event in store.events(selection=dora, over_pruned=True)] == ["account/3"]
    orgs = {}
    for org in ("acme", "bolt"):
        part = Part("account/9", [NewEvent(CLOSED, {}, meta={"org": "bolt"})], 99)  # it is refused in any case
        (refused,) = store.submit([Request([part], unless=TAKEN[0], org=org)])
        orgs[org] = type(refused)
    assert orgs == {"acme": errors.ConditionFailed, "bolt": errors.Conflict}
    assert verify(store.log).ok


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A place for a store of each engine."""
    with postgres.database() as server:
        yield {
            "memory": "memory:",
            "files": f"files:{tmp_path}/log",
            "sqlite": f"sqlite:{tmp_path}/log.db",
            "postgres": str(server),
        }


@pytest.mark.parametrize("source", ["memory", "files", "sqlite", "postgres"])
def test_a_copy_answers_as_the_original(source: str, places: dict[str, str]) -> None:
    """TAG-03, SAFE-06: copied on from engine to engine and back, every answer about tags is the same."""
    names = list(places)
    order = [*names[names.index(source) :], *names[: names.index(source)]]
    with ExitStack() as stack:
        here = stack.enter_context(tallystick.open(places[source]))
        write(here)
        require_same(here)
        for target in order[1:]:
            there = stack.enter_context(tallystick.open(places[target]))
            assert moving.copy(here, lambda _, there=there: there).pruned == 3  # type: ignore[misc]
            require_same(there)
            assert list(moving.export(there, whole=True))[1:-1] == list(moving.export(here, whole=True))[1:-1]
            here = there


def test_the_command_copies_tags(places: dict[str, str]) -> None:
    """TAG-03: `tally copy`, and an export through a pipe."""
    with tallystick.open(places["files"]) as store:
        write(store)

    def run(*arguments: str, stdin: Any = None) -> str:
        result = CliRunner().invoke(tally, list(arguments), input=stdin)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    assert json.loads(run("copy", places["files"], places["sqlite"], "--json"))["pruned"] == 3
    run("import", places["postgres"], "-", stdin=run("export", "--whole", places["sqlite"]))
    for engine in ("sqlite", "postgres"):
        with tallystick.open(places[engine]) as store:
            require_same(store)

"""Contract: tags in logs of one stream, and in logs that move to another engine."""

from __future__ import annotations

from typing import Any

import pytest

import tallystick
from tallystick import Marker, NewEvent, Query, Selection, Store, errors, match
from tallystick.store.capabilities import ANY_STREAM, CONDITIONS, MAINTENANCE, TRANSFER
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.contract.harness import Contract, needs
from tallystick.testing.contract.tags import tagged
from tallystick.testing.contract.transfer import bare, lines_of, take


def _with_tags(store: Store) -> None:
    """Names that were taken by an event that is there, one that is erased, and two that are pruned."""
    for number, name in enumerate(("ada", "bob", "eve", "zoë")):
        meta = {"org": "acme" if name == "eve" else "bolt"}
        opened = NewEvent("account.opened", {"n": number}, meta=meta, tags=[f"name:{name}", "kind:person"])
        store.append(f"account/{number}", [opened, NewEvent("account.used", {}, meta=meta, tags=["kind:use"])])
    upkeep.erase(store, "account/1", 1)
    upkeep.prune(store, "account/2", 1)
    upkeep.prune(store, "account/3", 2)


def _require_tags(store: Store) -> None:
    found = {
        name: store.log.consult(match(tags=[f"name:{name}"]), after=0, org=None, over_pruned=True).events
        for name in ("ada", "bob", "eve")
    }
    assert {name: [event.erased for event in events] for name, events in found.items()} == {
        "ada": [False],
        "bob": [True],
        "eve": [],
    }
    new = NewEvent("account.opened", {}, tags=["name:new"])
    for name in ("ada", "bob", "eve", "zoë"):
        for taken in (
            match(tags=[f"name:{name}"]),
            match(types=["account.opened"], tags=["kind:person", f"name:{name}"]),
        ):
            with pytest.raises(errors.ConditionFailed):
                store.append("account/new", new, unless=taken)
    with pytest.raises(errors.HistoryPruned):
        store.consult(match(tags=["name:eve"]))
    assert store.consult(match(tags=["name:eve"]), org="bolt").events == []
    with pytest.raises(errors.HistoryPruned):
        store.consult(match(tags=["name:eve"]), org="acme")
    store.append(
        "account/new", new, unless=match(types=["account.used"], tags=["kind:person"]) | match(tags=["name:new"])
    )


class TaggedLogContract(Contract):
    """What holds of tags in every engine, and of tags that move."""

    def test_a_run_is_read_by_tags(self, store: Store) -> None:
        """TAG-01: engines for one stream select too. Labels are no tags."""
        for number in range(6):
            store.append("run/a", tagged(f"t.{number % 2}", f"m2:{number % 2}", f"m3:{number % 3}"))
        store.append("run/a", NewEvent("t.0", {}, meta={"tags": {"m2": "0"}}))

        def seqs(query: Query, **asked: Any) -> list[int]:
            return [event.seq for event in store.events(selection=Selection(query=query, **asked))]

        assert seqs(match(tags=["m2:0"])) == [1, 3, 5]
        assert seqs(match(tags=["m2:1", "m3:0"])) == [4]
        assert seqs(match(types=["t.0"]) | match(tags=["m3:1", "m2:1"])) == [1, 2, 3, 5, 7]
        assert seqs(match(), types=frozenset({"t.1"})) == [2, 4, 6]
        assert seqs(match(types=["t.0"], tags=["m3:0"]), types=frozenset({"t.1"})) == []

    def test_conditions_are_refused_where_they_are_not_offered(self, store: Store) -> None:
        """TAG-02: by name, whatever the query is, and nothing is written."""
        if CONDITIONS in store.log.capabilities:
            assert store.consult(match()).events == []
            return
        for unless in (match(), match(tags=["a:1"]), Marker(match(types=["x.done"]))):
            with pytest.raises(errors.UnsupportedCapability, match="conditions"):
                store.append("run/a", tagged("x.done", "a:1"), unless=unless)
        with pytest.raises(errors.UnsupportedCapability, match="conditions"):
            store.consult(match(tags=["a:1"]))
        assert store.stream_head("run/a") is None

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM, CONDITIONS)
    def test_tags_move_there_and_back(self, store: Store) -> None:
        """TAG-03: those of events, of erased and of pruned ones, with type and org: what was taken stays taken."""
        with tallystick.open("memory:") as origin:
            _with_tags(origin)
            kept, lines = list(origin.log.pruned_events()), lines_of(origin)
        take(store, lines)
        assert list(store.log.pruned_events()) == kept
        assert verify(store.log).problems == []
        store.log.reclaim(compress_before=None, progress=lambda done: None)
        with tallystick.open("memory:") as back:
            take(back, lines_of(store))
            assert bare(lines_of(back)) == bare(lines)
            for moved in (store, back):
                _require_tags(moved)

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM, CONDITIONS)
    def test_tags_move_out(self, store: Store) -> None:
        """TAG-03: what the engine keeps of events that it pruned itself is what the model keeps."""
        _with_tags(store)
        with tallystick.open("memory:") as origin, tallystick.open("memory:") as target:
            _with_tags(origin)
            own = [(gone.position, gone.type, gone.org, gone.tags) for gone in store.log.pruned_events()]
            assert own == [(gone.position, gone.type, gone.org, gone.tags) for gone in origin.log.pruned_events()]
            take(target, lines_of(store))
            _require_tags(target)
        _require_tags(store)

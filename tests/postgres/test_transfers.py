"""`tally.receive` writes a valid part of another log after the end of this one, for the maintenance role."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import psycopg
import pytest

import tallystick
from tallystick import Store, moving
from tallystick.engines.postgres.transfers import _document
from tallystick.store import transfer
from tallystick.store.transfer import Transfer
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import events

Connect = Callable[..., psycopg.Connection[Any]]


def _part() -> dict[str, Any]:
    """A part of three events, as the function gets it."""
    with tallystick.open("memory:") as origin, tallystick.open("memory:") as empty:
        origin.append("order/a", events(3, meta={"org": "acme"}))
        found = tuple(origin.read().events)
        judged = transfer.judge(empty.log, Transfer(after=0, events=found), head=0)
    made: dict[str, Any] = json.loads(msgspec.json.encode(_document(judged)))
    return made


CUT = {
    "stream": "order/z",
    "through": 2,
    "link": "00" * 32,
    "first_position": 1,
    "last_position": 2,
    "count": 2,
    "org": None,
    "fact_position": 9,
}


def _changed(part: dict[str, Any], name: str) -> dict[str, Any]:
    first, second, _ = part["events"]
    match name:
        case "payload":
            second["payload"] = '{"n":7}'
        case "link":
            second["link"] = "00" * 32
        case "seq":
            second["seq"] = 5
        case "position":
            second["position"] = 99
        case "id":
            second["id"] = first["id"]
        case "org":
            second["meta"] = '{"org":"evil"}'
        case "after":
            part["after"] = 1
        case "control fact":
            first |= {"stream": "tally.store/x", "payload": None}
    return part


@pytest.mark.security
@pytest.mark.parametrize("name", ["payload", "link", "seq", "position", "id", "org", "after", "control fact"])
def test_a_part_that_does_not_follow_is_refused(store: Store, connect: Connect, name: str) -> None:
    """SAFE-06, SAFE-08: the database computes every checksum, seq and link again, for every caller."""
    connection = connect("tally_maintenance")
    with pytest.raises(psycopg.Error):
        connection.execute("SELECT tally.receive(%s::json, 1)", (json.dumps(_changed(_part(), name)),))
    assert store.head() == 0


@pytest.mark.security
def test_a_store_that_is_not_empty_takes_no_cut(store: Store, connect: Connect) -> None:
    """SAFE-06, SAFE-08: nobody can pretend that a part of an existing log was pruned."""
    store.append("order/a", events(1))
    connection = connect("tally_maintenance")
    part = {"after": 1, "until": 1, "cuts": [CUT], "pruned": [], "events": [], "erasures": []}
    with pytest.raises(psycopg.Error, match="refused"):
        connection.execute("SELECT tally.receive(%s::json, 1)", (json.dumps(part),))
    with pytest.raises(psycopg.Error, match="refused"):
        connection.execute("SELECT tally.prune('order/z', 2, %s, 1, 2, 2, NULL, gen_random_uuid())", (bytes(32),))
    assert store.log.cuts(limit=10) == []


@pytest.mark.security
@pytest.mark.parametrize("role", ["tally_app", "tally_reader"])
def test_a_login_that_appends_or_reads_cannot_receive(store: Store, connect: Connect, role: str) -> None:
    """SAFE-08: without the engine, only the maintenance role can call the function."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connect(role).execute("SELECT tally.receive(%s::json, 1)", (json.dumps(_part()),))


def test_a_login_without_the_right_learns_which_it_lacks(login: Callable[[str], str]) -> None:
    """SAFE-08: through the engine it is refused by name, and nothing is written."""
    with tallystick.open("memory:") as origin:
        origin.append("order/a", events(3))
        upkeep.prune(origin, "order/a", 1)
        lines = list(moving.export(origin, whole=True))
    with tallystick.open(login("tally_app")) as service:
        with pytest.raises(moving.ImportStopped, match="tally_maintenance"):
            moving.import_lines(service, lines)
        assert service.head() == 0


def test_gaps_of_what_was_rolled_back_move_along(store: Store, connect: Connect) -> None:
    """SAFE-06: positions that a refused append drew are never used, in either store."""
    store.append("order/a", events(2))
    connect().execute("SELECT setval('tally.positions', 10)")
    store.append("order/a", events(2))
    upkeep.prune(store, "order/a", 1)
    lines = list(moving.export(store, whole=True))
    with tallystick.open("memory:") as target:
        moving.import_lines(target, lines)
        assert [each.position for each in target.read(over_pruned=True).events] == [2, 11, 12, 13]
        assert verify(target.log).problems == []

"""The rules that admit a transferred log admit nothing else, not even over a foreign connection."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import msgspec
import pytest

import tallystick
from tallystick import errors, moving
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import events
from tallystick.testing.contract.transfer import lines_of, sealed_again, take

CUT = "INSERT INTO cuts VALUES ('order/a', 2, zeroblob(32), 1, 2, 2, NULL, 99)"
FORGED = {
    "a cut whose fact is to come": CUT,
    "a cut of a stream that is not there": CUT.replace("order/a", "order/new"),
    "positions that were used": "INSERT INTO skipped VALUES (2, 3)",
    "positions without an end": "INSERT INTO skipped VALUES (9, 8)",
    "a skipped range changed": "UPDATE skipped SET last = last + 1",
    "a skipped range forgotten": "DELETE FROM skipped",
}


@pytest.mark.security
@pytest.mark.parametrize("name", FORGED)
def test_nothing_of_it_can_be_forged(store, path, name):
    """SAFE-06, EVT-03: only an empty store takes a cut before its fact, and skipped positions stay skipped."""
    store.append("order/a", events(4))
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("INSERT INTO skipped VALUES (5, 6)")
        with pytest.raises(sqlite3.IntegrityError):
            raw.execute(FORGED[name])


@pytest.mark.security
def test_a_cut_whose_fact_never_comes_is_found(path, reopen):
    """SAFE-06: in an empty store the trigger admits it. Verification reports that no fact names it."""
    reopen().close()
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute(CUT)
        raw.execute("INSERT INTO streams VALUES ('order/a', 2, zeroblob(32), NULL)")
    assert "no control fact" in " ".join(problem.reason for problem in verify(reopen().log).problems)


def test_skipped_positions_survive_a_refill(path, reopen, tmp_path):
    """SAFE-06: a received log with its gaps can be refilled from a copy."""
    with tallystick.open("memory:") as origin:
        origin.append("order/a", events(900))
        upkeep.prune(origin, "order/a", 300)
        lines = list(moving.export(origin, whole=True))
    for place in (path, str(tmp_path / "copy.db")):
        with tallystick.open(f"sqlite:{place}") as store:
            moving.import_lines(store, lines)
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("DROP TRIGGER events_are_not_deleted")
        raw.execute("DROP TRIGGER pruned_events_are_noted")
        raw.execute("DELETE FROM events WHERE position BETWEEN 400 AND 410")
    tallystick.refill(f"sqlite:{path}", f"sqlite:{tmp_path}/copy.db")
    with tallystick.open(f"sqlite:{path}") as store:
        assert verify(store.log).problems == []
        assert len(store.read(over_pruned=True, limit=2000).events) == 602  # and the facts of the prune and the refill


def test_a_damaged_page_over_positions_that_were_never_used_is_refilled(path, reopen, tmp_path):
    """SAFE-02: the donor is not asked for skipped positions, although nothing in that range can be read."""
    copy = str(tmp_path / "copy.db")
    with tallystick.open("memory:") as origin:
        origin.append("order/a", events(200))
        lines = _with_gaps(lines_of(origin), last=200)
    for place in (path, copy):
        with tallystick.open(f"sqlite:{place}") as store:
            take(store, lines, batch=50)
    with closing(sqlite3.connect(path)) as raw:
        (page_bytes,) = raw.execute("PRAGMA page_size").fetchone()
        ((payload,),) = raw.execute("SELECT payload FROM events WHERE position = 200")
    with open(path, "r+b") as file:
        at = file.read().index(payload)
        file.seek(at // page_bytes * page_bytes)
        file.write(bytes(page_bytes))
    with tallystick.open(f"sqlite:{path}", readonly=True) as store, pytest.raises(errors.Damaged):
        list(store.events())
    tallystick.refill(f"sqlite:{path}", f"sqlite:{copy}")
    with tallystick.open(f"sqlite:{path}") as store, tallystick.open(f"sqlite:{copy}", readonly=True) as whole:
        assert verify(store.log).problems == []
        assert store.read(until=400, limit=1000).events == whole.read(until=400, limit=1000).events


def _with_gaps(lines, *, last):
    """The lines of a log of which every second position was never used, up to twice the last one."""
    moved = []
    for line in lines:
        told = msgspec.json.decode(line)
        if "position" in told:
            position = told["position"]
            line = line.replace(b'"position":%d,' % position, b'"position":%d,' % (position * 2))
        elif told.get("head") == last:
            line = msgspec.json.encode(told | {"head": last * 2}) + b"\n"
        moved.append(line)
    return sealed_again(moved)

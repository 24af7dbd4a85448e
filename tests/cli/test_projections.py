"""`tally project`, `tally rebuild`, `tally deadletters`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tallystick
from tallystick import NewEvent
from tallystick.projections import Consumer, Live, ViewReader
from tallystick.testing import tamper
from tallystick.testing.contract.tampered import EventCount

MODULE = """
from tallystick import Catalog
from tallystick.projections import Projection, Summary, TableProjection
from tallystick.projections.summary import count, payload

catalog = Catalog()
catalog.upcaster("visit", from_version=1)(lambda data: {"who": data["name"]})

class Visits(Projection):
    types = ("visit",)
    key = "payload.who"
    def initial(self):
        return 0
    def apply(self, state, event):
        return state + 1

class Twice(Visits):
    name = "Visits"
    version = 2
    def apply(self, state, event):
        return state + 2

class Counted(Summary):
    types = ("visit",)
    key = payload.who
    visits = count()

class Rows(TableProjection):
    types = ("visit",)
    tables = ("t",)
    def create(self, execute):
        execute("CREATE TABLE {t} (n INTEGER)")
    def apply(self, execute, event):
        execute("INSERT INTO {t} VALUES (1)")

def fine(event):
    print("handled", event.position)

def bad(event):
    raise ValueError("still bad")
"""


@pytest.fixture
def filled(tally, url):
    """A store with three visits, and a module of projections next to it."""
    Path("shop_views.py").write_text(MODULE)
    sys.modules.pop("shop_views", None)
    with tallystick.open(url) as store:
        store.append("shop/1", [NewEvent("visit", {"who": who}, version=2) for who in ("ada", "bob", "ada")])
    return url


def test_a_projection_is_run_from_the_command_line(tally, filled, lines):
    """CP-08: it catches up, prints its position, and continues from its checkpoint."""
    result = tally("project", filled, "shop_views:Visits")
    assert (result.exit_code, result.stdout) == (0, "Visits is at position 3 of 3\n")
    with tallystick.open(filled) as store:
        store.append("shop/1", NewEvent("visit", {"who": "eve"}, version=2))
    (found,) = lines(tally("project", filled, "shop_views:Visits", "--json"))
    assert found == {"projection": "Visits", "position": 4, "head": 4}
    with tallystick.open(filled) as store:
        assert dict(ViewReader(store, "Visits").items()) == {"ada": 2, "bob": 1, "eve": 1}


def test_another_version_needs_a_rebuild(tally, filled, lines):
    """CP-08: refused with status 1 and advice; the rebuild prints the fingerprint."""
    tally("project", filled, "shop_views:Visits")
    refused = tally("project", filled, "shop_views:Twice")
    assert refused.exit_code == 1
    assert "tally rebuild" in refused.stderr
    (made,) = lines(tally("rebuild", filled, "shop_views:Twice", "--on", "process", "--json"))
    assert (made["position"], made["rows"], len(made["fingerprint"])) == (3, 2, 64)
    with tallystick.open(filled) as store:
        assert dict(ViewReader(store, "Visits").items()) == {"ada": 4, "bob": 2}


def test_old_events_pass_through_the_catalog(tally, filled):
    """CP-08: --catalog names the upcasters."""
    with tallystick.open(filled) as store:
        store.append("shop/1", NewEvent("visit", {"name": "ada"}, version=1))
    assert tally("project", filled, "shop_views:Visits").exit_code == 1
    assert tally("project", filled, "shop_views:Visits", "--catalog", "shop_views:catalog").exit_code == 1
    result = tally("rebuild", filled, "shop_views:Visits", "--catalog", "shop_views:catalog")
    assert result.exit_code == 0, result.stderr


def test_tables_are_projected_too(tally, filled, lines):
    """CP-08: the command chooses the runner for the kind of projection."""
    assert tally("project", filled, "shop_views:Rows").exit_code == 0
    (made,) = lines(tally("rebuild", filled, "shop_views:Rows", "--json"))
    assert made == {"projection": "Rows", "position": 3, "on": "process", "why": "it owns SQL tables"}


def test_a_summary_is_computed_by_the_database(tally, filled, lines):
    """PIPE-04: with --on sql, if the log is in a database; the rows equal those of one process, in the next epoch."""
    (here,) = lines(tally("rebuild", filled, "shop_views:Counted", "--on", "process", "--json"))
    by_sql = tally("rebuild", filled, "shop_views:Counted", "--on", "sql", "--json")
    if filled.startswith("files:"):
        assert by_sql.exit_code == 1
        assert "the engine files is not an SQL database" in by_sql.stderr
        return
    (there,) = lines(by_sql)
    assert (there["on"], there["why"], there["rows"]) == ("sql", "chosen with --on", 2)
    assert there["fingerprint"] == here["fingerprint"]


def test_what_sql_cannot_compute_is_said(tally, filled):
    """PIPE-04: a database can run neither an upcaster nor a projection written in Python."""
    of_python = tally("rebuild", filled, "shop_views:Visits", "--on", "sql")
    assert of_python.exit_code == 1
    assert "it is written in Python" in of_python.stderr or "is not an SQL database" in of_python.stderr
    through = tally("rebuild", filled, "shop_views:Counted", "--catalog", "shop_views:catalog")
    assert through.exit_code == 0, through.stderr
    assert "Python folds this summary: its types have upcasters" in through.stderr


@pytest.mark.parametrize("reference", ["shop_views", "shop_views:Nothing", "no_such_module:X", "shop_views:fine"])
def test_what_is_no_projection_is_said(tally, filled, reference):
    """Status 1 or 2, one message, no stack trace."""
    result = tally("project", filled, reference)
    assert result.exit_code in (1, 2)
    assert "Traceback" not in result.stderr
    assert "error" in result.stderr


def test_a_runner_follows_beside_a_writer(filled):
    """CP-08, CP-13: --follow keeps the rows current while another process appends; Ctrl-C ends it with status 0."""
    script = "from tallystick.cli.main import main; main()"
    command = [sys.executable, "-c", script, "project", filled, "shop_views:Visits", "--follow", "--json"]
    with tallystick.open(filled) as store:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        runner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            assert runner.stdout is not None
            assert '"position":3' in runner.stdout.readline()
            done = store.append("shop/1", NewEvent("visit", {"who": "eve"}, version=2))
            assert ViewReader(store, "Visits").wait_for(done.position, timeout=60) == done.position
            runner.send_signal(signal.SIGINT)
            assert runner.wait(60) == 0
        finally:
            runner.kill()
            runner.communicate()


def _fail(event: tallystick.Event) -> None:
    raise ValueError("no such address")


def test_dead_letters_that_vanished_are_missed_until_they_are_counted_again(tally, filled, lines):
    """SAFE-01: the list is refused, verify and doctor name it, and --recount records it."""
    with tallystick.open(filled) as store:
        Consumer(store, "mailer", _fail, attempts=1).catch_up()
    assert tally("verify", filled).exit_code == 0
    tamper.tamper_beside(filled, "DELETE FROM dead_letters WHERE position = 2")
    assert tally("deadletters", filled).exit_code == 1
    for command in ("verify", "doctor"):
        named = tally(command, filled)
        assert (named.exit_code, "3 were stored, 2 were found" in named.stdout) == (1, True)
    assert tally("deadletters", filled, "--recount", "--drop", "1").exit_code == 2
    (recounted,) = lines(tally("deadletters", filled, "--recount", "--json"))
    assert (recounted["kept"], recounted["found"]) == (3, 2)
    assert [found["position"] for found in lines(tally("deadletters", filled, "--json"))] == [1, 3]
    assert "tally.letters.recounted" in tally("audit", filled).stdout
    assert tally("verify", filled).exit_code == 0


def test_rows_that_vanished_are_named(tally, filled):
    """SAFE-01: verify and doctor name the projection; appends still work."""
    with tallystick.open(filled) as store:
        store.append("run/more", NewEvent("thing.happened", {}))
        Live(store, EventCount()).catch_up()
    tamper.tamper_beside(filled, "DELETE FROM view_rows")
    for command in ("verify", "doctor"):
        named = tally(command, filled)
        assert (named.exit_code, "the rows of projection 'EventCount'" in named.stdout) == (1, True)
    with tallystick.open(filled) as store:
        store.append("run/more", NewEvent("thing.happened", {}))


def test_dead_letters_are_listed_replayed_and_dropped(tally, filled, lines):
    """CP-07: an operator lists, replays or drops them."""
    with tallystick.open(filled) as store:
        Consumer(store, "mailer", _fail, attempts=1).catch_up()
    shown = tally("deadletters", filled)
    assert "no such address" in shown.stdout
    assert [found["position"] for found in lines(tally("deadletters", filled, "--json"))] == [1, 2, 3]
    assert lines(tally("deadletters", filled, "--consumer", "other", "--json")) == []
    chosen = ("deadletters", filled, "--consumer", "mailer")
    replayed = tally(*chosen, "--replay", "1", "--handler", "shop_views:fine")
    assert (replayed.exit_code, "handled 1" in replayed.stdout) == (0, True)
    failed = tally(*chosen, "--replay", "2", "--handler", "shop_views:bad")
    assert (failed.exit_code, "shop_views:bad" in failed.stderr, "internal" in failed.stderr) == (1, True, False)
    assert tally("deadletters", filled, "--handler", "shop_views:fine").exit_code == 2
    (dropped,) = lines(tally(*chosen, "--drop", "3", "--json"))
    assert dropped == {"done": "dropped", "consumer": "mailer", "position": 3}
    assert tally(*chosen, "--drop", "3").exit_code == 1
    assert [found["position"] for found in lines(tally(*chosen, "--json"))] == [2]
    assert tally("deadletters", filled, "--drop", "2").exit_code == 2

"""`tally pipeline …`: thin commands over the jobs, in this process and over the session that is running."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

import tallystick
from tallystick import state
from tallystick.cli.main import tally as group

MakeLog = Callable[..., None]

CODE = """
from tallystick.projections import Projection
from tallystick.state import reducer

class Paid(Projection):
    types = ("order.paid",)
    key = "payload.customer_id"
    def initial(self):
        return {"cents": 0}
    def apply(self, state, event):
        return {"cents": state["cents"] + event.data["cents"]}

class PaidTwice(Paid):
    def apply(self, state, event):
        return {"cents": state["cents"] + 2 * event.data["cents"]}

@reducer(name="shop.count", initial={"events": 0})
def count(state, event):
    return {"events": state["events"] + 1}
"""


@pytest.fixture
def tally(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run `tally` with arguments, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shop_of_the_pipeline.py").write_text(CODE)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(group, list(arguments), prog_name="tally")

    return run


def answer(done: Result) -> dict[str, Any]:
    """The document that a command printed."""
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_job_from_the_command_line(tally: Callable[..., Result], make_log: MakeLog) -> None:
    """PIPE-02 to PIPE-08, PIPE-10: each job answers in JSON and exits as it must."""
    make_log("files:log", events=40)
    with tallystick.open("files:log") as store:
        reducer = state.load("shop_of_the_pipeline:count")
        state.seal(store, reducer, "order/o1")
    assert answer(tally("pipeline", "archive", "files:log", "archive", "--json"))["events"] == 41
    verified = tally("pipeline", "verify", "files:log", "--archive", "archive", "--json")
    assert (answer(verified)["ok"], verified.exit_code) == (True, 0)
    made = answer(tally("pipeline", "rebuild", "files:log", "shop_of_the_pipeline:Paid", "--json"))
    assert (made["on"], made["position"]) == ("spark", 41)
    again = answer(tally("pipeline", "rebuild", "files:log", "shop_of_the_pipeline:Paid", "--on", "process", "--json"))
    assert again["fingerprint"] == made["fingerprint"]
    options = ("--reducer", "shop_of_the_pipeline:count", "--json")
    assert answer(tally("pipeline", "replay-check", "files:log", *options))["same"] == 1
    pair = ("shop_of_the_pipeline:Paid", "shop_of_the_pipeline:PaidTwice")
    compared = tally("pipeline", "diff", "files:log", *pair, "--json")
    assert compared.exit_code == 1
    assert answer(compared)["differing"] == made["rows"]
    assert answer(tally("pipeline", "compact", "archive", "--json"))["ok"]
    grown = tally("pipeline", "growth", "files:log", "--page", "growth.html")
    assert "order.paid" in grown.stdout
    assert Path("growth.html").exists()
    asked = answer(tally("pipeline", "sql", "files:log", "select count(*) as n from events", "--json"))
    assert asked == {"n": 41}
    streamed = tally("pipeline", "stream", "files:log", "shop_of_the_pipeline:Paid", "--checkpoint", "c", "--json")
    assert answer(streamed)["position"] == 41


def test_a_job_over_nothing_says_so_in_one_line(tally: Callable[..., Result]) -> None:
    """PIPE-01: a missing store is an error with advice and exit status 2, and no trace."""
    done = tally("pipeline", "verify", "files:nothing")
    assert done.exit_code == 2
    assert "there is no store" in done.stderr
    assert "Traceback" not in done.stderr

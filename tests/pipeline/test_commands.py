"""`tally pipeline …`: thin commands over the jobs, run in this process with its Spark session."""

from __future__ import annotations

import json
import subprocess
import sys
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
    """Run `tally` with arguments, in its own directory."""
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
    """PIPE-02 to PIPE-08, PIPE-10: each job prints JSON and has the right exit status."""
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


def test_a_rebuild_says_where_it_runs_and_why(
    tally: Callable[..., Result], make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-04, CP-08: the size of the log, or the option, decides where it runs; the rows are the same."""
    make_log("files:log", events=30)
    rebuild = ("rebuild", "files:log", "shop_of_the_pipeline:Paid", "--json")
    monkeypatch.setattr("tallystick.projections.crossover.CROSSOVER_EVENTS", 31)
    small = tally(*rebuild)
    assert "the log has 30 events, and Spark is faster from 31 on" in small.stderr
    monkeypatch.setattr("tallystick.projections.crossover.CROSSOVER_EVENTS", 30)
    large = tally(*rebuild)
    assert "on spark: the log has 30 events, and Spark is faster from 30 on" in large.stderr
    made = [answer(done) for done in (small, large, tally(*rebuild, "--on", "process"))]
    assert [item["on"] for item in made] == ["process", "spark", "process"]
    assert len({item["fingerprint"] for item in made}) == 1
    with tallystick.open("files:log", readonly=True) as store:
        (place,) = store.log.views.places()
        assert place.epoch == 3


def test_without_spark_a_rebuild_says_what_to_install(make_log: MakeLog, tmp_path: Path) -> None:
    """PIPE-04: without Spark installed, `--on spark` gives exit status 2 and the name of the extra, without a trace."""
    make_log(f"files:{tmp_path}/log", events=3)
    (tmp_path / "shop_without_spark.py").write_text(CODE)
    code = "import sys; sys.modules['pyspark'] = None; from tallystick.cli.main import main; sys.exit(main())"
    arguments = ["rebuild", "files:log", "shop_without_spark:Paid", "--on", "spark"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "tallystick[spark]" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_prune_by_the_archive_from_the_command_line(tally: Callable[..., Result], make_log: MakeLog) -> None:
    """PIPE-06: refused without the archive, done with it; retention accepts it too."""
    make_log("files:log", events=30)
    tally("pipeline", "archive", "files:log", "archive")
    prune = ("prune", "files:log", "order/o1", "--before", "3", "--reducer", "shop_of_the_pipeline:count", "--snapshot")
    assert tally(*prune).exit_code == 1
    done = answer(tally(*prune, "--archive", "archive", "--json"))
    assert (done["count"], done["pruned"], done["archived"]) == (2, True, True)
    kept = tally("retain", "files:log", "--archive", "archive", "--preset", "reach", "--json")
    assert kept.exit_code == 0, kept.stderr


def test_a_job_over_nothing_says_so_in_one_line(tally: Callable[..., Result]) -> None:
    """PIPE-01: a missing store gives an error with advice and exit status 2, without a trace."""
    done = tally("pipeline", "verify", "files:nothing")
    assert done.exit_code == 2
    assert "there is no store" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_archive_in_a_store_from_the_command_line(
    tally: Callable[..., Result], make_log: MakeLog, bucket_url: str
) -> None:
    """PIPE-02, PIPE-03: an archive may be a URL; an unknown URL is refused in one line."""
    make_log("files:log", events=20)
    assert answer(tally("pipeline", "archive", "files:log", bucket_url, "--json"))["events"] == 20
    assert tally("pipeline", "verify", "files:log", "--archive", bucket_url).exit_code == 0
    assert answer(tally("pipeline", "compact", bucket_url, "--json"))["buckets_after"] == 1
    refused = tally("pipeline", "archive", "files:log", "ftp://host/x")
    assert refused.exit_code == 1
    assert "'ftp://host/x'" in refused.stderr
    assert "Traceback" not in refused.stderr

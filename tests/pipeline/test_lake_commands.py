"""`tally pipeline lake …`: its output and exit status. No Java is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tallystick
from tallystick import state
from tallystick.cli.main import tally as group
from tests.pipeline.lake_tables import rewrite

MakeLog = Callable[..., None]
CODE = """
from tallystick.projections import Projection

class Spent(Projection):
    types = ("order.paid",)
    key = "payload.customer_id"
    def initial(self):
        return {"cents": 0}
    def apply(self, state, event):
        return {"cents": state["cents"] + event.data["cents"]}
"""


@pytest.fixture
def tally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run `tally` with arguments, in its own directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shop_of_the_lake.py").write_text(CODE)
    return lambda *given: CliRunner().invoke(group, list(given), prog_name="tally")


def test_a_table_from_the_command_line(
    tally: Callable[..., Result], files_url: str, make_log: MakeLog, tmp_path: Path
) -> None:
    """PIPE-02, PIPE-03: create, append, verify and erase; damage gives exit status 1, a wrong place 2."""
    make_log(files_url, events=30)
    lake = ("pipeline", "lake")
    assert tally(*lake, "append", files_url, "table").exit_code == 2
    made = tally(*lake, "append", files_url, "table", "--format", "delta", "--buckets", "2", "--commit", "20")
    assert made.exit_code == 0, made.output
    assert "appended 30 events in 2 commits" in made.stdout
    assert "ok: 30 events in" in tally(*lake, "verify", files_url, "table").stdout
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 1, reason="asked")
    later = tally(*lake, "append", files_url, "table")
    assert "1 erased payloads removed" in later.stdout
    assert "--forget removes them" in later.stderr
    done = json.loads(tally(*lake, "append", files_url, "table", "--forget", "--json").stdout)
    assert (done["left"], done["removed"], done["format"]) == (0, 1, "delta")
    rewrite(tmp_path / "table", "delta", lambda rows: rows.slice(1))
    found = tally(*lake, "verify", files_url, "table")
    assert found.exit_code == 1
    assert "the table does not have this event" in found.stdout
    assert not json.loads(tally(*lake, "verify", files_url, "table", "--json").stdout)["ok"]
    assert tally(*lake, "verify", files_url, "nowhere").exit_code == 2


def test_rows_from_the_command_line(tally: Callable[..., Result], files_url: str, make_log: MakeLog) -> None:
    """PIPE-04: write the rows of a projection, and verify them."""
    make_log(files_url, events=30)
    assert tally("project", files_url, "shop_of_the_lake:Spent").exit_code == 0
    made = tally("pipeline", "lake", "rows", files_url, "Spent", "rows", "--format", "iceberg")
    assert made.exit_code == 0, made.output
    assert "rows of Spent at position 30" in made.stdout
    assert "already has" in tally("pipeline", "lake", "rows", files_url, "Spent", "rows").stdout
    assert "rows of Spent at position 30" in tally("pipeline", "lake", "verify", files_url, "rows").stdout
    assert tally("pipeline", "lake", "rows", files_url, "Nobody", "other", "--format", "delta").exit_code != 0
    assert tally("pipeline", "lake", "append", files_url, "rows").exit_code == 1


def test_no_java_is_started(files_url: str, make_log: MakeLog, tmp_path: Path) -> None:
    """PIPE-02: a machine without Java appends and verifies."""
    make_log(files_url, events=10)
    surroundings = {"PATH": "/nowhere", "JAVA_HOME": "/nowhere", "PYTHONPATH": ":".join(sys.path)}
    surroundings |= {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
    run = "from tallystick.cli.main import main; main()"
    for name, more, said in (("append", ["--format", "iceberg"], "appended 10"), ("verify", [], "ok: 10 events")):
        call = [sys.executable, "-c", run, "pipeline", "lake", name, files_url, f"{tmp_path}/t", *more]
        done = subprocess.run(call, env=surroundings, capture_output=True, text=True, check=False)
        assert said in done.stdout, done.stderr

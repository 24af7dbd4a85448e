"""Every kind of damage is refilled from a copy and from an export, by hand, by itself and by the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tallystick
from tallystick import NewEvent, errors
from tallystick.cli.main import tally
from tallystick.store import control
from tallystick.store.verify import verify


@pytest.mark.parametrize("kind", ["copy", "export"])
def test_what_is_damaged_is_refilled(
    lab: Any, damage: Callable[[Path], None], kind: str, log: Path, request: pytest.FixtureRequest
) -> None:
    """LH-16, settled 15: from a copy or an export the same events come back, verified, and the log is writable."""
    donor: Path = request.getfixturevalue(kind)
    before = lab.content(log)
    damage(log)
    damaged = {path.name: path.read_bytes() for path in log.glob("*.log")}
    refilled = tallystick.refill(f"files:{log}", f"files:{donor}" if kind == "copy" else str(donor))
    assert refilled.made
    assert lab.content(log) == before
    with tallystick.open(f"files:{log}") as store:
        (fact,) = store.read_stream(control.REPAIRS_STREAM)
        assert (fact.type, fact.data["source"]) == (control.REPAIRED, refilled.source)
        store.append("order/0", NewEvent("thing.happened", {"after": 1}, meta={"source": "s"}))
        with pytest.raises(errors.OrgMismatch):
            store.append("order/0", NewEvent("thing.happened", {}, meta={"org": "other"}))
        assert verify(store.log).problems == []
    kept = [path.read_bytes() for path in [*log.glob("quarantine/*"), *log.glob("*.log")]]
    for name, data in damaged.items():  # what was whole may have grown since
        assert any(path.startswith(data) for path in kept), f"{name} was thrown away"


def test_opening_refills_by_itself(lab: Any, log: Path, copy: Path) -> None:
    """Settled 15: with a donor named, what opening finds damaged is refilled without an operator."""
    before = lab.content(log)
    lab.damages["missing_segment"](log)
    with tallystick.open(f"files:{log}", refill_from=f"files:{copy}") as store:
        assert store.holes() == []
        store.append("order/0", NewEvent("thing.happened", {}))
    assert lab.content(log)[: len(before)] == before


def test_doctor_refills(lab: Any, log: Path, export: Path) -> None:
    """`tally doctor --repair --from` refills, says so, and ends with 0; a donor that lacks something ends with 1."""
    lab.damages["hole_in_the_middle"](log)
    short = export.with_name("short.ndjson")
    short.write_bytes(export.read_bytes()[:2000])
    run = CliRunner()
    refused = run.invoke(tally, ["doctor", f"files:{log}", "--repair", "--from", str(short)])
    assert refused.exit_code == (2 if "not an export" in refused.output else 1), refused.output
    done = run.invoke(tally, ["doctor", f"files:{log}", "--repair", "--from", str(export)])
    assert done.exit_code == 0, done.output
    assert "refilled: positions" in done.output
    as_json = run.invoke(tally, ["doctor", f"files:{log}", "--repair", "--from", str(export), "--json"])
    assert json.loads(as_json.output)["refilled"]["made"] == []
    assert run.invoke(tally, ["doctor", f"files:{log}", "--from", str(export)]).exit_code == 2

"""What a run leaves behind: the table, the JSON document, the exit status."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from bench import report, run
from bench.harness import Bar, Case, Row, Spec, measures


def synthetic(*, figure: float, bar: Bar | None = None) -> Case:
    spec = Spec(name="synthetic: rows", unit="events/s", against="peer", bar=bar, note="nothing is equal")
    return measures(spec)(lambda workshop: [spec.row(figure, 100.0)])


@pytest.fixture(autouse=True)
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Documents of tests do not overwrite those of real runs."""
    monkeypatch.setattr(report, "OUT", tmp_path)
    return tmp_path


def test_the_document_has_the_documented_shape(out: Path) -> None:
    """machine, and rows with name, unit, value, against, against_value, ratio, bar, note; nothing more."""
    assert run.main(["--quick"], cases=[synthetic(figure=80.0, bar=Bar("ratio", ">=", 0.6))], name="shape") == 0
    document = json.loads((out / "shape.json").read_text())
    assert set(document) == {"machine", "rows"}
    assert {"cores", "python", "system", "memory_mb", "quick"} <= set(document["machine"])
    assert document["rows"] == [
        {
            "name": "synthetic: rows",
            "unit": "events/s",
            "value": 80.0,
            "against": "peer",
            "against_value": 100.0,
            "ratio": 0.8,
            "bar": {"of": "ratio", "op": ">=", "figure": 0.6},
            "note": "nothing is equal",
        }
    ]


def test_a_missed_bar_makes_exit_status_1_and_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever runs the benchmark in a script notices a bar that is missed, and so does whoever reads the table."""
    cases = [synthetic(figure=80.0, bar=Bar("ratio", ">=", 0.9))]
    assert run.main(["--quick"], cases=cases, name="missed") == 1
    assert "MISSED" in capsys.readouterr().out


def test_bars_that_are_met_make_exit_status_0() -> None:
    """A good run ends with 0, rows without a bar included."""
    assert run.main(["--quick"], cases=[synthetic(figure=1.0)], name="met") == 0


def test_only_restricts_the_run_to_matching_rows(out: Path) -> None:
    """`--only` takes a regular expression; what does not match is neither run nor judged."""
    cases = [synthetic(figure=1.0, bar=Bar("value", ">=", 99))]
    assert run.main(["--only", "^files:"], cases=cases, name="only") == 0
    assert json.loads((out / "only.json").read_text())["rows"] == []


def test_a_row_that_could_not_be_measured_is_written_with_null_and_fails(out: Path) -> None:
    """What was not measured is not passed over in silence."""
    row = Spec(name="gone", unit="s").failed("no such peer")
    assert report.exit_status([row]) == 1
    report.write("gone", {}, [row])
    assert json.loads((out / "gone.json").read_text())["rows"][0]["value"] is None


def test_the_table_shows_every_row_with_its_note() -> None:
    """Name, value with unit, peer, ratio, bar, and what is unequal about it."""
    rows = [Row(name="a [row]", unit="ms", value=0.25, against="raw", against_value=0.2, ratio=1.25, note="unequal")]
    text = io.StringIO()
    report.show(rows, console=Console(file=text, width=120), title="title")
    for piece in ("a [row]", "0.250 ms", "raw 0.200", "1.25 x", "unequal"):
        assert piece in text.getvalue()

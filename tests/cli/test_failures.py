"""What a user sees when something unexpected happens."""

from __future__ import annotations

import json

import pytest

import tallystick
from tallystick.cli import output, times


@pytest.fixture
def broken(monkeypatch):
    """A store that fails in an unexpected way."""

    def fail(*arguments, **options):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(tallystick, "open", fail)


def test_a_bug_is_one_line_and_a_hint(tally, broken, monkeypatch):
    """No stack trace reaches a user: one line, a hint, exit 2."""
    monkeypatch.delenv("TALLY_DEBUG", raising=False)
    result = tally("read", "memory:")
    assert result.exit_code == 2
    assert result.stderr == "internal error: ZeroDivisionError: a bug\n  Set TALLY_DEBUG=1 to see the trace.\n"


def test_the_trace_is_there_for_those_who_ask(tally, broken, monkeypatch):
    """TALLY_DEBUG=1 adds the trace."""
    monkeypatch.setenv("TALLY_DEBUG", "1")
    assert "Traceback" in tally("read", "memory:").stderr


def test_a_bug_is_json_if_json_was_asked_for(tally, broken):
    """With --json an internal error is one JSON object."""
    assert json.loads(tally("read", "memory:", "--json").stderr)["error"] == "InternalError"


def test_usage_is_json_if_json_was_asked_for(tally):
    """With --json a usage error is one JSON object."""
    assert json.loads(tally("read", "--json").stderr)["error"] == "Usage"


def test_a_directory_that_cannot_be_written_is_said_plainly(tally, tmp_path):
    """An error of the system is a message, not a trace."""
    (tmp_path / "file").write_text("")
    result = tally("append", "files:file/log", "order/1", "order.placed")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


def test_large_events_are_stored_with_a_warning_line(tally, recwarn):
    """LH-04: past the advisory limit the event is stored, and one line on stderr says so."""
    payload = json.dumps({"text": "x" * 70_000})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONWARNINGS", "default")
        result = tally("append", "sqlite:a.db", "order/1", "order.placed", "-", stdin=payload)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: event 0 (order.placed) has 700")


@pytest.mark.parametrize(
    ("given", "time_ns"),
    [
        ("0", 0),
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01T01:00:00.5+01:00", 500_000_000),
        ("2026-11-15T08:25:58.123456789Z", 1794731158123456789),
    ],
)
def test_times_are_read_to_the_nanosecond(given, time_ns):
    """RFC 3339, dates and plain numbers are accepted, in UTC unless they name another zone."""
    assert times.from_text(given) == time_ns
    assert times.from_text(times.to_text(time_ns)) == time_ns


def test_sizes_are_for_people():
    """Sizes are printed with a fitting unit."""
    assert [output.size(n) for n in (0, 1023, 1024, 1536, 5 << 30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "5.0 GiB",
    ]

"""Moving logs: between engines, from golden files, and through a kill in the middle."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

import tallystick
from tallystick import moving
from tallystick.testing import upkeep
from tallystick.testing.builders import events

GOLDEN = Path(__file__).parents[1] / "golden" / "chain.json"
OTHER = {"files:log": "sqlite:other.db", "sqlite:log.db": "files:other"}
KEYS = ("stream", "seq", "type", "version", "id", "time", "meta", "payload", "checksum", "previous", "link")


def golden_lines() -> list[dict]:
    events = json.loads(GOLDEN.read_text(encoding="utf-8"))["events"]
    return [{key: event[key] for key in KEYS} for event in events]


def as_text(events: list[dict]) -> str:
    return "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)


def test_golden_events_get_their_golden_hashes(tally, url):
    """The same events imported into any engine export with the checksum and link of the golden file."""
    given = golden_lines()
    bare = [{key: value for key, value in event.items() if key not in ("checksum", "link", "seq")} for event in given]
    done = tally("import", url, "-", stdin=as_text(bare))
    assert done.returncode == 0, done.stderr
    found = events_of(tally, url)
    assert [(e["stream"], e["seq"], e["checksum"], e["link"]) for e in found] == [
        (e["stream"], e["seq"], e["checksum"], e["link"]) for e in given
    ]


def test_golden_claims_are_accepted(tally, url):
    """The golden lines with their own seq, checksum and link pass the check of claims."""
    done = tally("import", url, "-", "--json", stdin=as_text(golden_lines()))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["imported"] == len(golden_lines())


def test_a_log_moves_to_the_other_engine_and_stays_the_same(tally, url):
    """Export, import, export: every byte is equal, both ways."""
    line = '{"stream":"order/%d","type":"order.placed","payload":{"n":%d,"é":[1.0,-0.0,null]},"meta":{"org":"a"}}\n'
    tally("import", url, "-", "--batch", "70", stdin="".join(line % (n % 7, n) for n in range(500)))
    exported = tally("export", url).stdout
    assert len(exported.splitlines()) == 500
    assert tally("import", OTHER[url], "-", "--batch", "90", stdin=exported).returncode == 0
    assert tally("export", OTHER[url]).stdout == exported
    assert tally("verify", OTHER[url]).returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_an_import_killed_in_the_middle_is_run_again(tally, start, tmp_path, head_of, url):
    """LH-19: after kill -9 and a second run, every line is there once and in order."""
    form = '{"stream":"order/%d","type":"order.placed","payload":{"n":%d},"id":"0199b000-0000-7000-8000-%012x"}\n'
    (tmp_path / "in.ndjson").write_text("".join(form % (n % 5, n, n) for n in range(5000)))
    first = start("import", url, "in.ndjson", "--batch", "5")
    while head_of(url) < 100:
        assert first.poll() is None
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = len(events_of(tally, url))
    assert 100 <= before < 5000
    assert before % 5 == 0  # batches are whole
    done = tally("import", url, "in.ndjson", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["skipped"] >= before  # recovery may have found a last batch that no reader was shown yet
    assert answer["skipped"] % 5 == 0
    assert answer["skipped"] + answer["imported"] == 5000
    assert [event["payload"]["n"] for event in events_of(tally, url)] == list(range(5000))
    assert tally("verify", url).returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_move_killed_in_the_middle_is_run_again(tally, start, tmp_path, head_of, url):
    """SAFE-06: after kill -9 and a second run the copy is the same log, with its pruned and erased parts."""
    with tallystick.open(f"sqlite:{tmp_path}/origin.db") as origin:
        for number in range(40):
            origin.append(f"order/{number % 8}", events(50))
        for number in range(6):
            upkeep.erase(origin, f"order/{number}", 60)
            upkeep.prune(origin, f"order/{number}", 55)
        wanted = [line.rstrip(b"\n") for line in moving.export(origin, whole=True)]
    (tmp_path / "out.ndjson").write_bytes(b"\n".join(wanted) + b"\n")
    first = start("import", url, "out.ndjson", "--batch", "5")
    while head_of(url) < 400:
        assert first.poll() is None
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert 400 <= head_of(url) < 2000
    done = tally("import", url, "out.ndjson", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["skipped"] > 0
    assert tally("verify", url).returncode == 0
    assert tally("export", url).stdout.encode().splitlines()[1:-1] == wanted[1:-1]


def events_of(tally, url: str) -> list[dict]:
    """The exported events, without control facts."""
    found = [json.loads(line) for line in tally("export", url).stdout.split("\n") if line]
    return [event for event in found if not event["stream"].startswith("tally.")]

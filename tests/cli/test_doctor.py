"""`tally verify`, `doctor` and `migrate`."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest


@pytest.fixture
def filled(tally, url):
    """A store with 20 events."""
    line = '{"stream":"order/%d","type":"order.placed","payload":{"text":"a payload to be damaged %d"}}\n'
    tally("import", url, "-", stdin="".join(line % (n % 3, n) for n in range(20)))
    return url


def flip_a_payload(path: Path) -> None:
    """Change one byte of a stored payload on disk."""
    data = bytearray(path.read_bytes())
    place = data.index(b"to be damaged 7")
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_list_of_streams_over_a_hole_is_no_whole_answer(tally, tmp_path, more):
    """SAFE-05: the streams that are left are listed, the damaged range is named, and the exit status is 1."""
    for number in range(3):
        tally("append", "files:log", f"order/{number}", "order.placed", "{}")
    flip = tmp_path / "log" / "current.log"
    data = bytearray(flip.read_bytes())
    data[data.index(b"order/1") + 20] ^= 1
    flip.write_bytes(data)
    (tmp_path / "log" / "index" / "current.idx").unlink(missing_ok=True)
    listed = tally("streams", "files:log", *more)
    assert listed.exit_code == 1
    assert "order/2" in listed.stdout
    assert "a stream may be missing or shorter: positions 2 to 2" in listed.stderr


def test_verify_says_yes_of_a_good_store(tally, filled):
    """Exit 0, and the counts."""
    result = tally("verify", filled, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert len(found.pop("store_id")) == 32
    assert found == {
        "ok": True,
        "url": filled,
        "events": 20,
        "streams": 3,
        "erased": 0,
        "pruned": 0,
        "snapshots": 0,
        "head": 20,
        "truncated": False,
        "unrecorded": "",
        "accepted": [],
        "problems": [],
    }
    assert tally("verify", filled).stdout == "ok: 20 events in 3 streams, head 20\n"


def test_verify_finds_a_changed_payload_in_sqlite(tally):
    """A byte that was changed in the file is found, with its position, stream and seq."""
    line = '{"stream":"order/%d","type":"order.placed","payload":{"text":"to be damaged %d"}}\n'
    tally("import", "sqlite:a.db", "-", stdin="".join(line % (n % 3, n) for n in range(20)))
    with sqlite3.connect("a.db") as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    flip_a_payload(Path("a.db"))
    result = tally("verify", "sqlite:a.db", "--json")
    assert result.exit_code == 1
    problems = json.loads(result.stdout)["problems"]
    assert [(item["what"], item["position"], item["stream"], item["seq"]) for item in problems] == [
        ("checksum", 8, "order/1", 3)
    ]
    shown = tally("verify", "sqlite:a.db")
    assert shown.exit_code == 1
    assert "order/1" in shown.stdout
    assert "1 problem in 20 events" in shown.stdout


def test_verify_and_doctor_find_a_damaged_file_log(tally):
    """A byte that was changed in the middle of a file log is damage: both report it and exit with 1."""
    line = '{"stream":"order/%d","type":"order.placed","payload":{"text":"to be damaged %d"}}\n'
    tally("import", "files:log", "-", "--batch", "4", stdin="".join(line % (n % 3, n) for n in range(20)))
    flip_a_payload(Path("log/current.log"))
    verified = tally("verify", "files:log", "--json")
    assert verified.exit_code == 1
    assert [item["what"] for item in json.loads(verified.stdout)["problems"]].count("hole") == 1
    examined = tally("doctor", "files:log", "--json")
    assert examined.exit_code == 1
    assert [(hole["first"], hole["last"]) for hole in json.loads(examined.stdout)["holes"]] == [(5, 8)]
    assert "damaged: positions 5 to 8" in tally("doctor", "files:log").stdout
    exported = tally("export", "files:log", "--over-holes")
    assert exported.exit_code == 1
    assert len(exported.stdout.splitlines()) == 16
    assert "positions 5 to 8 are damaged" in exported.stderr
    stopped = tally("export", "files:log")
    assert (stopped.exit_code, len(stopped.stdout.splitlines())) == (1, 4)
    assert "error: positions 5 to 8 are damaged" in stopped.stderr


def test_doctor_shows_the_facts(tally, filled):
    """Engine, store id, head and the engine's own facts; exit 0 when nothing is wrong."""
    found = json.loads(tally("doctor", filled, "--json").stdout)
    assert found["ok"] is True
    assert (found["engine"], found["head"], found["profile"]) == (filled.partition(":")[0], 20, "plain")
    assert found["facts"]
    shown = tally("doctor", filled)
    assert shown.exit_code == 0
    assert "nothing is wrong" in shown.stdout


def test_doctor_changes_nothing_unless_told(tally, filled, tmp_path):
    """Without --repair the files do not change, byte for byte."""
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "-shm" not in path.name}
    tally("doctor", filled)
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "-shm" not in path.name}
    assert {path: data for path, data in after.items() if path in before} == before


def test_repair_cuts_a_torn_tail_and_says_so(tally):
    """The torn tail of a file log is cut and reported; every complete event stays."""
    for number in range(3):
        tally("append", "files:log", "order/1", "order.placed", json.dumps({"n": number}))
    with open("log/current.log", "ab") as log:
        log.write(b"\x00half a frame")
    result = tally("doctor", "files:log", "--repair", "--json")
    assert json.loads(result.stdout)["recovered"]
    assert len(tally("export", "files:log").stdout.splitlines()) == 3 + len(
        tally("audit", "files:log").stdout.splitlines()
    )
    assert tally("verify", "files:log").exit_code == 0


def test_migrate_says_when_there_is_nothing_to_do(tally, filled):
    """A store of this version is not changed."""
    result = tally("migrate", filled)
    assert result.exit_code == 0
    assert result.stdout.startswith("nothing to do")
    assert json.loads(tally("migrate", filled, "--json").stdout)["migrated"] is False


def test_a_newer_store_is_not_touched(tally):
    """EVT-10: a database of a newer version is refused by every command."""
    tally("append", "sqlite:a.db", "order/1", "order.placed")
    database = sqlite3.connect("a.db")
    database.execute("PRAGMA user_version = 9999")
    database.close()
    for command in ("read", "migrate", "verify"):
        result = tally(command, "sqlite:a.db")
        assert result.exit_code == 2
        assert "9999" in result.stderr

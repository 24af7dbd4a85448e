"""snapshot.json: damaged by hand it is rebuilt; when the log is damaged too, the run fails with a blocker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tallystick import errors, runs
from tallystick.event import canonical
from tallystick.runs import recovery, schema, snapshot
from tallystick.store import control
from tallystick.store.facts import SEALED
from tallystick.store.verify import verify


@pytest.fixture
def place(shelf: Any, flow: Any) -> Path:
    """The directory of a run that has finished."""
    with shelf.open() as store:
        runs.start(store, flow, run="r", workspace=shelf.workspace, inputs=shelf.inputs)
    return Path(shelf.root, "log", "runs", "r")


def _changed(data: bytes, **changes: Any) -> bytes:
    document = json.loads(data)
    document.update(changes)
    return canonical.encode_state(document) + b"\n"


DAMAGE: dict[str, Any] = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "not UTF-8": lambda data: b"\xff" + data,
    "a flipped bit": lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
    "another state": lambda data: _changed(data, run_state="running"),
    "a state that is none": lambda data: _changed(data, run_state="splendid"),
    "a key too many": lambda data: _changed(data, extra=1),
    "a key missing": lambda data: canonical.encode_state({k: v for k, v in json.loads(data).items() if k != "issues"}),
    "ahead of the log": lambda data: _changed(data, seq=10_000),
    "of another run": lambda data: _changed(data, run_id="other"),
    "with spaces": lambda data: json.dumps(json.loads(data), indent=1).encode(),
    "gone": lambda data: None,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_snapshot_is_rebuilt_on_resume(shelf: Any, place: Path, flow: Any, damage: Any) -> None:
    """RUN-05: resume validates the snapshot and rebuilds it from the events, exactly."""
    path = place / snapshot.NAME
    whole = path.read_bytes()
    wrong = damage(whole)
    path.unlink() if wrong is None else path.write_bytes(wrong)
    with shelf.open() as store:
        assert not recovery.compare(store, "r", runs.load(store, "r").state).equal
        runs.resume(store, flow, "r")
    assert path.read_bytes() == whole


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_replay_says_what_is_wrong_and_puts_it_right(shelf: Any, place: Path, damage: Any) -> None:
    """RUN-04, RUN-05: a comparison names the difference; only a handle that may write repairs it."""
    path = place / snapshot.NAME
    whole = path.read_bytes()
    wrong = damage(whole)
    path.unlink() if wrong is None else path.write_bytes(wrong)
    with shelf.open(readonly=True) as store:
        found = runs.replay(store, "r")
        assert (found.equal, found.rewritten) == (False, False)
        assert found.reason
    with shelf.open() as store:
        assert runs.replay(store, "r").rewritten
        assert runs.replay(store, "r").equal
    assert path.read_bytes() == whole


def test_an_older_snapshot_is_no_damage(shelf: Any, place: Path, flow: Any) -> None:
    """RUN-04: a snapshot at an earlier event is compared with a replay up to that event."""
    with shelf.open() as store:
        older = snapshot.encode(runs.load(store, "r", until=20).state)
        (place / snapshot.NAME).write_bytes(older)
        found = runs.replay(store, "r")
        assert (found.equal, found.seq) == (True, 20)
        runs.resume(store, flow, "r")
        assert runs.replay(store, "r").seq == found.events


LOGS: dict[str, Any] = {
    "a changed byte": lambda data: data[:700] + b"#" + data[701:],
    "a line gone": lambda data: b"".join(data.splitlines(keepends=True)[:5] + data.splitlines(keepends=True)[6:]),
    "lines swapped": lambda data: b"".join(sorted(data.splitlines(keepends=True))),
    "cut in the middle": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "gone": lambda data: None,
}


@pytest.mark.parametrize("damage", LOGS.values(), ids=LOGS.keys())
@pytest.mark.parametrize("also", [False, True], ids=["snapshot whole", "snapshot damaged too"])
def test_a_damaged_log_fails_the_run_with_a_blocker(
    shelf: Any, place: Path, flow: Any, damage: Any, also: bool
) -> None:
    """RUN-05, settled 22: refused by name; the log is left as it is, the blocker stands beside it and in the audit."""
    log = place / "events.ndjson"
    wrong = damage(log.read_bytes())
    log.unlink() if wrong is None else log.write_bytes(wrong)
    if also:
        (place / snapshot.NAME).write_bytes(b"{}")
    with shelf.open() as store:
        with pytest.raises(errors.SnapshotInvalid, match="'r'"):
            runs.resume(store, flow, "r")
        facts = [fact for fact in control.audit(store.log) if fact.type != SEALED]
        assert [(fact.type, fact.data["stream"], fact.data["code"]) for fact in facts] == [
            ("tally.run.failed", "run/r", "SnapshotInvalid")
        ]
    assert (log.read_bytes() if log.exists() else None) == wrong
    document = json.loads((place / snapshot.NAME).read_bytes())
    schema.check("snapshot", document)
    blocker = document["issues"][-1]
    assert (document["run_state"], blocker["code"], blocker["severity"]) == ("failed", "SnapshotInvalid", "blocker")
    assert json.loads((place / snapshot.FAILURE).read_bytes())["issue"]["code"] == "SnapshotInvalid"


def test_a_restored_log_brings_the_run_back(shelf: Any, place: Path, flow: Any) -> None:
    """RUN-05: what was failed for want of its log resumes once the log is there again."""
    log = place / "events.ndjson"
    whole, state = log.read_bytes(), (place / snapshot.NAME).read_bytes()
    log.write_bytes(LOGS["a changed byte"](whole))
    with shelf.open() as store, pytest.raises(errors.SnapshotInvalid):
        runs.resume(store, flow, "r")
    log.write_bytes(whole)
    with shelf.open() as store:
        runs.resume(store, flow, "r")
        assert verify(store.log).ok
    assert (place / snapshot.NAME).read_bytes() == state


def test_a_log_and_its_mark_gone_is_a_missing_log(shelf: Any, place: Path, flow: Any) -> None:
    """RUN-05, settled 22: only the snapshot is left, so the run fails, and does not begin anew."""
    for name in ("events.ndjson", "synced"):
        (place / name).unlink()
    with shelf.open() as store, pytest.raises(errors.SnapshotInvalid, match="missing"):
        runs.resume(store, flow, "r")
    assert json.loads((place / snapshot.NAME).read_bytes())["run_state"] == "failed"


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"seq": "1"}, "/seq"),
        ({"whole": "x"}, "/whole"),
        ({"payload": {"node": "a"}}, "/payload"),
        ({"meta": {}}, "/meta"),
        ({"stream": "run/../x"}, "/stream"),
        ({"extra": 1}, ""),
    ],
)
def test_a_bad_line_is_refused_with_its_place(shelf: Any, place: Path, document: dict[str, Any], pointer: str) -> None:
    """RUN-01: the schema of a line is strict about the envelope and about the payload of each type."""
    lines = [json.loads(line) for line in (place / "events.ndjson").read_bytes().splitlines()]
    line = next(line for line in lines if line["type"] == "NODE_FINISHED")
    schema.check("event", line)
    with pytest.raises(errors.SchemaViolation) as refused:
        schema.check("event", line | document)
    assert refused.value.pointer == pointer

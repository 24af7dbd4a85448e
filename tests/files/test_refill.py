"""Refilling damaged ranges of a file log from a copy, from another store and from an export."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import tallystick
from tallystick import NewEvent, errors
from tallystick.cli import ndjson
from tallystick.cli.main import tally
from tallystick.engines.files.place import refill_files
from tallystick.event.model import Event
from tallystick.store import control
from tallystick.store.refill import StoreDonor
from tallystick.store.verify import verify
from tallystick.testing import upkeep

SEGMENT_BYTES_MAX = 4096
EVENTS = 60


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed log of several segments: three streams, sources, a run with its lease, and an org."""
    directory = tmp_path_factory.mktemp("whole") / "log"
    with tallystick.open(f"files:{directory}", segment_bytes_max=SEGMENT_BYTES_MAX) as store:
        for number in range(EVENTS):
            meta = {"source": "s", "source_seq": number + 1} if number % 3 else {"org": "acme"}
            stream = f"order/{number % 3}" if number % 10 else "run/one"
            store.append(stream, NewEvent("thing.happened", {"number": number, "text": "x" * 100}, meta=meta))
    assert len(segments(directory)) >= 4
    return directory


@pytest.fixture
def log(whole: Path, directory: Path) -> Path:
    """That log, for one test."""
    return Path(shutil.copytree(whole, directory))


@pytest.fixture
def copy(log: Path) -> Path:
    """A copy of the log, made while it was whole."""
    return Path(shutil.copytree(log, log.with_name("copy")))


@pytest.fixture
def export(log: Path) -> Path:
    """An export of the log."""
    path = log.with_name("export.ndjson")
    with tallystick.open(f"files:{log}", readonly=True) as store:
        path.write_bytes(ndjson.lines(store.log.read(limit=1000).events))
    return path


def segments(directory: Path) -> list[Path]:
    """The sealed segments in order of their names."""
    return sorted(directory.glob("2*.log"))


def content(directory: Path) -> list[Event]:
    """Everything that a log holds but the facts about repairs; it must verify."""
    with tallystick.open(f"files:{directory}") as store:
        assert store.holes() == []
        assert verify(store.log).problems == []
        return [event for event in store.events(over_pruned=True) if event.stream != control.REPAIRS_STREAM]


def bitten(path: Path, *places: float) -> None:
    """Flip bits at these parts of a file."""
    data = bytearray(path.read_bytes())
    for place in places:
        data[int(place * len(data))] ^= 4
    path.write_bytes(data)


def hole_in_the_middle(log: Path) -> None:
    """Two frames of a sealed segment are damaged."""
    bitten(segments(log)[1], 0.3, 0.7)


def missing_segment(log: Path) -> None:
    """A sealed segment is gone."""
    segments(log)[1].unlink()


def missing_first_segment(log: Path) -> None:
    """The first segment is gone, and its index."""
    first = segments(log)[0]
    first.unlink()
    (log / "index" / first.with_suffix(".idx").name).unlink()


def two_missing_segments(log: Path) -> None:
    """Two segments that follow each other are gone."""
    for path in segments(log)[1:3]:
        path.unlink()


def shortened_segment(log: Path) -> None:
    """A sealed segment lost its second half."""
    path = segments(log)[2]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damaged_header(log: Path) -> None:
    """The header of a sealed segment cannot be read."""
    bitten(segments(log)[1], 0.0)


def damaged_current(log: Path) -> None:
    """A frame in the middle of current.log is damaged."""
    bitten(log / "current.log", 0.5)


def shortened_current(log: Path) -> None:
    """The end of current.log is gone, before the synced mark."""
    path = log / "current.log"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def headless_current(log: Path) -> None:
    """The header of current.log cannot be read."""
    bitten(log / "current.log", 0.0)


def missing_current(log: Path) -> None:
    """current.log is gone."""
    (log / "current.log").unlink()


def compressed(log: Path) -> Path:
    """The second segment, compressed."""
    with tallystick.open(f"files:{log}", segment_bytes_max=SEGMENT_BYTES_MAX) as store:
        assert store.log.reclaim(compress_before=1 << 62, progress=lambda done: None).done
    return segments(log)[1]


def damaged_member(log: Path) -> None:
    """A compressed segment is damaged in the middle."""
    bitten(compressed(log), 0.5)


def damaged_header_of_a_compressed_one(log: Path) -> None:
    """The header of a compressed segment cannot be read, so that nothing of it can."""
    bitten(compressed(log), 0.0)


def several(log: Path) -> None:
    """Much is wrong at once."""
    hole_in_the_middle(log)
    segments(log)[0].unlink()
    shortened_current(log)


DAMAGES: list[Callable[[Path], None]] = [
    hole_in_the_middle,
    missing_segment,
    missing_first_segment,
    two_missing_segments,
    shortened_segment,
    damaged_header,
    damaged_current,
    shortened_current,
    headless_current,
    missing_current,
    damaged_member,
    damaged_header_of_a_compressed_one,
    several,
]
damages = pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)


@damages
@pytest.mark.parametrize("kind", ["copy", "export"])
def test_what_is_damaged_is_refilled(
    damage: Callable[[Path], None], kind: str, log: Path, request: pytest.FixtureRequest
) -> None:
    """LH-16, settled 15: from a copy or an export the same events come back, verified, and the log is writable."""
    donor: Path = request.getfixturevalue(kind)
    before = content(log)
    damage(log)
    damaged = {path.name: path.read_bytes() for path in log.glob("*.log")}
    refilled = tallystick.refill(f"files:{log}", f"files:{donor}" if kind == "copy" else str(donor))
    assert refilled.made
    assert content(log) == before
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


@damages
def test_a_refill_that_lacks_something_changes_nothing(damage: Callable[[Path], None], log: Path, export: Path) -> None:
    """Settled 15: a donor must hold exactly the range; without one event of it nothing is done, and it is named."""
    before = content(log)
    damage(log)
    with tallystick.open(f"files:{log}", readonly=True) as store:
        page = store.read(limit=1000, over_holes=True)
    lost = sorted({event.position for event in before} - {event.position for event in page.events})
    lines = export.read_bytes().splitlines(keepends=True)
    if not lost:
        pytest.skip("no event was lost")
    del lines[lost[len(lost) // 2] - 1]
    export.write_bytes(b"".join(lines))
    image = {path: path.read_bytes() for path in log.rglob("*") if path.is_file()}
    if damage in (damaged_header, headless_current):  # every frame of it can still be read
        assert tallystick.refill(f"files:{log}", str(export)).events == 0
        assert content(log) == before
        return
    with pytest.raises(errors.RefillRefused, match=f"positions {lost[len(lost) // 2]} to"):
        tallystick.refill(f"files:{log}", str(export))
    assert image == {path: path.read_bytes() for path in log.rglob("*") if path.is_file()}


def changed(line: bytes, field: str) -> bytes:
    """A line of an export with another value in one field."""
    event = json.loads(line)
    if field == "payload":
        event["payload"]["number"] += 1
    elif field in ("checksum", "link"):
        event[field] = "ab" * 32
    elif field == "id":
        event["id"] = event["id"][:-2] + ("00" if event["id"][-2:] != "00" else "11")
    elif field == "stream":
        event["stream"] = "order/x"
    elif field == "meta":
        event["meta"] = {"tags": ["x"]}
    else:
        event[field] = event[field] + 1
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize("damage", [hole_in_the_middle, missing_segment, shortened_current])
@pytest.mark.parametrize("field", ["payload", "checksum", "link", "id", "seq", "stream", "meta", "time", "version"])
def test_a_donor_with_one_changed_event_is_refused(
    field: str, damage: Callable[[Path], None], log: Path, export: Path
) -> None:
    """Settled 15: checksum and chain of every event are compared with what is left; nothing is changed."""
    before = content(log)
    damage(log)
    with tallystick.open(f"files:{log}", readonly=True) as store:
        there = {event.position for event in store.read(limit=1000, over_holes=True).events}
    (first, *_) = [event.position for event in before if event.position not in there]
    lines = export.read_bytes().splitlines(keepends=True)
    lines[first - 1] = changed(lines[first - 1], field)
    export.write_bytes(b"".join(lines))
    image = {path: path.read_bytes() for path in log.rglob("*") if path.is_file()}
    with pytest.raises(errors.RefillRefused):
        tallystick.refill(f"files:{log}", str(export))
    assert image == {path: path.read_bytes() for path in log.rglob("*") if path.is_file()}


def test_another_store_is_refused(log: Path, tmp_path: Path) -> None:
    """Settled 15: a store with other events at these positions does not fit."""
    with tallystick.open(f"files:{tmp_path}/other") as other:
        for number in range(EVENTS):
            other.append("order/0", NewEvent("thing.happened", {"number": number}))
    missing_segment(log)
    with pytest.raises(errors.RefillRefused, match="does not follow"):
        tallystick.refill(f"files:{log}", f"files:{tmp_path}/other")


def test_a_fork_of_the_same_store_is_refused(log: Path, copy: Path) -> None:
    """Settled 15: a copy that went its own way has other events at the end, which our index does not know."""
    with tallystick.open(f"files:{log}") as store:
        store.append("order/new", NewEvent("thing.happened", {"ours": "x" * 500}))
    with tallystick.open(f"files:{copy}") as store:
        store.append("order/new", NewEvent("thing.happened", {"theirs": "x" * 500}))
    path = log / "current.log"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(errors.RefillRefused, match="does not know"):
        tallystick.refill(f"files:{log}", f"files:{copy}")


def test_what_is_whole_is_left_alone(log: Path, copy: Path) -> None:
    """A log without damage is not touched."""
    image = {path: path.read_bytes() for path in log.rglob("*.log")}
    assert tallystick.refill(f"files:{log}", f"files:{copy}").made == ()
    assert image == {path: path.read_bytes() for path in log.rglob("*.log")}


def test_an_erased_payload_does_not_come_back(log: Path, copy: Path, export: Path) -> None:
    """Settled 25: a donor still has the payload; it stays erased here, and is in no file of the store."""
    with tallystick.open(f"files:{log}", segment_bytes_max=SEGMENT_BYTES_MAX) as store:
        before = store.read_stream("order/1")[3]
        upkeep.erase(store, "order/1", 4)
    assert before.payload is not None
    path = next(path for path in segments(log) if before.id in path.read_bytes())
    path.unlink()
    tallystick.refill(f"files:{log}", str(export))
    with tallystick.open(f"files:{log}") as store:
        assert store.find(before.id) == msgspec.structs.replace(before, payload=None)
        assert verify(store.log).problems == []
    assert not [path for path in log.rglob("*") if path.is_file() and before.payload in path.read_bytes()]


@pytest.mark.parametrize("kind", ["copy", "export"])
def test_what_was_pruned_and_recorded_in_the_gap_stays_so(kind: str, log: Path) -> None:
    """EVT-05: facts about prunes, erasures and snapshots that stood in the gap take effect again."""
    with tallystick.open(f"files:{log}", segment_bytes_max=SEGMENT_BYTES_MAX) as store:
        cut = upkeep.prune(store, "order/2", 5)
        made = upkeep.snapshot(store, "order/0")
        for number in range(20):
            store.append("order/filler", NewEvent("thing.happened", {"number": number, "text": "x" * 300}))
        events = list(store.log.read(limit=1000, over_pruned=True).events)
    donor = f"files:{shutil.copytree(log, log.with_name('donor'))}"
    if kind == "export":
        path = log.with_name("donor.ndjson")
        path.write_bytes(ndjson.lines(events))
        donor = str(path)
    fact = next(event for event in events if event.type == "tally.pruned")
    segment = next(path for path in segments(log) if fact.id in path.read_bytes())
    if kind == "export":  # it has only what is left: the pruned events of a lost segment are not in it
        bitten(segment, segment.read_bytes().find(fact.id) / segment.stat().st_size)
    else:
        segment.unlink()
    tallystick.refill(f"files:{log}", donor)
    with tallystick.open(f"files:{log}") as store:
        assert store.cut("order/2") == cut
        assert store.log.snapshots.load(made.id) == made.body
        assert [event for event in store.events(over_pruned=True) if event.position <= events[-1].position] == events
        assert verify(store.log).problems == []


def test_a_lease_and_a_command_come_back_from_a_copy(log: Path, copy: Path) -> None:
    """EVT-09, CP-06: side records of the gap come from the frames of a copy, so that a lease keeps its number."""
    first = segments(log)[0]
    with tallystick.open(f"files:{log}", readonly=True) as store:
        before = store.log.lease("run/one")  # type: ignore[attr-defined]
    first.unlink()
    (log / "index" / first.with_suffix(".idx").name).unlink()
    tallystick.refill(f"files:{log}", f"files:{copy}")
    with tallystick.open(f"files:{log}", readonly=True) as store:
        assert store.log.lease("run/one") == before  # type: ignore[attr-defined]


def test_opening_refills_by_itself(log: Path, copy: Path) -> None:
    """Settled 15: with a donor named, what opening finds damaged is refilled without an operator."""
    before = content(log)
    missing_segment(log)
    with tallystick.open(f"files:{log}", refill_from=f"files:{copy}") as store:
        assert store.holes() == []
        store.append("order/0", NewEvent("thing.happened", {}))
    assert content(log)[: len(before)] == before


def test_doctor_refills(log: Path, export: Path) -> None:
    """`tally doctor --repair --from` refills, says so, and ends with 0; a donor that lacks something ends with 1."""
    hole_in_the_middle(log)
    short = export.with_name("short.ndjson")
    short.write_bytes(export.read_bytes()[:2000])
    run = CliRunner()
    refused = run.invoke(tally, ["doctor", f"files:{log}", "--repair", "--from", str(short)])
    assert refused.exit_code == (2 if "no export" in refused.output else 1), refused.output
    done = run.invoke(tally, ["doctor", f"files:{log}", "--repair", "--from", str(export)])
    assert done.exit_code == 0, done.output
    assert "refilled: positions" in done.output
    as_json = run.invoke(tally, ["doctor", f"files:{log}", "--repair", "--from", str(export), "--json"])
    assert json.loads(as_json.output)["refilled"]["made"] == []
    assert run.invoke(tally, ["doctor", f"files:{log}", "--from", str(export)]).exit_code == 2


def test_a_crash_in_the_middle_can_be_refilled_again(log: Path, copy: Path, hooked: Any) -> None:
    """LH-19: whatever was renamed when it stopped, another refill ends with the same log."""
    before, stopped = content(log), 0
    several(log)
    for number in range(1, 9):
        broken = Path(shutil.copytree(log, log.with_name(f"broken{number}")))
        renames = iter(range(1, 100))

        def stop(operation: str, path: str, renames: Any = renames, number: int = number) -> None:
            if operation == "rename" and next(renames) == number:
                raise KeyboardInterrupt

        hooked.before = stop
        try:
            with tallystick.open(f"files:{copy}", readonly=True) as donor:
                refill_files(
                    str(broken),
                    StoreDonor(donor.log),
                    clock=time.time_ns,
                    progress=lambda done: None,
                    filesystem=hooked,
                )
        except KeyboardInterrupt:
            stopped += 1
        hooked.before = None
        tallystick.refill(f"files:{broken}", f"files:{copy}")
        assert content(broken) == before
    assert stopped >= 5

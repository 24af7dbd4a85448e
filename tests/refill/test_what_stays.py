"""What was pruned, erased, leased and recorded with the events is the same after a refill as before the damage."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tallystick
from tallystick import NewEvent
from tallystick.engines.files.directory import refill_files
from tallystick.event import line as ndjson
from tallystick.state.erasure import erase
from tallystick.store.idempotency import ERASED_RESPONSE, CommandKey, CommandRecord
from tallystick.store.prepare import Part, Request
from tallystick.store.refill import ExportDonor
from tallystick.store.verify import verify
from tallystick.testing import upkeep


def test_a_compacted_copy_refills_what_is_left(lab: Any, log: Path) -> None:
    """EVT-05: a lost segment of a compacted log comes back as it was, without what was pruned."""
    with tallystick.open(f"files:{log}") as store:
        upkeep.prune(store, "order/2", 15)
        upkeep.prune(store, "order/1", 15)
        assert store.log.reclaim(compress_before=None, progress=lambda done: None).done
    before = lab.content(log)
    copy = shutil.copytree(log, log.with_name("copy"))
    lab.damages["missing_segment"](log)
    assert tallystick.refill(f"files:{log}", f"files:{copy}").made
    assert lab.content(log) == before
    with tallystick.open(f"files:{log}", readonly=True) as store:
        assert store.log.source_head("", "s") == lab.events  # type: ignore[attr-defined]


def test_what_is_whole_is_left_alone(lab: Any, log: Path, copy: Path) -> None:
    """A log without damage is not touched."""
    image = {path: path.read_bytes() for path in log.rglob("*.log")}
    assert tallystick.refill(f"files:{log}", f"files:{copy}").made == ()
    assert image == {path: path.read_bytes() for path in log.rglob("*.log")}


def test_an_erased_payload_does_not_come_back(lab: Any, log: Path, copy: Path, export: Path) -> None:
    """Settled 25: a donor still has the payload; it stays erased here, and is in no file of the store."""
    with tallystick.open(f"files:{log}", segment_bytes_max=lab.segment_bytes_max) as store:
        before = store.read_stream("order/1")[3]
        upkeep.erase(store, "order/1", 4)
    assert before.payload is not None
    path = next(path for path in lab.segments(log) if before.id in path.read_bytes())
    path.unlink()
    refill_files(str(log), ExportDonor(export), clock=time.time_ns, progress=lambda done: None)
    assert not [path for path in log.rglob("*") if path.is_file() and before.payload in path.read_bytes()]
    with tallystick.open(f"files:{log}") as store:
        assert store.find(before.id) == msgspec.structs.replace(before, payload=None)
        assert verify(store.log).problems == []
    assert not [path for path in log.rglob("*") if path.is_file() and before.payload in path.read_bytes()]


@pytest.mark.parametrize("kind", ["copy", "export"])
def test_what_was_pruned_and_recorded_in_the_gap_stays_so(lab: Any, kind: str, log: Path) -> None:
    """EVT-05: facts about prunes, erasures and snapshots that stood in the gap take effect again."""
    with tallystick.open(f"files:{log}", segment_bytes_max=lab.segment_bytes_max) as store:
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
    segment = next(path for path in lab.segments(log) if fact.id in path.read_bytes())
    if kind == "export":  # it has only what is left: the pruned events of a lost segment are not in it
        lab.bitten(segment, segment.read_bytes().find(fact.id) / segment.stat().st_size)
    else:
        segment.unlink()
    tallystick.refill(f"files:{log}", donor)
    with tallystick.open(f"files:{log}") as store:
        assert store.cut("order/2") == cut
        assert store.log.snapshots.load(made.id) == made.body
        assert [event for event in store.events(over_pruned=True) if event.position <= events[-1].position] == events
        assert verify(store.log).problems == []


def test_a_lease_and_a_command_come_back_from_a_copy(lab: Any, log: Path, copy: Path) -> None:
    """EVT-09, CP-06: side records of the gap come from the frames of a copy, so that a lease keeps its number."""
    first = lab.segments(log)[0]
    with tallystick.open(f"files:{log}", readonly=True) as store:
        before = store.log.lease("run/one")  # type: ignore[attr-defined]
    first.unlink()
    (log / "index" / first.with_suffix(".idx").name).unlink()
    tallystick.refill(f"files:{log}", f"files:{copy}")
    with tallystick.open(f"files:{log}", readonly=True) as store:
        assert store.log.lease("run/one") == before  # type: ignore[attr-defined]


def test_an_erased_response_does_not_come_back_from_a_copy(lab: Any, log: Path) -> None:
    """Settled 25: of a command that found its event recorded, and is in another segment than the event."""
    given, answer = NewEvent("order.placed", {"n": 1}, id=bytes([1, 144] + [112] * 14)), b'"a-secret-that-goes"'
    record = CommandRecord(CommandKey("acme", "ada", "add", "k"), bytes(32), answer, 5)
    with tallystick.open(f"files:{log}") as store:
        store.append("order/9", given)
        store.log._seal()  # type: ignore[attr-defined]
        store.append("order/1", NewEvent("order.placed", {}))
        store.submit([Request([Part("order/9", [given])], command=record)])
        store.append("order/1", NewEvent("order.placed", {}))
        store.log._seal()  # type: ignore[attr-defined]
        store.append("order/1", NewEvent("order.placed", {}))
    (segment,) = [path for path in lab.segments(log) if answer in path.read_bytes()]
    copy = shutil.copytree(log, log.with_name("copy"))
    with tallystick.open(f"files:{log}") as store:
        erase(store, "order/9", 1, reason="asked for")
    assert answer not in segment.read_bytes()
    segment.unlink()
    (log / "index" / segment.with_suffix(".idx").name).unlink()
    tallystick.refill(f"files:{log}", f"files:{copy}")
    assert not [path for path in log.rglob("*") if path.is_file() and answer in path.read_bytes()]
    with tallystick.open(f"files:{log}") as store:
        found = store.log.commands.load(record.key)
        assert found is not None
        assert found.response == ERASED_RESPONSE

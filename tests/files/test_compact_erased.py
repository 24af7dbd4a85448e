"""An erased payload is in no file of the store any more: segments, compressed ones, copies, quarantine, responses."""

from __future__ import annotations

import contextlib
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tallystick
from tallystick import NewEvent, errors
from tallystick.store.filesystem import PIECE_BYTES
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.maintenance import Maintenance
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import events
from tallystick.testing.faults import Fault

SECRET = "a-secret-that-has-to-go"
SMALL = 4096
KEY = CommandKey(org="acme", actor="a", endpoint="/orders", key="k")


def holding(directory: Path, text: str = SECRET) -> list[str]:
    """The files that hold a text, in the open or in a gzip member."""
    found = []
    for path in directory.rglob("*"):
        if path.is_file() and any(text.encode() in data for data in plain(path.read_bytes())):
            found.append(path.relative_to(directory).as_posix())
    return found


def plain(data: bytes) -> list[bytes]:
    """The bytes of a file, and those of every gzip member in it."""
    found, at = [data], data.find(b"\x1f\x8b\x08")
    while at >= 0:
        with contextlib.suppress(zlib.error):
            found.append(zlib.decompressobj(31).decompress(data[at:]))
        at = data.find(b"\x1f\x8b\x08", at + 1)
    return found


def secret(store: Any) -> None:
    """Record what has to go, in the middle of other events of its commit."""
    store.append("order/1", [*events(2), NewEvent("thing.happened", {"text": SECRET}), *events(2)])


def fill(store: Any, count: int = 20) -> None:
    """Enough for several segments."""
    for number in range(count):
        store.append("order/2", NewEvent("thing.happened", {"number": number, "text": "x" * 500}))


@pytest.mark.parametrize("where", ["current", "sealed", "compressed"])
def test_it_is_gone_when_the_erasure_returns(opened: Any, directory: Path, where: str) -> None:
    """EVT-14, settled 25: at once, and the other events of its frame are as they were."""
    store = opened(segment_bytes_max=SMALL)
    secret(store)
    if where != "current":
        fill(store)
    if where == "compressed":
        store.log.reclaim(compress_before=1 << 62, progress=lambda done: None)
    assert holding(directory)
    before = list(store.events())
    assert SECRET in str(store.read_stream("order/1"))
    assert SECRET in repr(store.log._view.reader._kept)
    upkeep.erase(store, "order/1", 3)
    assert holding(directory) == []
    assert SECRET not in repr(store.log._view.reader._kept)  # nor is it in memory, where a dump of the process shows it
    after = list(store.events())
    assert [event.payload for event in after if event.erased] == [None]
    assert [event for event in after if not event.erased][: len(before) - 1] == [
        event for event in before if (event.stream, event.seq) != ("order/1", 3)
    ]
    assert verify(store.log).problems == []
    store.append("order/1", events(1))
    store.close()
    store = opened()
    assert (store.report().recovered, store.report().problems) == ((), ())
    assert holding(directory) == []


def test_an_interrupted_erasure_is_finished_at_the_next_opening(opened: Any, directory: Path, hooked: Any) -> None:
    """EVT-14: the commit stays; if the rewrite fails that is reported, and the next opening for writing does it."""
    store = opened(filesystem=hooked, segment_bytes_max=SMALL)
    secret(store)
    fill(store)
    hooked.inject(Fault(operation="create", path_part=".log.tmp", persistent=True))
    upkeep.erase(store, "order/1", 3)
    assert store.read_stream("order/1")[2].erased
    assert holding(directory)
    (problem,) = store.report().problems
    assert "still on disk" in problem.reason
    hooked.inject(None)
    store.close()
    assert holding(directory)
    store = opened()
    assert any("without what was erased" in word for word in store.report().recovered)
    assert (holding(directory), store.report().problems) == ([], ())
    assert verify(store.log).problems == []


def test_a_later_reclaim_finishes_it_too(opened: Any, directory: Path, hooked: Any) -> None:
    """EVT-14: as soon as there is room again."""
    store = opened(filesystem=hooked, segment_bytes_max=SMALL)
    secret(store)
    fill(store)
    hooked.inject(Fault(operation="write", path_part=".log.tmp", error=28, persistent=True))
    upkeep.erase(store, "order/1", 3)
    hooked.inject(None)
    assert store.log.reclaim(compress_before=None, progress=lambda done: None).done
    assert (holding(directory), store.report().problems) == ([], ())


def test_a_fragment_that_begins_with_the_id_is_cleaned(opened: Any, directory: Path) -> None:
    """Settled 25: wherever a torn tail was cut, and however often it holds the event."""
    with opened(segment_bytes_max=SMALL) as store:
        secret(store)
        fill(store)
        id_ = store.read_stream("order/1")[2].id
    whole = sorted(directory.glob("2*.log"))[0].read_bytes()
    fragment = whole[whole.find(id_) :][:100]
    assert SECRET.encode() in fragment
    for name, data in (("once", fragment), ("twice", fragment + fragment), ("cut", fragment[:40])):
        (directory / "quarantine" / name).write_bytes(data)
    with opened(segment_bytes_max=SMALL) as store:
        upkeep.erase(store, "order/1", 3)
        assert not holding(directory, SECRET[:8])
    for name, size in (("once", 100), ("twice", 200), ("cut", 40)):
        assert (directory / "quarantine" / name).stat().st_size == size


@pytest.mark.parametrize("before", [-8, 0, 40, 300])
def test_a_large_file_in_quarantine_is_cleaned_in_pieces(opened: Any, directory: Path, before: int) -> None:
    """EVT-14, settled 25: also where the payload, or the id in front of it, lies on the border of two pieces."""
    with opened() as store:
        secret(store)
    whole = (directory / "current.log").read_bytes()
    at = whole.find(SECRET.encode())
    kept = directory / "quarantine" / "tail"
    kept.write_bytes(bytes(PIECE_BYTES - before - 200) + whole[at - 200 :] + b"z" * 5000)
    store = opened()
    upkeep.erase(store, "order/1", 3)
    assert holding(directory, SECRET[:10]) == []
    assert kept.stat().st_size == PIECE_BYTES - before + len(whole) - at + 5000
    assert kept.read_bytes().endswith(b"z" * 5000)


@pytest.mark.security
def test_what_unpacks_to_a_gigabyte_in_quarantine_takes_little_memory(opened: Any, directory: Path) -> None:
    """LH-08: a small file that unpacks to a large one does not stop an erasure."""
    store = opened()
    secret(store)
    packing = zlib.compressobj(1, wbits=31)
    with (directory / "quarantine" / "packed").open("wb") as file:
        for _ in range(64):
            file.write(packing.compress(bytes(4 << 20)))
        file.write(packing.flush())
    tracemalloc.start()
    try:
        upkeep.erase(store, "order/1", 3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20
    assert holding(directory) == []


def test_copies_and_quarantine_are_cleaned(opened: Any, directory: Path) -> None:
    """Settled 25: a torn tail, a copied segment and a compressed one in quarantine do not keep it."""
    with opened(segment_bytes_max=SMALL) as store:
        secret(store)
        fill(store)
    first = sorted(directory.glob("2*.log"))[0]
    (directory / "2020-01-01_001.log").write_bytes(first.read_bytes())
    whole = first.read_bytes()
    (directory / "quarantine" / "tail").write_bytes(whole[whole.find(SECRET.encode()) - 300 :][:310])
    (directory / "quarantine" / "other").write_bytes(b"something else")
    store = opened(segment_bytes_max=SMALL)
    store.log.reclaim(compress_before=1 << 62, progress=lambda done: None)
    (directory / "quarantine" / "packed").write_bytes(first.read_bytes())
    upkeep.erase(store, "order/1", 3)
    assert holding(directory) == []
    assert not holding(directory, SECRET[:10])
    assert (directory / "quarantine" / "other").read_bytes() == b"something else"
    assert (directory / "quarantine" / "tail").stat().st_size == 310
    assert not (directory / "quarantine" / "packed").exists()
    assert store.holes() == []
    assert verify(store.log).problems == []


@pytest.mark.parametrize("sealed", [False, True], ids=["current", "sealed"])
@pytest.mark.parametrize("far", [False, True], ids=["with its events", "of a retry"])
def test_an_erased_response_is_gone_from_every_file(opened: Any, directory: Path, far: bool, sealed: bool) -> None:
    """Settled 25, CP-06: also when the command only found its events recorded, in another segment than they are."""
    store = opened(segment_bytes_max=SMALL)
    given = NewEvent("thing.happened", {"n": 1}, id=bytes([1, 144] + [112] * 14))
    if far:
        store.append("order/1", given)
        fill(store)
    record = CommandRecord(key=KEY, request_hash=bytes(32), response=f'{{"text":"{SECRET}"}}'.encode(), recorded=5)
    (outcome,) = store.submit([Request([Part("order/1", [given])], command=record)])
    assert not isinstance(outcome, errors.TallyError)
    if sealed:
        fill(store)
    assert holding(directory)
    erasure = upkeep.erasure_of(store.read_stream("order/1")[0])
    both = Maintenance(erasures=(erasure,), erased_responses=(KEY,))
    store.record([upkeep.erased_fact(erasure)], maintenance=both)
    assert holding(directory) == []
    first = store.read_stream("order/1")[0]
    places = ((first.position, first.position, first.link),)
    kept = msgspec.structs.replace(record.without_response, ranges=(("order/1", 1, 1),), places=places)
    assert store.log.commands.load(KEY) == kept
    assert verify(store.log).problems == []


def test_a_reader_beside_it_sees_the_erasure_and_no_damage(opened: Any, directory: Path) -> None:
    """LH-09: a reader that had the old file open continues, and one that opens later reads the new file."""
    store = opened(segment_bytes_max=SMALL)
    secret(store)
    fill(store)
    with tallystick.open(f"files:{directory}", readonly=True) as reader:
        before = list(reader.events())
        upkeep.erase(store, "order/1", 3)
        after = [event for event in reader.events() if event.position <= before[-1].position]
        assert [event.position for event in after] == [event.position for event in before]
        assert [event.seq for event in after if event.erased] == [3]
        reader.log._view.handles.close()  # it must open its files again
        assert list(reader.events())[: len(after)] == after
        assert verify(reader.log).problems == []

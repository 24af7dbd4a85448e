"""Pruned prefixes of a file log: gone for every reader, remembered where needed, and known again after opening."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tallystick import NewEvent, errors
from tallystick.engines.files import segments
from tallystick.engines.files.side import SideRecords
from tallystick.store.ledger import Ledger
from tallystick.store.maintenance import Cut
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import event, event_id, events, named

WITNESS = Path(__file__).with_name("upkeep_witness.py")
ROUNDS = 60


def write_side(store: Any, records: SideRecords) -> None:
    """Commit a frame without events that says this."""
    log = store.log
    writer = log._require_writer()
    nothing = Ledger(log, next_position=writer.current.next_position, holder=log._holder)
    log._write(writer, nothing, records)


def test_a_witness_in_another_process_is_never_shown_what_is_gone(opened: Any, directory: Path) -> None:
    """EVT-05, EVT-14: a reader that has seen the fact never sees the event or payload that it names again."""
    store = opened(segment_bytes_max=20_000)
    store.append("order/1", events(10))
    command = [sys.executable, str(WITNESS), str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as witness:
        assert witness.stdout is not None
        assert witness.stdout.readline() == "ready\n"
        for number in range(ROUNDS):
            store.append("order/1", events(5, first=5 * number))
            head = store.stream_head("order/1")
            assert head is not None
            upkeep.erase(store, "order/1", head.seq - 3)
            if number % 7 == 6:
                upkeep.prune(store, "order/1", head.seq - 20)
        store.append("order/end", NewEvent("log.ended", {}))
        said, wrong = witness.communicate(timeout=100)
        assert witness.returncode == 0, wrong
    erased, through, known_before = map(int, said.split())
    assert (erased, through) == (ROUNDS, store.cut("order/1").through)
    assert known_before > 0, "the witness never had read what was erased later: nothing was tried"
    assert len(list(directory.glob("2*.log"))) >= 2, "rotated"


def test_a_cut_is_found_without_a_scan(opened: Any, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LH-06, EVT-05: a log whose indexes are whole opens, and knows what was pruned and erased, reading no frame."""
    store = opened(segment_bytes_max=4096)
    for number in range(30):
        store.append("order/1", events(3, first=number))
    cut, erasure = upkeep.prune(store, "order/1", 40), upkeep.erase(store, "order/1", 50)
    store.close()

    def no_scan(*given: Any, **named: Any) -> None:
        raise AssertionError("a frame was scanned")

    monkeypatch.setattr(segments, "_index_run", lambda *given, end, **named: given[1].covered_end == end or no_scan())
    again = opened(segment_bytes_max=4096)
    assert again.log.cuts(limit=100) == [cut]
    assert again.report().facts["erased_events"] == 1
    assert again.find(erasure.id).payload is None


@pytest.mark.parametrize("readonly", [True, False], ids=["reader", "writer"])
def test_an_index_that_is_lost_or_bad_loses_no_cut(opened: Any, directory: Path, rot: Any, readonly: bool) -> None:
    """LH-16, EVT-05: cuts, erasures, snapshots and commands follow from the segments only."""
    store = opened(segment_bytes_max=2048)
    store.append("order/1", events(6))
    store.append("order/2", events(6))
    cut = upkeep.prune(store, "order/1", 4)
    upkeep.erase(store, "order/2", 2)
    made = upkeep.snapshot(store, "order/2")
    for _ in range(6):
        store.append("order/3", events(6))
    wanted = store.read(over_pruned=True).events
    store.close()
    bad, *others = sorted((directory / "index").glob("*.idx"))
    rot(bad, "life")
    for path in others:
        path.unlink()
    again = opened(readonly=readonly, segment_bytes_max=2048)
    assert again.log.cuts(limit=100) == [cut]
    assert again.read(over_pruned=True).events == wanted
    assert again.log.snapshots.ids() == [made.id]
    assert verify(again.log).ok


def test_an_index_of_the_format_before_is_made_again(opened: Any, directory: Path) -> None:
    """LH-16: an index that knows nothing of cuts is not believed."""
    store = opened()
    store.append("order/1", events(40))
    upkeep.prune(store, "order/1", 4)
    store.close()
    path = directory / "index/current.idx"
    data = bytearray(path.read_bytes())
    assert data[8:10] == b"\0\3"
    data[8:10] = b"\0\2"
    path.write_bytes(data)
    assert opened().cut("order/1").through == 4


def test_what_a_rewriting_leaves_behind_is_enough(opened: Any) -> None:
    """EVT-05, LH-03: when pruned events are gone from the segments, their ids, sources, heads and orgs are not."""
    cut = Cut(stream="order/9", through=5, link=b"l" * 32, first_position=1, last_position=1, count=5, org="acme")
    store = opened(segment_bytes_max=2048)
    store.append("order/1", event())
    left = SideRecords(cuts=(cut,), gone=(event_id(7), event_id(3)), sources=((("acme", "s"), 7), ((None, "old"), 9)))
    write_side(store, left)
    for reopen in (False, True):
        if reopen:
            store.close()
            store = opened(segment_bytes_max=2048)
        assert [store.log.pruned(event_id(number)) for number in (3, 4, 7)] == [True, False, True]
        heads = [store.log.source_head(*source) for source in (("acme", "s"), ("", "s"), ("acme", "old"), ("", "old"))]
        assert heads == [7, 0, 9, 9]
        head = store.stream_head("order/9")
        assert (head.seq, head.link, head.org) == (5, b"l" * 32, "acme")
        assert [info.stream for info in store.streams()] == ["order/1", "order/9"]
        assert [info.stream for info in store.streams(after="order/1")] == ["order/9"]
        with pytest.raises(errors.DuplicateId, match="pruned"):
            store.append("order/9", named(3))
        with pytest.raises(errors.OrgMismatch):
            store.append("order/9", event(meta={"org": "other"}))
        with pytest.raises(errors.SourceRepeated):
            store.append("order/1", event(meta={"org": "acme", "source": "s", "source_seq": 7}))
        assert list(store.log.check(lambda done: None)) == []
    assert store.append("order/9", event(), expected=5).seq == 6
    assert store.stream_head("order/9").org == "acme"


def test_an_org_that_only_the_cut_remembers_holds(opened: Any) -> None:
    """Settled 3: events after the cut belong to the org of the stream, though none of them says so."""
    store = opened()
    store.append("order/1", [event(meta={"org": "acme"}), event(2)])
    upkeep.prune(store, "order/1", 1)
    store.log._heads.clear()
    assert store.stream_head("order/1").org == "acme"


@pytest.mark.parametrize("read", [lambda reader: reader.read(), lambda reader: reader.read_stream("order/1")])
def test_what_is_pruned_during_a_read_is_not_silently_left_out(opened: Any, hooked: Any, read: Any) -> None:
    """EVT-03: a reader that began below a cut is refused, and does not get the rest as if it were everything."""
    store = opened(filesystem=hooked)
    for number in range(3):
        store.append("order/1", events(2, first=number))
    cut = upkeep.cut_of(store, "order/1", 4)
    reader = opened(filesystem=hooked, readonly=True)

    def prune(operation: str, path: str) -> bool:
        if operation != "read" or not path.endswith(".log"):
            return True
        write_side(store, SideRecords(cuts=(cut,)))
        reader.log.floor()  # another thread of the reader follows
        return False

    hooked.before = prune
    with pytest.raises(errors.HistoryPruned):
        read(reader)
    assert hooked.before is None, "nothing was pruned during the read"


def test_an_index_that_is_made_again_tells_nothing_twice(
    opened: Any, directory: Path, rot: Any, forgetful: Any
) -> None:
    """LH-14, LH-16: an older segment that is indexed again does not bring back what was dropped since."""
    store = opened(segment_bytes_max=2048)
    store.append("order/1", named(1))
    made = upkeep.snapshot(store, "order/1")
    while not (sealed := list((directory / "index").glob("2*.idx"))):
        store.append("order/2", events(3))
    upkeep.drop(store, made)
    rot(sealed[0], "ids")
    forgetful()
    assert store.find(event_id(1)) is not None
    assert store.report().facts["indexes_rebuilt"] == 1
    assert store.log.snapshots.ids() == []
    assert verify(store.log).ok


def test_the_figures_of_the_operator_show_what_is_gone(opened: Any) -> None:
    """EVT-05: streams and events that were pruned, and events that were erased."""
    store = opened()
    store.append("order/1", events(6))
    store.append("order/2", events(6))
    upkeep.prune(store, "order/1", 4)
    upkeep.prune(store, "order/2", 2)
    upkeep.erase(store, "order/2", 4)
    facts = store.report().facts
    assert (facts["pruned_streams"], facts["pruned_events"], facts["erased_events"]) == (2, 6, 1)

"""Commands of a file log: found by key without a scan, across segments, and forgotten by commits."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import errors
from tallystick.engines.disk import Disk
from tallystick.engines.files.reader import SegmentReader
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import event, named
from tallystick.testing.faults import Fault, FaultyFileSystem

SMALL = 2048


def key(number: int) -> CommandKey:
    """A key."""
    return CommandKey("acme", "u1", "POST /orders", f"k{number}")


def run(store: Any, number: int, stream: str = "order/1", *, events: list[Any] | None = None) -> Any:
    """Run a command, recorded at its number."""
    record = CommandRecord(key(number), b"h" * 32, b'{"n":%d}' % number, number)
    (outcome,) = store.submit([Request([Part(stream, events or [event(number)])], command=record)])
    if isinstance(outcome, errors.TallyError):
        raise outcome
    return outcome


@pytest.fixture
def many(opened: Any) -> Any:
    """Forty commands over several segments."""
    store = opened(segment_bytes_max=SMALL)
    for number in range(40):
        run(store, number)
    assert len(store.log._view.segments) > 3
    return store


def check(store: Any, *, first: int, last: int = 40) -> None:
    """Commands from `first` on are there, others are not."""
    found = [store.log.commands.load(key(number)) for number in range(last)]
    assert [record is not None for record in found] == [number >= first for number in range(last)]
    assert all(record is None or record.response == b'{"n":%d}' % number for number, record in enumerate(found))


def test_each_is_found_in_its_segment(many: Any, opened: Any) -> None:
    """CP-05, CP-06: by its key, before and after opening, by the writer and by a reader."""
    check(many, first=0)
    check(opened(readonly=True), first=0)
    many.close()
    again = opened(segment_bytes_max=SMALL)
    check(again, first=0)
    with pytest.raises(errors.CommandRepeated):
        run(again, 3)
    assert verify(again.log).ok


def test_a_lookup_reads_one_frame(many: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-06: one that is there costs one frame, one that is not costs none; nothing is scanned."""
    read: list[int] = []
    side_at = SegmentReader.side_at
    monkeypatch.setattr(SegmentReader, "bodies", lambda *given, **named: pytest.fail("a scan"))
    monkeypatch.setattr(SegmentReader, "side_at", lambda self, item, at: read.append(at) or side_at(self, item, at))
    assert many.log.commands.load(key(5)) is not None
    assert many.log.commands.load(key(99)) is None
    assert len(read) == 1


def test_a_reader_sees_a_command_and_its_end(many: Any, opened: Any) -> None:
    """CP-06: a reader of another process follows what is recorded and what is forgotten."""
    reader = opened(readonly=True)
    run(many, 40)
    assert reader.log.commands.load(key(40)) is not None
    many.log.commands.forget(before=100, limit=100)
    assert reader.log.commands.load(key(40)) is None
    with pytest.raises(errors.ReadOnly):
        reader.log.commands.forget(before=100, limit=100)


def test_the_oldest_are_forgotten_first_and_at_most_so_many(many: Any, opened: Any) -> None:
    """CP-06: retention is bounded by time and by number, is one commit each, and survives opening."""
    head = many.head()
    assert [many.log.commands.forget(before=20, limit=8) for _ in range(4)] == [8, 8, 4, 0]
    assert many.head() == head
    check(many, first=20)
    assert many.log.commands.forget(before=25, limit=100) == 5
    many.close()
    again = opened(segment_bytes_max=SMALL)
    check(again, first=25)
    assert again.log.commands.forget(before=25, limit=100) == 0
    run(again, 3)
    assert again.log.commands.load(key(3)) is not None
    assert again.log.commands.forget(before=25, limit=100) == 1
    assert verify(again.log).ok


def test_one_that_runs_again_after_it_was_forgotten_is_the_new_one(many: Any) -> None:
    """CP-06: of two records under one key the newest counts, whichever segments they are in."""
    many.log.commands.forget(before=40, limit=100)
    done = run(many, 3)
    record = many.log.commands.load(key(3))
    assert record.ranges == (("order/1", done[0].first_seq, done[0].last_seq),)
    assert many.log.commands.touching("order/1", done[0].last_seq) == [key(3)]
    assert many.log.commands.touching("order/1", 4) == []  # its first run, which is forgotten


def test_touching_names_those_that_appended_the_event(opened: Any) -> None:
    """Settled 25: with several streams in one command, several commands in one frame, and a retry in another one."""
    store = opened()
    both = CommandRecord(key(1), b"h" * 32, b"{}", 1)
    other = CommandRecord(key(2), b"h" * 32, b"{}", 2)
    store.submit(
        [
            Request([Part("order/1", [named(1), named(2)]), Part("order/2", [named(3)])], command=both),
            Request([Part("order/1", [named(4)])], command=other),
        ]
    )
    run(store, 3, events=[named(4)])  # stored already: it repeats what another command appended
    commands = store.log.commands
    for reopened in (False, True):
        if reopened:
            store.close()
            commands = opened().log.commands
        assert commands.touching("order/1", 2) == [key(1)]
        assert commands.touching("order/1", 3) == [key(2), key(3)]
        assert commands.touching("order/2", 1) == [key(1)]
        assert commands.touching("order/2", 2) == commands.touching("order/9", 1) == []


def test_a_key_of_the_same_digest_is_another_command(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-06: what the index leads to is compared with the key, and not taken for it."""
    store = opened()
    monkeypatch.setattr("tallystick.engines.files.side.digest", lambda key: b"d" * 16)
    run(store, 1)
    assert store.log.commands.load(key(1)) is not None
    assert store.log.commands.load(key(2)) is None


def test_no_room_leaves_the_commands_as_they_are(opened: Any) -> None:
    """LH-16, CP-06: neither a command nor forgetting one is half done on a full disk; both work again with room."""
    files = FaultyFileSystem(Disk())
    store = opened(filesystem=files)
    run(store, 1)
    files.inject(Fault(operation="write", error=28, persistent=True, path_part="current.log"))
    with pytest.raises(errors.NoSpace):
        run(store, 2)
    with pytest.raises(errors.NoSpace):
        store.log.commands.forget(before=9, limit=9)
    assert store.log.commands.load(key(1)) is not None
    assert store.log.commands.load(key(2)) is None
    files.inject(None)
    run(store, 2)
    assert store.log.commands.forget(before=9, limit=9) == 2


def test_an_index_that_lost_commands_is_found(many: Any) -> None:
    """CP-06: verification misses a command in an index, which would let it run twice."""
    many.log._view.segments[-1].grow().made.clear()
    upkeep.prune(many, "order/1", 1)
    for _ in range(20):
        many.append("order/2", event())  # seals the segment with its index
    found = list(many.log.check(lambda done: None))
    assert {problem.what for problem in found} == {"index"}
    assert "differ in the commands" in " ".join(problem.reason for problem in found)


def test_segments_are_asked_newest_first(many: Any) -> None:
    """CP-06: a command of now is found without asking the past."""
    asked: list[Any] = []
    view = many.log._view
    for item in view.segments:
        command = item.command
        item.command = lambda digest, item=item, command=command: asked.append(item) or command(digest)
    assert many.log.commands.load(key(39)) is not None
    assert asked == [view.segments[-1]]

"""Contract: what was acknowledged is there when the store is opened again, by any process."""

from __future__ import annotations

import itertools

import pytest

from tallystick import NO_STREAM, Store, errors
from tallystick.event.model import Event
from tallystick.store.capabilities import ANY_STREAM, DURABLE
from tallystick.store.page import StreamInfo
from tallystick.store.verify import verify
from tallystick.testing.builders import event, event_id, events, named
from tallystick.testing.clock import START, ManualClock
from tallystick.testing.contract.harness import Contract, EngineHarness, needs


def _fill(store: Store) -> tuple[list[Event], list[StreamInfo]]:
    for number in range(10):
        store.append(f"order/{number % 3}", events(3, first=number, meta={"org": "acme", "app": "web"}))
    store.append("order/0", [named(77)])
    return store.read().events, store.streams()


class DurabilityContract(Contract):
    """Durability as far as one process can see it, and opening itself."""

    @needs(DURABLE, ANY_STREAM)
    def test_reopening_keeps_everything(self, harness: EngineHarness) -> None:
        """LH-07, CP-12: events, streams, heads and ids are the same after any number of openings."""
        with harness.open() as store:
            whole, streams = _fill(store)
        for _ in range(3):
            with harness.open() as store:
                assert store.read().events == whole
                assert store.streams() == streams
                assert store.head() == whole[-1].position
                found = store.find(event_id(77))
                assert found == whole[-1]

    @needs(DURABLE, ANY_STREAM)
    def test_appends_go_on_after_reopening(self, harness: EngineHarness) -> None:
        """EVT-01, CP-02: sequences, positions and links continue where they ended."""
        for number in range(4):
            with harness.open() as store:
                assert store.append("order/a", event(number), expected=number).seq == number + 1
                store.append("order/b", events(2))
        store = harness.open()
        positions = [found.position for found in store.read().events]
        assert all(before < after for before, after in itertools.pairwise(positions))
        assert verify(store.log).ok

    @needs(DURABLE)
    def test_a_retry_after_reopening_writes_nothing(self, harness: EngineHarness) -> None:
        """LH-16: after an unknown outcome and a restart, sending the same ids again is safe."""
        with harness.open() as store:
            first = store.append("run/a", [named(1), named(2)], expected=NO_STREAM)
        store = harness.open()
        again = store.append("run/a", [named(1), named(2)], expected=NO_STREAM)
        assert (again.link, again.last_position, again.stored) == (first.link, first.last_position, 2)
        with pytest.raises(errors.DuplicateId):
            store.append("run/a", named(5, id=1))
        assert len(store.read_stream("run/a")) == 2

    @needs(DURABLE)
    def test_the_recording_time_is_kept(self, harness: EngineHarness) -> None:
        """recorded_at is stored with the event. It is not the time of the reopening."""
        clock = ManualClock()
        with harness.open(clock=clock) as store:
            position = store.append("run/a", event(time=1)).position
        clock.advance(seconds=1000)
        assert harness.open(clock=clock).log.recorded_at(position) == START

    @needs(DURABLE)
    def test_the_store_id_is_made_once(self, harness: EngineHarness) -> None:
        """CP-07: a store is the same store after reopening, and its id is 16 bytes."""
        with harness.open() as store:
            made = store.log.store_id
        assert len(made) == 16
        assert harness.open().log.store_id == made

    @needs(DURABLE)
    def test_a_refused_append_is_not_there_after_reopening(self, harness: EngineHarness) -> None:
        """CP-05: a refused append leaves nothing on disk."""
        with harness.open() as store:
            store.append("run/a", event(1))
            with pytest.raises(errors.Conflict):
                store.append("run/a", named(2), expected=9)
        store = harness.open()
        assert store.find(event_id(2)) is None
        assert [found.data["n"] for found in store.read_stream("run/a")] == [1]

    @needs(DURABLE)
    def test_a_store_that_is_not_there_is_not_made_for_a_reader(self, harness: EngineHarness) -> None:
        """A reader, and a caller with create=False, gets StoreNotFound, and nothing is created."""
        for options in ({"readonly": True}, {"create": False}):
            with pytest.raises(errors.StoreNotFound):
                harness.open(**options)
        harness.open().close()
        harness.open(create=False).close()

    @needs(DURABLE)
    def test_a_reader_refuses_to_write(self, harness: EngineHarness) -> None:
        """A handle opened read-only reads everything and writes nothing: no event, setting or lease."""
        with harness.open() as store:
            store.append("run/a", events(3))
        reader = harness.open(readonly=True)
        assert [found.seq for found in reader.read_stream("run/a")] == [1, 2, 3]
        head = reader.head()
        for use in (
            lambda: reader.append("run/a", event()),
            lambda: reader.append_all([("run/a", [event()], 3)]),
            lambda: reader.submit([]),
            lambda: reader.configure(secrets="off"),
            lambda: reader.acquire_lease("run/a"),
            lambda: reader.release_lease("run/a"),
        ):
            with pytest.raises(errors.ReadOnly):
                use()
        assert reader.head() == head

    @needs(DURABLE)
    def test_a_reader_beside_the_writer_follows(self, harness: EngineHarness) -> None:
        """EVT-06: a read-only handle sees what the writer appends after it was opened."""
        writer = harness.open()
        writer.append("run/a", event(1))
        reader = harness.open(readonly=True)
        for number in range(2, 6):
            position = writer.append("run/a", named(number)).position
            assert reader.wait(position - 1, timeout=30) == position
            found = reader.find(event_id(number))
            assert found is not None
            assert found.data == {"n": number}
        assert reader.read().events == writer.read().events
        assert reader.streams() == writer.streams()
        assert reader.stream_head("run/a") == writer.stream_head("run/a")

    @needs(DURABLE)
    def test_a_store_that_was_never_written_to_can_be_reopened(self, harness: EngineHarness) -> None:
        """An empty store is a store: it opens, reads as empty, and takes a first append."""
        harness.open().close()
        harness.open(readonly=True).close()
        assert harness.open().append("run/a", event(), expected=NO_STREAM).seq == 1

    def test_verification_finds_nothing_wrong(self, store: Store) -> None:
        """PIPE-03: verification finds nothing wrong in a store that was only appended to."""
        for number in range(5):
            store.append(f"run/{number % 2}", events(4, meta={"org": f"o{number % 2}"}))
        found = verify(store.log)
        assert (found.ok, found.events, found.streams, found.problems) == (True, 20, 2, [])

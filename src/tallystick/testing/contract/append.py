"""Contract: what one append leaves in the log."""

from __future__ import annotations

import hashlib
import itertools
import uuid

from tallystick import Appended, NewEvent, Store
from tallystick.event import chain
from tallystick.store.capabilities import ANY_STREAM, GLOBAL_ORDER
from tallystick.testing.builders import event, events, named
from tallystick.testing.clock import START, ManualClock
from tallystick.testing.contract.harness import Contract, EngineHarness, needs


class AppendContract(Contract):
    """Sequences, positions, links and the envelope."""

    def test_a_new_store_is_empty(self, store: Store) -> None:
        """A new store has no events, no streams and no damage."""
        assert (store.head(), store.floor(), store.streams(), store.holes()) == (0, 0, [], [])
        assert store.read().events == []

    def test_sequences_start_at_one_and_have_no_gaps(self, store: Store) -> None:
        """EVT-01, CP-02: within a stream the sequence is 1, 2, 3 … over any number of appends."""
        for count in (1, 3, 1, 2):
            store.append("run/a", events(count))
        assert [found.seq for found in store.read_stream("run/a")] == [1, 2, 3, 4, 5, 6, 7]

    @needs(ANY_STREAM)
    def test_each_stream_counts_for_itself(self, store: Store) -> None:
        """CP-02: the sequence has no gaps inside (aggregate type, aggregate id), whatever other writers do."""
        for number in range(4):
            store.append("order/a", event(number))
            store.append("order/b", events(2))
        assert [found.seq for found in store.read_stream("order/a")] == [1, 2, 3, 4]
        assert [found.seq for found in store.read_stream("order/b")] == list(range(1, 9))

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_positions_rise_over_all_streams(self, store: Store) -> None:
        """EVT-01, CP-02: one monotonic integer orders everything, and the head is the last of them."""
        done = [store.append(f"order/{number % 3}", events(2)) for number in range(9)]
        positions = [found.position for found in store.read().events]
        assert all(before < after for before, after in itertools.pairwise(positions))
        assert [found.last_position for found in done] == positions[1::2]
        assert store.head() == positions[-1]

    def test_the_time_never_orders_anything(self, harness: EngineHarness) -> None:
        """EVT-01: events are in the order of their appends, also when the clock goes back."""
        clock = ManualClock()
        store = harness.open(clock=clock)
        for number in range(5):
            store.append("run/a", event(number))
            clock.advance(seconds=-3600)
        found = store.read_stream("run/a")
        assert [item.data["n"] for item in found] == [0, 1, 2, 3, 4]
        assert [item.time for item in found] == sorted((item.time for item in found), reverse=True)

    def test_the_result_says_where_the_events_are(self, store: Store) -> None:
        """An append returns the seqs, the positions and the link of what it wrote."""
        store.append("run/a", event())
        done = store.append("run/a", events(3))
        stored = store.read_stream("run/a", after=1)
        first, last = stored[0], stored[-1]
        assert done == Appended("run/a", 2, 4, first.position, last.position, last.link, 0)
        assert (done.seq, done.position) == (4, last.position)

    def test_every_field_is_kept_as_given(self, store: Store) -> None:
        """CP-03, LH-03: type, version, id, time, payload, meta and signature come back byte for byte."""
        id_, signature = uuid.UUID(int=7 << 76 | 2 << 62 | 5), bytes(range(64))
        meta = {"source": "s", "source_seq": 3, "tags": {"b": "2", "a": "1"}, "correlation_id": "c"}
        new = NewEvent("Thing.Done", {"b": 1, "a": "é"}, meta=meta, version=7, id=id_, time=5, signature=signature)
        store.append("run/a", new)
        found = store.find(id_)
        assert found is not None
        assert (found.stream, found.seq, found.type, found.version) == ("run/a", 1, "Thing.Done", 7)
        assert (found.uuid, found.time, found.signature) == (id_, 5, signature)
        assert found.payload == '{"a":"é","b":1}'.encode()
        assert found.meta == b'{"correlation_id":"c","source":"s","source_seq":3,"tags":{"a":"1","b":"2"}}'

    def test_what_is_left_out_is_filled_in(self, harness: EngineHarness) -> None:
        """LH-03: an event without id, time, version and meta gets a UUIDv7, the clock's time, 1 and {}."""
        store = harness.open(clock=ManualClock())
        store.append("run/a", events(3))
        for found in store.read_stream("run/a"):
            assert (found.uuid.version, found.uuid.variant) == (7, uuid.RFC_4122)
            assert (found.time, found.version, found.meta, found.signature) == (START, 1, b"{}", None)
        ids = [found.id for found in store.read_stream("run/a")]
        assert ids == sorted(ids)

    def test_the_checksum_is_the_hash_of_the_payload(self, store: Store) -> None:
        """LH-03: the checksum is SHA-256 of the stored payload bytes."""
        store.append("run/a", events(2))
        for found in store.read_stream("run/a"):
            assert found.payload is not None
            assert found.checksum == hashlib.sha256(found.payload).digest()

    def test_links_chain_the_events_of_a_stream(self, store: Store) -> None:
        """EVT-04: every link is the hash of the event's text and of the link before it, from 64 zeros on."""
        for number in range(3):
            store.append("run/a", [event(number, meta={"org": "acme"}), event(number)])
            store.append("run/b", event(number))
        for stream in ("run/a", "run/b"):
            previous = chain.GENESIS
            for found in store.read_stream(stream):
                assert found.link == chain.link(found, previous)
                previous = found.link
            head = store.stream_head(stream)
            assert head is not None
            assert head.link == previous

    def test_the_chain_text_has_the_fixed_form(self, store: Store) -> None:
        """The first link, computed here only from the ten lines of the format."""
        store.append("run/a", named(1, time=5, meta={"org": "acme"}))
        found = store.read_stream("run/a")[0]
        checksum = hashlib.sha256(b'{"n":1}').hexdigest()
        lines = ["tallystick/1", "0" * 64, "run/a", "1", "thing.happened", "1", found.id.hex(), "5", '{"org":"acme"}']
        assert found.link.hex() == hashlib.sha256("\n".join([*lines, checksum]).encode()).hexdigest()

    def test_an_append_may_be_one_event_or_any_iterable(self, store: Store) -> None:
        """A single event, a list, a tuple and a generator are all accepted."""
        store.append("run/a", event(1))
        store.append("run/a", [event(2)])
        store.append("run/a", (event(3), event(4)))
        store.append("run/a", (event(number) for number in (5, 6)))  # type: ignore[arg-type]
        assert [found.data["n"] for found in store.read_stream("run/a")] == [1, 2, 3, 4, 5, 6]

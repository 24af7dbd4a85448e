"""Contract: pruned and erased data is gone, the rest is intact, and everything that must survive does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from tallystick import NewEvent, Store, errors
from tallystick.event.model import Event
from tallystick.store import checked, facts
from tallystick.store.capabilities import ANY_STREAM, COMMANDS, DURABLE, MAINTENANCE, MULTI_STREAM
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.maintenance import Maintenance
from tallystick.store.prepare import Part, Request
from tallystick.store.selection import select
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import event, events, named
from tallystick.testing.clock import ManualClock
from tallystick.testing.contract.harness import Contract, EngineHarness, needs

KEY = CommandKey("acme", "u1", "POST /orders", "k1")


def _command(key: CommandKey = KEY, *, recorded: int = 1) -> CommandRecord:
    return CommandRecord(key, b"h" * 32, b'{"ok":true}', recorded)


def _run(store: Store, command: CommandRecord, stream: str = "order/1") -> None:
    outcome = store.submit([Request([Part(stream, [event()])], command=command)])[0]
    if isinstance(outcome, errors.TallyError):
        raise outcome


def _page(store: Store) -> Sequence[Event]:
    return store.log.read(after=2, limit=2).events


def _stream(store: Store) -> Sequence[Event]:
    return store.log.read_stream("order/1", after=2, limit=2)


def _found(store: Store) -> Sequence[Event]:
    id_ = store.log.read(after=2, limit=1, unchecked=True).events[0].id
    found = store.log.find(id_)
    return [found] if found is not None else []


class PruningContract(Contract):
    """Cuts."""

    @needs(MAINTENANCE, ANY_STREAM)
    def test_a_pruned_prefix_is_refused_by_name(self, store: Store) -> None:
        """EVT-03: a read of the stream that begins in the pruned part names the pruned seqs. A read after it works."""
        store.append("order/1", events(5))
        upkeep.prune(store, "order/1", 3)
        with pytest.raises(errors.HistoryPruned) as refusal:
            store.read_stream("order/1", after=1)
        assert (refusal.value.first, refusal.value.last) == (2, 3)
        assert [found.seq for found in store.read_stream("order/1", after=3)] == [4, 5]

    @needs(MAINTENANCE, ANY_STREAM)
    @pytest.mark.parametrize("read", [_page, _stream, _found], ids=["page", "stream", "find"])
    def test_what_is_pruned_while_it_is_read_is_no_damage(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, read: Callable[[Store], Sequence[Event]]
    ) -> None:
        """SAFE-01: an event whose predecessor is pruned between reading and checking is served. It is no damage."""
        store.append("order/1", events(6))
        begun: list[str] = []
        for name in ("page", "hashed_page", "stream", "link_before", "event"):
            monkeypatch.setattr(checked, name, upkeep.pruning_first(store, getattr(checked, name), begun))
        assert read(store)[0].seq == 3
        assert len(begun) == 1
        assert store.log.damage.known() == []
        store.append("order/1", events(1))

    @needs(MAINTENANCE, ANY_STREAM)
    def test_the_log_below_the_floor_is_refused_unless_what_is_left_is_wanted(self, store: Store) -> None:
        """A reader that starts below a pruned event is refused. With over_pruned it gets the remaining events."""
        store.append("order/1", events(3))
        store.append("order/2", events(2))
        cut = upkeep.prune(store, "order/1", 2)
        assert store.floor() == cut.last_position
        with pytest.raises(errors.HistoryPruned):
            store.read()
        with pytest.raises(errors.HistoryPruned):
            store.read(selection=select(type="thing.happened"))
        left = [(found.stream, found.seq) for found in store.read(over_pruned=True).events]
        assert left[:3] == [("order/1", 3), ("order/2", 1), ("order/2", 2)]
        assert store.read(after=store.floor()).events[0].seq == 3

    @needs(MAINTENANCE, ANY_STREAM)
    def test_readers_of_other_streams_lose_nothing(self, store: Store) -> None:
        """Pruning one stream does not affect the readers of another."""
        store.append("order/1", events(3))
        store.append("order/2", events(2))
        upkeep.prune(store, "order/1", 3)
        assert [found.seq for found in store.read(selection=select(stream="order/2")).events] == [1, 2]
        with pytest.raises(errors.HistoryPruned):
            store.read(selection=select(stream="order/1"))

    @needs(MAINTENANCE, ANY_STREAM)
    def test_head_and_order_survive_a_prune_of_everything(self, store: Store) -> None:
        """Settled 3: seq, link, org and positions continue where they were, though no event is left."""
        done = store.append("order/1", events(4, meta={"org": "acme"}))
        head = store.head()
        upkeep.prune(store, "order/1", 4)
        kept = store.stream_head("order/1")
        assert kept is not None
        assert (kept.seq, kept.link, kept.org) == (4, done.link, "acme")
        assert "order/1" in [info.stream for info in store.streams()]
        with pytest.raises(errors.OrgMismatch):
            store.append("order/1", event(meta={"org": "other"}))
        again = store.append("order/1", event(5), expected=4)
        assert (again.first_seq, again.position > head) == (5, True)
        assert verify(store.log).problems == []

    @needs(MAINTENANCE, ANY_STREAM)
    def test_a_pruned_event_is_not_recorded_again(self, store: Store) -> None:
        """A retry of a pruned event is refused by name: it must not become a second event."""
        store.append("order/1", [named(1), named(2)])
        gone = store.read_stream("order/1")[0]
        upkeep.prune(store, "order/1", 1)
        assert store.find(gone.id) is None
        assert store.log.pruned(gone.id)
        with pytest.raises(errors.DuplicateId, match="pruned"):
            store.append("order/1", named(1))
        assert store.append("order/1", named(2)).stored == 1

    @needs(MAINTENANCE, ANY_STREAM)
    def test_a_source_keeps_its_number_through_a_prune(self, store: Store) -> None:
        """LH-03: the sequence of a source continues, though its events are gone."""
        store.append("order/1", [event(meta={"source": "s", "source_seq": 7})])
        upkeep.prune(store, "order/1", 1)
        store.log.reclaim(compress_before=None, progress=lambda done: None)
        with pytest.raises(errors.SourceRepeated):
            store.append("order/1", event(meta={"source": "s", "source_seq": 7}))

    @needs(MAINTENANCE, ANY_STREAM)
    def test_a_prune_goes_forward_only(self, store: Store) -> None:
        """A cut is after the one before it and not past the head. Control facts are never cut."""
        store.append("order/1", events(5))
        first = upkeep.prune(store, "order/1", 2)
        for through in (1, 2, 6):
            wrong = msgspec.structs.replace(first, through=through)
            with pytest.raises(errors.PruneRefused):
                store.record([upkeep.pruned_fact(wrong)], maintenance=Maintenance(cuts=(wrong,)))
        about = facts.stream_about("order/1")
        facts_cut = upkeep.cut_of(store, about, 1)
        with pytest.raises(errors.PruneRefused, match="control facts"):
            store.record([upkeep.pruned_fact(facts_cut)], maintenance=Maintenance(cuts=(facts_cut,)))
        second = upkeep.prune(store, "order/1", 4)
        assert (store.cut("order/1"), store.cut("order/2")) == (second, None)
        assert store.log.cuts(limit=100) == [second]
        assert verify(store.log).problems == []

    @needs(MAINTENANCE, ANY_STREAM)
    def test_a_prune_moves_a_checkpoint_nowhere(self, store: Store) -> None:
        """CP-07: a consumer whose last event was pruned continues where it was."""
        store.append("order/1", events(3))
        position = store.read_stream("order/1")[1].position
        store.save_checkpoint("lister", position)
        upkeep.prune(store, "order/1", 2)
        assert store.load_checkpoint("lister") == position

    @needs(MAINTENANCE, ANY_STREAM)
    def test_what_is_pruned_has_no_recording_time(self, harness: EngineHarness) -> None:
        """Settled 26: retention asks for recording times of existing events only."""
        clock = ManualClock()
        store = harness.open(clock=clock)
        store.append("order/1", events(2))
        positions = [found.position for found in store.read_stream("order/1")]
        upkeep.prune(store, "order/1", 1)
        assert store.log.recorded_at(positions[0]) is None
        assert store.log.recorded_at(positions[1]) == clock()

    @needs(MAINTENANCE, ANY_STREAM, DURABLE)
    def test_a_prune_survives_reopening_and_reclaiming(self, harness: EngineHarness) -> None:
        """EVT-05: after closing, reclaiming and reopening, the same events are gone, and all facts are there."""
        store = harness.open()
        store.append("order/1", events(6))
        store.append("order/2", events(3))
        cut = upkeep.prune(store, "order/1", 4)
        upkeep.prune(store, "order/2", 3)
        left = store.read(over_pruned=True).events
        store.log.reclaim(compress_before=None, progress=lambda done: None)
        assert store.read(over_pruned=True).events == left
        store.close()
        store = harness.open()
        assert store.read(over_pruned=True).events == left
        assert (store.cut("order/1"), store.floor()) == (cut, max(c.last_position for c in store.log.cuts(limit=100)))
        assert verify(store.log).problems == []
        store.append("order/2", event(4), expected=3)


class ErasureContract(Contract):
    """Erasures."""

    @needs(MAINTENANCE, ANY_STREAM)
    def test_an_erased_payload_reads_as_null(self, store: Store) -> None:
        """EVT-14, settled 25: no way of reading returns the payload. Envelope, checksum and link stay."""
        store.append("order/1", events(3))
        before = store.read_stream("order/1")[1]
        upkeep.erase(store, "order/1", 2)
        wanted = msgspec.structs.replace(before, payload=None)
        assert store.read_stream("order/1")[1] == wanted
        assert store.find(before.id) == wanted
        assert wanted in store.read().events
        found = verify(store.log)
        assert (found.problems, found.erased) == ([], 1)

    @needs(MAINTENANCE, ANY_STREAM)
    def test_a_retry_of_an_erased_event_is_recognised(self, store: Store) -> None:
        """The checksum stays, so a retry of the same event is recognised, and another event is not."""
        store.append("order/1", named(1))
        upkeep.erase(store, "order/1", 1)
        assert store.append("order/1", named(1)).stored == 1
        with pytest.raises(errors.DuplicateId):
            store.append("order/1", named(2, id=1))

    @needs(MAINTENANCE, ANY_STREAM)
    def test_what_is_not_there_is_not_erased(self, store: Store) -> None:
        """An erasure names an existing event with its checksum, once. Control facts cannot be erased."""
        store.append("order/1", events(2))
        erasure = upkeep.erase(store, "order/1", 1)
        for wrong in (erasure, msgspec.structs.replace(erasure, seq=2), msgspec.structs.replace(erasure, id=bytes(16))):
            with pytest.raises(errors.EraseRefused):
                store.record([upkeep.erased_fact(wrong)], maintenance=Maintenance(erasures=(wrong,)))
        about = store.read_stream(facts.stream_about("order/1"))[0]
        of_fact = upkeep.erasure_of(about)
        with pytest.raises(errors.EraseRefused, match="control facts"):
            store.record([upkeep.erased_fact(of_fact)], maintenance=Maintenance(erasures=(of_fact,)))

    @needs(MAINTENANCE, ANY_STREAM, DURABLE)
    def test_an_erasure_survives_reopening_and_reclaiming(self, harness: EngineHarness) -> None:
        """EVT-14: it stays erased, and verification still reports it."""
        store = harness.open()
        store.append("order/1", events(4))
        upkeep.erase(store, "order/1", 2)
        upkeep.prune(store, "order/1", 1)
        left = store.read(over_pruned=True).events
        store.log.reclaim(compress_before=None, progress=lambda done: None)
        store.close()
        store = harness.open()
        assert store.read(over_pruned=True).events == left
        assert verify(store.log).problems == []


class SnapshotContract(Contract):
    """Bodies of snapshots."""

    @needs(MAINTENANCE, ANY_STREAM)
    def test_a_body_comes_back_as_it_was_given(self, store: Store) -> None:
        """EVT-02: the same bytes, by the id of the fact."""
        store.append("order/1", events(2))
        body = b'{"text":"' + "ä€𝄞".encode() * 1000 + b'"}'
        made = upkeep.snapshot(store, "order/1", body)
        assert store.log.snapshots.load(made.id) == body
        assert store.log.snapshots.ids() == [made.id]
        assert store.log.snapshots.size() > 0
        assert store.log.snapshots.load(bytes(16)) is None
        assert verify(store.log).problems == []

    @needs(MAINTENANCE, ANY_STREAM)
    def test_a_refused_commit_leaves_no_body(self, store: Store) -> None:
        """If its commit is refused, a snapshot is not stored."""
        store.append("order/1", events(2))
        made = upkeep.snapshot_of(store, "order/1", b"{}")
        with pytest.raises(errors.Conflict):
            store.record(
                [upkeep.snapshot_fact(made)], require=[("order/1", 1)], maintenance=Maintenance(snapshots=(made,))
            )
        assert store.log.snapshots.ids() == []
        assert verify(store.log).problems == []

    @needs(MAINTENANCE, ANY_STREAM)
    def test_a_dropped_body_is_gone(self, store: Store) -> None:
        """LH-14: a snapshot that a fact lists as dropped is gone."""
        store.append("order/1", event())
        kept, dropped = upkeep.snapshot(store, "order/1"), upkeep.snapshot(store, "order/1", reducer="other")
        upkeep.drop(store, dropped)
        assert store.log.snapshots.ids() == [kept.id]
        assert store.log.snapshots.load(dropped.id) is None
        assert verify(store.log).problems == []

    @needs(MAINTENANCE, ANY_STREAM)
    def test_snapshot_and_prune_are_one_commit(self, store: Store) -> None:
        """EVT-07: one transaction makes the snapshot and the cut."""
        store.append("order/1", events(3))
        made, cut = upkeep.snapshot_of(store, "order/1", b"{}"), upkeep.cut_of(store, "order/1", 3)
        both = [upkeep.snapshot_fact(made), upkeep.pruned_fact(cut)]
        store.record(both, require=[("order/1", 3)], maintenance=Maintenance(snapshots=(made,), cuts=(cut,)))
        assert (store.log.snapshots.ids(), store.cut("order/1")) == ([made.id], cut)

    @needs(MAINTENANCE, ANY_STREAM, DURABLE)
    def test_bodies_survive_reopening(self, harness: EngineHarness) -> None:
        """LH-12: they are as durable as the commit."""
        store = harness.open()
        store.append("order/1", event())
        made = upkeep.snapshot(store, "order/1")
        store.close()
        assert harness.open().log.snapshots.load(made.id) == made.body


class CommandContract(Contract):
    """Records of commands, and requirements."""

    @needs(COMMANDS, ANY_STREAM)
    def test_a_command_is_recorded_with_its_events(self, store: Store) -> None:
        """CP-05, CP-06: the record holds the hash, the response and the appended events."""
        assert store.log.commands.load(KEY) is None
        _run(store, _command())
        record = store.log.commands.load(KEY)
        assert record is not None
        assert (record.request_hash, record.response, record.ranges) == (
            b"h" * 32,
            b'{"ok":true}',
            (("order/1", 1, 1),),
        )
        assert store.log.commands.touching("order/1", 1) == [KEY]
        assert store.log.commands.touching("order/1", 2) == []

    @needs(COMMANDS, ANY_STREAM)
    def test_a_command_runs_once(self, store: Store) -> None:
        """CP-06: the second run appends nothing. Another key, actor, endpoint or org makes another command."""
        _run(store, _command())
        with pytest.raises(errors.CommandRepeated):
            _run(store, _command())
        assert len(store.read_stream("order/1")) == 1
        others = [msgspec.structs.replace(KEY, **{field: "other"}) for field in ("org", "actor", "endpoint", "key")]
        for key in others:
            _run(store, _command(key))
        assert len(store.read_stream("order/1")) == 5

    @needs(COMMANDS, ANY_STREAM)
    def test_two_of_one_group_run_once(self, store: Store) -> None:
        """CP-06: also if both arrive in one commit."""
        twice = [Request([Part("order/1", [event()])], command=_command()) for _ in range(2)]
        first, second = store.submit(twice)
        assert isinstance(first, list)
        assert isinstance(second, errors.CommandRepeated)

    @needs(COMMANDS, ANY_STREAM)
    def test_old_commands_are_forgotten(self, store: Store) -> None:
        """CP-06: kept for a limited time. A forgotten command can run again."""
        _run(store, _command(recorded=5))
        _run(store, _command(msgspec.structs.replace(KEY, key="k2"), recorded=9))
        assert store.log.commands.forget(before=9, limit=10) == 1
        assert store.log.commands.load(KEY) is None
        _run(store, _command(recorded=10))

    @needs(MAINTENANCE, COMMANDS, ANY_STREAM)
    def test_an_erasure_takes_the_response_and_not_the_command(self, store: Store) -> None:
        """Settled 25, CP-06: a response that may repeat an erased payload is deleted. The command still runs once."""
        _run(store, _command())
        record = store.log.commands.load(KEY)
        assert record is not None
        erasure = upkeep.erasure_of(store.read_stream("order/1")[0])
        both = Maintenance(erasures=(erasure,), erased_responses=(KEY,))
        store.record([upkeep.erased_fact(erasure)], maintenance=both)
        assert store.log.commands.load(KEY) == record.without_response
        assert store.log.commands.touching("order/1", 1) == [KEY]
        with pytest.raises(errors.CommandRepeated):
            _run(store, _command())
        assert store.log.commands.forget(before=2, limit=10) == 1
        _run(store, _command())

    @needs(COMMANDS, ANY_STREAM, DURABLE)
    def test_commands_survive_reopening(self, harness: EngineHarness) -> None:
        """CP-06: the record is as durable as its events."""
        store = harness.open()
        _run(store, _command())
        record = store.log.commands.load(KEY)
        store.close()
        store = harness.open()
        assert store.log.commands.load(KEY) == record
        with pytest.raises(errors.CommandRepeated):
            _run(store, _command())

    @needs(MULTI_STREAM, ANY_STREAM)
    def test_a_requirement_is_judged_in_the_commit(self, store: Store) -> None:
        """EVT-11: a fact about the end of a stream is recorded only while that is its end."""
        store.append("order/1", events(2))
        fact = (facts.stream_about("order/1"), NewEvent(facts.SEALED, {"stream": "order/1"}))
        with pytest.raises(errors.Conflict) as refusal:
            store.record([fact], require=[("order/1", 1)])
        assert (refusal.value.expected, refusal.value.actual) == (1, 2)
        store.record([fact], require=[("order/1", 2), ("order/none", 0)])
        assert len(store.read_stream(fact[0])) == 1

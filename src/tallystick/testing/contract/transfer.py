"""Contract: a moved log is the same log: positions, links, what is gone, and the result of verification."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec
import pytest

import tallystick
from tallystick import Store, errors, moving
from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.store.capabilities import ANY_STREAM, DURABLE, MAINTENANCE, TRANSFER
from tallystick.store.transfer import Transfer
from tallystick.store.verify import verify
from tallystick.testing import upkeep
from tallystick.testing.builders import event, events, named
from tallystick.testing.contract.harness import Contract, EngineHarness, needs

FORGERIES = ("another org", "a cut of another stream", "a longer cut", "a payload left out", "a fact left out", "an id")


def with_a_past(store: Store) -> None:
    """Three streams of which parts, or all, were pruned or erased."""
    store.append("order/1", [named(number, meta={"org": "acme"}) for number in range(1, 7)])
    store.append("order/2", events(4))
    store.append("order/3", events(2))
    upkeep.snapshot(store, "order/1")
    upkeep.drop(store, upkeep.snapshot(store, "order/3"))
    upkeep.erase(store, "order/1", 5)
    upkeep.erase(store, "order/1", 2)
    upkeep.prune(store, "order/1", 1)
    store.append("order/2", events(2))
    upkeep.prune(store, "order/1", 4)
    upkeep.prune(store, "order/2", 6)
    store.append("order/3", events(2, meta={"source": "till", "source_seq": 3})[:1])


def lines_of(store: Store) -> list[bytes]:
    """A whole export, line by line."""
    return list(moving.export(store, whole=True))


def bare(lines: list[bytes]) -> list[bytes]:
    """Without the first and the last line, which name the store."""
    return lines[1:-1]


def take(store: Store, lines: list[bytes], *, batch: int = 3) -> moving.Progress:
    """Import them into an open store."""
    return moving.import_lines(store, lines, batch=batch)


def sealed_again(lines: list[bytes]) -> list[bytes]:
    """With a last line that matches the others, as a forger would write it."""
    counted = {
        "events": sum(not line.startswith(b'{"tally":') for line in lines),
        "cuts": sum(line.startswith(b'{"tally":"cut"') for line in lines),
        "pruned": sum(
            len(msgspec.json.decode(line)["events"]) for line in lines if line.startswith(b'{"tally":"pruned"')
        ),
        "sha256": hashlib.sha256(b"".join(lines[:-1])).hexdigest(),
    }
    return [*lines[:-1], msgspec.json.encode(msgspec.json.decode(lines[-1]) | counted) + b"\n"]


def _forged(lines: list[bytes], forgery: str) -> list[bytes]:
    """The lines, changed so that every link still holds."""
    if forgery == "a cut of another stream":  # nothing is left of order/2 that would have to follow
        return [line.replace(b'"cut","stream":"order/2"', b'"cut","stream":"order/9"') for line in lines]
    if forgery == "a longer cut":  # seq 5 of order/1 is said to be pruned, too
        gone = next(line for line in lines if b'"stream":"order/1","seq":5,' in line)
        link = msgspec.json.decode(gone)["link"]
        at = next(at for at, line in enumerate(lines) if line.startswith(b'{"tally":"cut","stream":"order/1"'))
        claim = msgspec.json.decode(lines[at]) | {"through": 5, "link": link, "count": 5}
        lines = [*lines[:at], msgspec.json.encode(claim) + b"\n", *lines[at + 1 :]]
        return [line for line in lines if line is not gone]
    if forgery == "another org":
        return [line.replace(b'"org":"acme","fact"', b'"org":"evil","fact"') for line in lines]
    if forgery == "an id":  # one of those that are pruned, so that it could be recorded again
        at = next(at for at, line in enumerate(lines) if line.startswith(b'{"tally":"pruned"'))
        claim = msgspec.json.decode(lines[at])
        return [*lines[:at], msgspec.json.encode(claim | {"events": claim["events"][1:]}) + b"\n", *lines[at + 1 :]]
    if forgery == "a payload left out":
        at = next(at for at, line in enumerate(lines) if b'"stream":"order/3","seq":2,' in line)
        return [*lines[:at], lines[at].replace(b'"payload":{"n":2}', b'"payload":null'), *lines[at + 1 :]]
    at = max(at for at, line in enumerate(lines) if b'"stream":"tally.stream/order:2"' in line)  # its prune
    return [*lines[:at], *lines[at + 1 :]]


class TransferContract(Contract):
    """Export and import of whole logs."""

    @pytest.fixture
    def past(self) -> Iterator[list[bytes]]:
        """A whole export of a store with a past."""
        with tallystick.open("memory:") as origin:
            with_a_past(origin)
            yield lines_of(origin)

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    def test_a_log_with_a_past_moves_in(self, store: Store, past: list[bytes]) -> None:
        """SAFE-06: the same lines come out again, and the same is gone; verification finds nothing wrong."""
        done = take(store, past)
        assert verify(store.log).problems == []
        assert bare(lines_of(store)) == bare(past)
        assert (done.skipped, done.pruned, done.snapshots, done.snapshots_left_out) == (0, 10, 1, 0)
        kept = store.stream_head("order/1")
        assert kept is not None
        assert (kept.seq, kept.org) == (6, "acme")
        with pytest.raises(errors.HistoryPruned):
            store.read()
        with pytest.raises(errors.HistoryPruned):
            store.read_stream("order/2")

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    def test_a_log_with_a_past_moves_out(self, store: Store) -> None:
        """SAFE-06: the engine as the source, before and after it reclaimed the space of pruned events."""
        with_a_past(store)
        before = lines_of(store)
        store.log.reclaim(compress_before=None, progress=lambda done: None)
        for lines in (before, lines_of(store)):
            with tallystick.open("memory:") as target:
                take(target, lines)
                assert verify(target.log).problems == []
                assert bare(lines_of(target)) == bare(lines)

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    def test_life_goes_on_after_a_move(self, store: Store, past: list[bytes]) -> None:
        """SAFE-06: a moved log can be appended to, pruned, erased and reclaimed like any other."""
        take(store, past)
        store.append("order/1", event(7, meta={"org": "acme"}), expected=6)
        store.append("order/2", events(2), expected=6)
        upkeep.erase(store, "order/1", 6)
        upkeep.prune(store, "order/1", 6)
        upkeep.prune(store, "order/2", 7)
        store.log.reclaim(compress_before=None, progress=lambda done: None)
        assert verify(store.log).problems == []
        with pytest.raises(errors.OrgMismatch):
            store.append("order/1", event(meta={"org": "other"}))
        with pytest.raises(errors.SourceRepeated):
            store.append("order/3", event(meta={"source": "till", "source_seq": 3}))
        with tallystick.open("memory:") as target:
            take(target, lines_of(store))
            assert verify(target.log).problems == []

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    def test_what_was_pruned_before_a_move_is_not_recorded_again(self, store: Store, past: list[bytes]) -> None:
        """SAFE-06: a retry of an event that was pruned in the source is refused here too. Erasures are known."""
        take(store, past)
        with pytest.raises(errors.DuplicateId, match="pruned"):
            store.append("order/1", named(3, meta={"org": "acme"}))
        assert store.append("order/1", named(5, meta={"org": "acme"})).stored == 1

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    def test_a_move_that_was_cut_off_is_noticed_and_continued(self, store: Store, past: list[bytes]) -> None:
        """SAFE-06: wherever the lines end, the import reports it. A complete import then writes nothing twice."""
        for end in range(1, len(past)):
            with pytest.raises(moving.ImportRefused, match="cut off"):
                take(store, past[:end], batch=2)
        done = take(store, past)
        assert done.imported == 0
        assert bare(lines_of(store)) == bare(past)
        assert verify(store.log).problems == []

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    @pytest.mark.parametrize("look", ["nobody", "a reader", "verification"])
    def test_a_move_that_was_interrupted_is_continued(self, harness: EngineHarness, look: str) -> None:
        """SAFE-06: after any part, even if the target was read in the meantime. What is still to come is not damage."""
        with tallystick.open("memory:") as origin:
            _erased_and_pruned(origin)
            past = lines_of(origin)
        store = harness.open()
        for end in range(2, len(past)):
            with pytest.raises(moving.ImportRefused, match="cut off"):
                take(store, past[:end], batch=1)
            if DURABLE in store.log.capabilities:
                store.close()
                store = harness.open()
            _look(store, look)
            assert store.log.damage.known() == []
        assert take(store, past, batch=1).imported == 0
        assert bare(lines_of(store)) == bare(past)
        assert verify(store.log).problems == []
        assert store.log.damage.known() == []

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    def test_a_move_is_unfinished_until_its_last_fact_is_there(self, store: Store) -> None:
        """SAFE-06: verification reports only that. If other events are there instead, it reports what is missing."""
        with tallystick.open("memory:") as origin:
            _erased_and_pruned(origin)
            past = lines_of(origin)
        for end in range(2, len(past) - 1):
            with pytest.raises(moving.ImportRefused, match="cut off"):
                take(store, past[:end], batch=1)
            if store.head():
                assert [problem.what for problem in verify(store.log).problems] == ["move"]
            if store.head() == 5:
                break
        store.append("order/8", events(9))
        assert "erasure" in {problem.what for problem in verify(store.log).problems}
        assert store.log.damage.known() != []

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    def test_snapshots_that_are_still_to_come_are_not_missing(self, harness: EngineHarness, past: list[bytes]) -> None:
        """SAFE-06: they come after all events. Until then verification reports an unfinished move."""
        store = harness.open()
        first = next(at for at, line in enumerate(past) if b'"tally":"snapshot"' in line)
        for end in (first - 1, first):
            with pytest.raises(moving.ImportRefused, match="cut off"):
                take(store, past[:end])
            if DURABLE in store.log.capabilities:
                store.close()
                store = harness.open()
            assert {problem.what for problem in verify(store.log).problems} == {"move"}
            assert store.log.damage.known() == []
        take(store, past)
        assert bare(lines_of(store)) == bare(past)
        assert verify(store.log).problems == []

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    @pytest.mark.parametrize("change", ["payload", "meta", "time", "seq", "left out", "twice", "another position"])
    def test_a_changed_line_is_refused_by_its_number(self, store: Store, past: list[bytes], change: str) -> None:
        """SAFE-06: nothing of its batch is written."""
        number = next(at for at, line in enumerate(past) if b'"stream":"order/3"' in line)
        position = msgspec.json.decode(past[number])["position"]
        place = b'"position":%d,' % position
        assert past[number].startswith(b"{" + place)
        changed: dict[str, list[bytes]] = {
            "payload": [past[number].replace(b'{"n":1}', b'{"n":2}')],
            "meta": [past[number].replace(b'"meta":{}', b'"meta":{"app":"x"}')],
            "time": [past[number].replace(b'"time":', b'"time":1')],
            "seq": [past[number].replace(b'"seq":1', b'"seq":2')],
            "left out": [],
            "twice": [past[number]] * 2,
            "another position": [past[number].replace(place, b'"position":1,')],
        }
        assert changed[change] != [past[number]]
        with pytest.raises(moving.ImportRefused) as refusal:
            take(store, past[:number] + changed[change] + past[number + 1 :], batch=1)
        assert number + 1 <= refusal.value.values["line"] <= number + 2
        assert store.head() < position + (change == "twice")

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    @pytest.mark.parametrize("forgery", FORGERIES)
    def test_a_past_without_facts_is_not_taken_over(self, store: Store, past: list[bytes], forgery: str) -> None:
        """SAFE-06: if lines are left out and claimed to be pruned or erased, the end of the import notices."""
        lines = sealed_again(_forged(past, forgery))
        assert lines != past
        with pytest.raises(moving.ImportStopped, match=r"contradicts itself|does not|is at seq|belongs to org"):
            take(store, lines)

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    def test_a_store_with_a_life_of_its_own_takes_over_nothing(self, store: Store, past: list[bytes]) -> None:
        """SAFE-06: two histories are never mixed; the reason is named, and nothing is written."""
        store.append("order/8", event())
        with pytest.raises(moving.ImportRefused, match="other events"):
            take(store, past)
        assert store.head() == 1

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    def test_a_copy_that_went_on_by_itself_is_not_continued(self, store: Store, past: list[bytes]) -> None:
        """SAFE-06: a position where copy and export hold different events is named."""
        with pytest.raises(moving.ImportRefused):
            take(store, past[:-3])
        store.append("order/8", event())
        with pytest.raises(moving.ImportRefused, match="something else"):
            take(store, past)

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    def test_a_copy_is_continued_with_what_was_appended_since(self, store: Store) -> None:
        """SAFE-06: a later export of the same store adds its end."""
        with tallystick.open("memory:") as origin:
            origin.append("order/1", events(5))
            take(store, lines_of(origin))
            origin.append("order/1", events(5))
            done = take(store, lines_of(origin))
            assert (done.imported, done.skipped) == (5, 5)
            assert bare(lines_of(store)) == bare(lines_of(origin))

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    def test_snapshots_that_do_not_come_are_recorded_as_dropped(self, store: Store) -> None:
        """SAFE-06: without the bodies the log is still intact, and its facts list what is missing."""
        with tallystick.open("memory:") as origin:
            with_a_past(origin)
            lines = list(moving.export(origin, whole=True, snapshots=False))
        done = take(store, lines)
        assert (done.snapshots, done.snapshots_left_out) == (0, 1)
        assert verify(store.log).problems == []

    @needs(TRANSFER, MAINTENANCE, ANY_STREAM)
    def test_positions_that_were_never_used_stay_unused(self, harness: EngineHarness) -> None:
        """SAFE-06: an engine may leave gaps between positions. They are not lost events, now or after reopening."""
        store = harness.open()
        store.log.receive(Transfer(after=0, events=_chained(3, 4, 9)))
        store.log.receive(Transfer(after=9, events=_chained(3, 4, 9, 12)[3:]))
        for handle in (store, harness.open(readonly=True) if DURABLE in store.log.capabilities else store):
            assert [found.position for found in handle.read().events] == [3, 4, 9, 12]
            assert [found.position for found in handle.read(after=4, until=11).events] == [9]
            assert verify(handle.log).problems == []
        assert store.append("order/1", event()).position == 13
        assert verify(store.log).problems == []


def _erased_and_pruned(store: Store) -> None:
    """The control facts come long after their events. The last event is one of them."""
    store.append("order/1", events(5))
    store.append("order/2", events(3))
    upkeep.erase(store, "order/1", 3)
    upkeep.erase(store, "order/2", 2)
    upkeep.prune(store, "order/1", 1)


def _look(store: Store, who: str) -> None:
    """Read or verify a store in the middle of a move."""
    if who == "verification":
        verify(store.log)
    if who == "a reader":
        store.read(over_pruned=True)
        for stream, after in (("order/1", 1), ("order/2", 0)):
            if store.stream_head(stream) is not None:
                store.read_stream(stream, after=after)


def _chained(*positions: int) -> tuple[Event, ...]:
    """Events of one stream at these positions."""
    previous, found = chain.GENESIS, []
    for seq, position in enumerate(positions, start=1):
        payload = b'{"n":%d}' % seq
        id_ = named(seq).id
        assert isinstance(id_, bytes)
        made = Event(position, "order/1", seq, "a", 1, id_, 1, payload, b"{}", chain.checksum(payload), b"")
        made = msgspec.structs.replace(made, link=chain.link(made, previous))
        previous = made.link
        found.append(made)
    return tuple(found)

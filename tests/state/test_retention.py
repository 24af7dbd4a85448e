"""Policies, and what they let go."""

from __future__ import annotations

import msgspec
import pytest

from tallystick import Store, errors, state
from tallystick.event import ids
from tallystick.scheduler import Scheduler
from tallystick.state import Reducer, SnapshotEntry, Until
from tallystick.state.policy import ALIASES, DAY, HOUR, PRESETS, Policy, policy
from tallystick.state.retention import expired_snapshots, retain
from tallystick.store import facts
from tallystick.store.verify import verify
from tallystick.testing.clock import ManualClock

from .conftest import CLOSED, paid


def test_presets_have_the_numbers_of_their_systems() -> None:
    """Settled 4: REACH prunes after 7 days, LH deletes after 90 and compresses after 7, COM keeps 30, CP everything."""
    kept = {"none": 0, "reach": 7, "lighthouse": 90, "community": 30, "control-plane": 0}
    assert {name: (policy(name, environment={}).prune_ns or 0) // DAY for name in ALIASES} == kept
    assert set(ALIASES.values()) == set(PRESETS)
    lighthouse = PRESETS["keep-90-days"]
    assert (lighthouse.store_events, lighthouse.store_ns, lighthouse.store_bytes) == (10_000, 6 * HOUR, 500_000_000)
    assert lighthouse.compress_ns == 7 * DAY
    assert (PRESETS["keep-7-days"].stream_events, PRESETS["keep-all"].stream_events) == (1000, 1000)
    assert PRESETS["keep-30-days"].keep_count == 7


def test_presets_keep_as_long_as_the_table_in_docs_state_says() -> None:
    """Settled 4, in plain seconds: what a preset does not name is what the policy without one has."""
    day = 86_400 * 1_000_000_000
    assert msgspec.structs.asdict(PRESETS["keep-90-days"]) == msgspec.structs.asdict(Policy()) | {
        "stream_events": None,
        "store_events": 10_000,
        "store_ns": day // 4,
        "store_bytes": 500_000_000,
        "compress_ns": 7 * day,
        "prune_ns": 90 * day,
        "keep_all_ns": day,
        "keep_daily_ns": 30 * day,
        "keep_weekly_ns": 365 * day,
        "validate_every_ns": day,
        "free_bytes": 256 * 1024 * 1024,
    }
    assert msgspec.structs.asdict(PRESETS["keep-30-days"]) == msgspec.structs.asdict(Policy()) | {
        "stream_events": None,
        "store_ns": day,
        "quiet_ns": 0,
        "prune_ns": 30 * day,
        "keep_count": 7,
        "free_bytes": 256 * 1024 * 1024,
    }
    assert PRESETS["keep-7-days"] == Policy(prune_ns=7 * day, free_bytes=256 * 1024 * 1024)
    assert PRESETS["keep-all"] == Policy()
    plain = Policy()
    assert (plain.stream_events, plain.quiet_ns, plain.retain_every_ns, plain.commands_ns) == (
        1000,
        60 * 1_000_000_000,
        day // 24,
        day,
    )


@pytest.mark.parametrize(
    ("variable", "knob", "number", "seconds"),
    [
        ("TALLY_SNAPSHOT_STORE_HOURS", "store_ns", "2", 7_200),
        ("TALLY_SNAPSHOT_QUIET_SECONDS", "quiet_ns", "2.5", 2.5),
        ("TALLY_PRUNE_DAYS", "prune_ns", "1.5", 129_600),
        ("TALLY_COMPRESS_DAYS", "compress_ns", "2", 172_800),
        ("TALLY_SNAPSHOTS_KEEP_ALL_HOURS", "keep_all_ns", "3", 10_800),
        ("TALLY_SNAPSHOTS_KEEP_DAILY_DAYS", "keep_daily_ns", "2", 172_800),
        ("TALLY_SNAPSHOTS_KEEP_WEEKLY_DAYS", "keep_weekly_ns", "2", 172_800),
        ("TALLY_RETAIN_HOURS", "retain_every_ns", "0.5", 1_800),
        ("TALLY_VALIDATE_HOURS", "validate_every_ns", "2", 7_200),
        ("TALLY_COMMANDS_HOURS", "commands_ns", "48", 172_800),
    ],
)
def test_a_variable_is_in_the_unit_of_its_name(variable: str, knob: str, number: str, seconds: float) -> None:
    """Hours, days and seconds reach the knob as nanoseconds, and no other knob moves."""
    expected = msgspec.structs.replace(Policy(), **{knob: int(seconds * 1_000_000_000)})
    assert policy(environment={variable: number}) == expected


@pytest.mark.parametrize(
    ("variable", "knob"),
    [
        ("TALLY_SNAPSHOT_STREAM_EVENTS", "stream_events"),
        ("TALLY_SNAPSHOT_STORE_EVENTS", "store_events"),
        ("TALLY_SNAPSHOT_STORE_BYTES", "store_bytes"),
        ("TALLY_SNAPSHOTS_KEEP_COUNT", "keep_count"),
        ("TALLY_CLEANUP_FREE_BYTES", "free_bytes"),
    ],
)
def test_a_count_is_taken_as_it_is(variable: str, knob: str) -> None:
    """Events, bytes and snapshots are counted by one, and one is enough."""
    for number in (1, 7):
        assert policy(environment={variable: str(number)}) == msgspec.structs.replace(Policy(), **{knob: number})
    with pytest.raises(errors.InvalidValue):
        policy(environment={variable: "0.5"})


def test_a_knob_can_be_turned_off_and_nonsense_is_refused() -> None:
    """Bad input: the variable, its value and what it must be."""
    assert policy("lighthouse", environment={"TALLY_PRUNE_DAYS": "none"}).prune_ns is None
    assert policy(environment={"TALLY_PRESET": "keep-7-days"}).prune_ns == 7 * DAY
    assert policy(environment={"TALLY_PRESET": "reach"}).prune_ns == 7 * DAY
    assert policy(environment={"TALLY_PRUNE_DAYS": "106751"}).prune_ns == 106_751 * DAY
    for variable, text in (
        ("TALLY_PRUNE_DAYS", "soon"),
        ("TALLY_PRUNE_DAYS", "-1"),
        ("TALLY_PRUNE_DAYS", "0"),
        ("TALLY_PRUNE_DAYS", "nan"),
        ("TALLY_PRUNE_DAYS", "106752"),  # more nanoseconds than int64 holds
        ("TALLY_RETAIN_HOURS", "none"),
        ("TALLY_COMMANDS_HOURS", "1"),
        ("TALLY_PRESET", "everything"),
    ):
        with pytest.raises(errors.InvalidValue):
            policy(environment={variable: text})


def _entry(
    number: int, *, made: int, protected: bool = False, base: SnapshotEntry | None = None, reducer: str = "r"
) -> SnapshotEntry:
    fact = facts.Snapshotted(
        stream="order/1",
        seq=number,
        position=number,
        link="",
        reducer=reducer,
        reducer_version=1,
        upcasters="",
        state_hash="",
        body_hash="",
        body_bytes=0,
        kind="full" if base is None else "diff",
        latest=0,
        base=base.id.hex() if base else None,
    )
    return SnapshotEntry(ids.default.mint(1, time_ns=made)[0], fact, made, protected)


def test_snapshots_thin_out_with_age() -> None:
    """LH-14: all of 24 hours, one a day for 30 days, one a week for a year, then none."""
    now = 1000 * DAY
    found = [_entry(10_000 - hour, made=now - hour * HOUR) for hour in range(0, 24 * 500, 6)]
    gone = expired_snapshots(found, PRESETS["keep-90-days"], now=now, cut=0)
    kept = [(now - entry.made) // HOUR for entry in found if entry not in gone]
    assert [hour for hour in kept if hour <= 24] == [0, 6, 12, 18, 24]
    days = [hour // 24 for hour in kept if 24 < hour <= 30 * 24]
    assert len(days) == len(set(days))
    assert 28 <= len(days) <= 30
    weeks = [hour // 168 for hour in kept if hour > 31 * 24]
    assert 46 <= len(weeks) <= 49
    assert max(kept) <= 365 * 24


@pytest.mark.parametrize(
    ("knob", "days"),
    [("keep_all_ns", 1), ("keep_daily_ns", 30), ("keep_weekly_ns", 365)],
    ids=["all", "daily", "weekly"],
)
def test_a_snapshot_goes_when_it_is_older_than_the_limit(knob: str, days: int) -> None:
    """LH-14: at exactly that age it is still kept, a nanosecond later it is not."""
    now, limit = 1000 * DAY, days * DAY
    latest, at_it, past_it = _entry(3, made=now), _entry(2, made=now - limit), _entry(1, made=now - limit - 1)
    policy = msgspec.structs.replace(PRESETS["keep-all"], **{knob: limit})
    assert expired_snapshots([latest, at_it], policy, now=now, cut=0) == []
    assert expired_snapshots([latest, past_it], policy, now=now, cut=0) == [past_it]


def test_what_is_needed_or_protected_is_never_let_go() -> None:
    """LH-14: the latest of each reducer, the one at the cut, a protected one, and the base of a kept diff stay."""
    now = 1000 * DAY
    old = now - 900 * DAY
    base = _entry(1, made=old)
    diff = _entry(9, made=old, base=base)
    at_cut, protected, other = (
        _entry(5, made=old),
        _entry(6, made=old, protected=True),
        _entry(2, made=old, reducer="o"),
    )
    lost = _entry(7, made=old)
    gone = expired_snapshots([base, diff, at_cut, protected, other, lost], PRESETS["keep-90-days"], now=now, cut=5)
    assert gone == [lost]


def test_a_count_keeps_the_last_ones() -> None:
    """COM-08: keep 7, whatever their age."""
    found = [_entry(number, made=number) for number in range(1, 21)]
    gone = expired_snapshots(found, PRESETS["keep-30-days"], now=1000 * DAY, cut=0)
    assert sorted(entry.fact.seq for entry in found if entry not in gone) == list(range(14, 21))


def _aged(store: Store, balance: Reducer, clock: ManualClock) -> None:
    """Two old steps and a young one; the snapshot covers the old ones."""
    for _ in range(2):
        store.append("order/1", [*paid(1, 2), CLOSED])
    state.make(store, balance, "order/1")
    clock.advance(seconds=8 * 86400)
    store.append("order/1", [*paid(4), CLOSED])


def test_what_is_old_and_covered_is_pruned(store: Store, balance: Reducer, clock: ManualClock) -> None:
    """EVT-12, settled 26: by recording time; the young step stays, though an import may have dated it back."""
    _aged(store, balance, clock)
    deeds, _ = retain(store, [balance], PRESETS["keep-7-days"])
    assert [(deed.what, deed.stream, deed.count) for deed in deeds] == [("pruned", "order/1", 6)]
    assert [event.seq for event in store.read_stream("order/1", after=6)] == [7, 8]


def test_a_dry_run_says_the_same_and_does_nothing(store: Store, balance: Reducer, clock: ManualClock) -> None:
    """`tally retain --dry-run`."""
    _aged(store, balance, clock)
    head = store.head()
    deeds, reclaimed = retain(store, [balance], PRESETS["keep-7-days"], dry_run=True)
    assert [(deed.what, deed.count) for deed in deeds] == [("pruned", 6)]
    assert (store.head(), store.cut("order/1"), reclaimed) == (head, None, None)


def test_no_policy_prunes_what_is_not_covered(store: Store, balance: Reducer, clock: ManualClock) -> None:
    """Settled 4: without a snapshot, or inside a step, old events stay, and it is said why."""
    store.append("order/1", [*paid(1, 2), CLOSED])
    store.append("order/2", paid(1, 2))
    state.make(store, balance, "order/2")
    clock.advance(seconds=30 * 86400)
    deeds, _ = retain(store, [balance], PRESETS["keep-7-days"])
    assert {deed.stream: deed.why_not for deed in deeds} == {
        "order/1": "reducer 'balance' has no snapshot of it",
        "order/2": "no step ended in what is old and covered",
    }
    assert store.floor() == 0


def test_the_boundary_moves_back_to_the_end_of_a_step(store: Store, balance: Reducer, clock: ManualClock) -> None:
    """EVT-08: coverage ends inside a step, so the cut falls behind the step before it."""
    store.append("order/1", [*paid(1, 2), CLOSED, *paid(3, 4)])
    state.make(store, balance, "order/1", until=Until(seq=4))
    clock.advance(seconds=30 * 86400)
    deeds, _ = retain(store, [balance], PRESETS["keep-7-days"])
    assert [deed.count for deed in deeds] == [3]


def test_retention_drops_snapshots_with_their_bodies(store: Store, balance: Reducer, clock: ManualClock) -> None:
    """LH-14: what is let go is gone from the engine too, and recorded."""
    for amount in range(10):
        store.append("order/1", paid(amount))
        state.make(store, balance, "order/1", incremental=False)
        clock.advance(seconds=86400)
    deeds, _ = retain(store, [balance], msgspec.structs.replace(PRESETS["keep-30-days"], prune_ns=None))
    assert [(deed.what, deed.count) for deed in deeds] == [("dropped snapshots", 3)]
    assert len(store.log.snapshots.ids()) == 7 == len(list(state.entries(store, "order/1")))


def test_a_policy_without_a_knob_for_snapshots_keeps_them_all(
    store: Store, balance: Reducer, clock: ManualClock
) -> None:
    """LH-14: nothing is let go that nobody asked to let go, however old it is; one knob is asking."""
    for amount in range(5):
        store.append("order/1", paid(amount))
        state.make(store, balance, "order/1", incremental=False)
        clock.advance(seconds=400 * 86400)
    none = {"keep_all_ns": None, "keep_daily_ns": None, "keep_weekly_ns": None, "keep_count": None, "prune_ns": None}
    keeps_all = msgspec.structs.replace(PRESETS["keep-all"], **none)
    assert retain(store, [balance], keeps_all)[0] == []
    assert len(list(state.entries(store, "order/1"))) == 5
    every = {"keep_all_ns": DAY, "keep_daily_ns": DAY, "keep_weekly_ns": DAY, "keep_count": 2}
    deeds, _ = retain(store, [balance], msgspec.structs.replace(keeps_all, **every), dry_run=True)
    assert [(deed.what, deed.count) for deed in deeds] == [("dropped snapshots", 3)]
    for knob, value in every.items():
        assert retain(store, [balance], msgspec.structs.replace(keeps_all, **{knob: value}), dry_run=True)[0] != []


def test_a_reducer_of_the_whole_store_covers_what_it_folds(store: Store, total: Reducer, clock: ManualClock) -> None:
    """LH-09, settled 4: up to the position of its snapshot, and no further."""
    store.append("order/1", paid(1, 2))
    clock.advance(seconds=1)
    state.make(store, total)
    store.append("order/1", paid(4))
    store.append("order/2", paid(8))
    clock.advance(seconds=30 * 86400)
    deeds, _ = retain(store, [total], PRESETS["keep-7-days"])
    assert [(deed.stream, deed.count) for deed in deeds if not deed.why_not] == [("order/1", 2)]
    assert [deed.stream for deed in deeds if deed.why_not] == ["order/2"]
    assert state.fold(store, total).value["cents"] == 15
    assert store.floor() > 0


def test_a_reducer_without_a_snapshot_of_the_store_covers_nothing(
    store: Store, total: Reducer, clock: ManualClock
) -> None:
    """Settled 4: nothing goes, and it is said why."""
    store.append("order/1", paid(1))
    clock.advance(seconds=30 * 86400)
    deeds, _ = retain(store, [total], PRESETS["keep-7-days"])
    assert [deed.why_not for deed in deeds] == ["reducer 'total' has no snapshot of the store"]
    assert store.floor() == 0


def test_streams_that_no_reducer_folds_are_counted(store: Store, clock: ManualClock) -> None:
    """SAFE-05: retention that leaves old streams alone says how many, and why."""
    for number in range(3):
        store.append(f"order/{number}", paid(1))
    clock.advance(seconds=30 * 86400)
    deeds, _ = retain(store, [], PRESETS["keep-7-days"])
    assert [(deed.count, deed.why_not) for deed in deeds] == [
        (0, "3 streams are old, and no reducer that was given folds them")
    ]


def test_retention_fires_in_the_end(store: Store, total: Reducer, clock: ManualClock) -> None:
    """LH-09, EVT-12: after 100 days under the preset that keeps 90, by the scheduler alone, the floor has moved."""
    scheduler = Scheduler(store, [total], PRESETS["keep-90-days"])
    for day in range(101):
        store.append(f"order/{day % 3}", paid(day))
        clock.advance(seconds=86400)
        scheduler.tick()
    left = [event.time for event in store.events(over_pruned=True) if event.stream.startswith("order/")]
    assert store.floor() > 0
    assert min(left) >= clock() - 92 * DAY
    assert state.fold(store, total).value["cents"] == sum(range(101))
    assert verify(store.log).ok

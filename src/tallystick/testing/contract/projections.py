"""Contract: projections and consumers on this engine. Rows and effects are the same however they run."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

from tallystick import Event, NewEvent, Store, errors
from tallystick.event import canonical
from tallystick.projections import (
    Consumer,
    Live,
    ViewReader,
    drop_letter,
    gauges,
    rebuild,
    replay_letter,
    run_inline,
)
from tallystick.store.capabilities import ANY_STREAM, DURABLE, GLOBAL_ORDER, MAINTENANCE, MULTI_STREAM
from tallystick.testing import upkeep
from tallystick.testing.contract.harness import Contract, EngineHarness, needs
from tallystick.testing.shop import (
    NOTED,
    PAID,
    PLACED,
    CustomerBalance,
    MergedFeed,
    OrderTotals,
    order_event,
)


def fill(store: Store, count: int = 30, *, first: int = 0) -> int:
    """Append events of a small shop and return the last position."""
    position = 0
    for number in range(first, first + count):
        kind = (PLACED, PAID, NOTED)[number % 3]
        made = order_event(kind, customer=f"c{number % 4}", amount=number)
        position = store.append(f"order/{number % 5}", made).position
    return position


def folded(store: Store, projection: Any) -> dict[str, bytes]:
    """What the rows must be: a simple fold of the whole log."""
    states: dict[str, Any] = {}
    for event in store.events():
        if event.type in projection.types and not (event.erased and projection.key != "stream"):
            key = event.stream if projection.key == "stream" else event.data["customer"]
            states[key] = projection.apply(states.get(key, projection.initial()), event)
    return {key: canonical.encode_state(state) for key, state in states.items()}


def stored(store: Store, projection: Any) -> dict[str, bytes]:
    """The live rows."""
    return {row.key: row.state for row in store.log.views.rows(projection.name).rows if row.state is not None}


class ProjectionContract(Contract):
    """Live, inline and rebuilt."""

    @needs(GLOBAL_ORDER, ANY_STREAM)
    @pytest.mark.parametrize("projection", [OrderTotals(), CustomerBalance()], ids=lambda item: item.name)
    def test_a_live_projection_catches_up(self, store: Store, projection: Any) -> None:
        """CP-08: rows equal a fold of the log, whatever the batches, and continue from their checkpoint."""
        fill(store)
        assert Live(store, projection, batch_events=7).catch_up() == store.head()
        assert stored(store, projection) == folded(store, projection)
        fill(store, 20, first=30)
        Live(store, projection, batch_events=3).catch_up()
        assert stored(store, projection) == folded(store, projection)

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_inline_live_and_rebuilt_rows_are_the_same(self, store: Store) -> None:
        """CP-08: one definition, run three ways, gives the same rows and the same fingerprint."""

        class InlineTotals(OrderTotals):
            pass

        run_inline(store, InlineTotals())
        fill(store)
        Live(store, OrderTotals()).catch_up()
        inline, live = ViewReader(store, "InlineTotals").fingerprint(), ViewReader(store, "OrderTotals").fingerprint()
        assert (inline.digest, inline.position) == (live.digest, store.head())
        assert rebuild(store, OrderTotals(), batch_events=4).position == store.head()
        assert ViewReader(store, "OrderTotals").fingerprint() == live
        assert inline.rows == 5

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_inline_rows_are_there_with_the_append(self, store: Store) -> None:
        """CP-08, CP-13: an append that returned shows in the rows, also after others appended without them."""
        run_inline(store, OrderTotals())
        reader = ViewReader(store, "OrderTotals")
        for amount in range(1, 5):
            done = store.append("order/1", order_event(PLACED, amount=amount))
            assert reader.get("order/1")["placed"] == sum(range(amount + 1))
            assert reader.position() == done.position
        inline, store.log.inline = store.log.inline, None
        fill(store)
        store.log.inline = inline
        store.append("order/1", order_event(PLACED))
        assert stored(store, OrderTotals()) == folded(store, OrderTotals())

    @needs(GLOBAL_ORDER, ANY_STREAM, MULTI_STREAM)
    def test_an_inline_projection_that_fails_refuses_its_own_append_alone(self, store: Store) -> None:
        """CP-05: nothing of that append is recorded, and others of the same group are."""
        from tallystick.store.prepare import Part, Request

        run_inline(store, OrderTotals())
        poison = NewEvent(PLACED, {"no": "amount"})
        requests = [
            Request([Part("order/1", [order_event(PLACED)])]),
            Request([Part("order/2", [order_event(PLACED)]), Part("order/3", [poison])]),
            Request([Part("order/4", [order_event(PLACED)])]),
        ]
        first, second, third = store.submit(requests)
        assert isinstance(first, list)
        assert isinstance(second, errors.ProjectionFailed)
        assert isinstance(third, list)
        assert [event.stream for event in store.events()] == ["order/1", "order/4"]
        assert stored(store, OrderTotals()) == folded(store, OrderTotals())

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_only_stream_keys_run_inline(self, store: Store) -> None:
        """CP-08: under another key the rows would see the events in another order than the log."""
        for projection in (CustomerBalance(), MergedFeed()):
            with pytest.raises(errors.ProjectionInvalid):
                run_inline(store, projection)

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_a_rebuild_takes_the_place_of_the_old_rows(self, store: Store) -> None:
        """CP-08: wrong rows are replaced, nothing of the old epoch is left, and the live runner continues."""
        fill(store)
        live = Live(store, OrderTotals())
        live.catch_up()
        place = live.place()
        wrong = [msgspec.structs.replace(row, state=b"0") for row in store.log.views.rows("OrderTotals").rows]
        store.log.views.write(place, wrong, previous=place.position)
        assert stored(store, OrderTotals()) != folded(store, OrderTotals())
        rebuild(store, OrderTotals(), batch_events=4)
        assert stored(store, OrderTotals()) == folded(store, OrderTotals())
        assert [item.epoch for item in store.log.views.places()] == [2]
        assert store.log.views.rows("OrderTotals", epoch=1).rows == []
        fill(store, 10)
        live.catch_up()
        assert stored(store, OrderTotals()) == folded(store, OrderTotals())

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_another_definition_is_refused(self, store: Store) -> None:
        """CP-08: version 2 does not continue rows of version 1. A rebuild replaces them, and then 1 is refused."""

        class Second(OrderTotals):
            name = "OrderTotals"
            version = 2

        fill(store)
        first = Live(store, OrderTotals())
        first.catch_up()
        with pytest.raises(errors.ProjectionChanged, match="version"):
            Live(store, Second()).catch_up()
        rebuild(store, Second())
        Live(store, Second()).catch_up()
        with pytest.raises(errors.ProjectionChanged):
            first.catch_up()

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_rows_of_another_history_are_refused(self, store: Store) -> None:
        """CP-07, CP-08: the log of a restored backup is not the one that the rows were made from."""
        fill(store)
        Live(store, OrderTotals()).catch_up()
        place = store.log.views.place("OrderTotals")
        assert place is not None
        forged = msgspec.structs.replace(place, link=bytes(32))
        store.log.views.write(forged, [], previous=place.position)
        with pytest.raises(errors.WrongStore):
            Live(store, OrderTotals()).catch_up()
        with pytest.raises(errors.WrongStore):
            ViewReader(store, "OrderTotals").wait_for(1, timeout=0)

    @needs(MAINTENANCE, GLOBAL_ORDER, ANY_STREAM)
    def test_a_pruned_history_is_refused(self, store: Store) -> None:
        """Settled 17: nothing is folded from the rest of a log. Rows past the gap continue from their checkpoint."""
        fill(store)
        live = Live(store, OrderTotals())
        live.catch_up()
        upkeep.prune(store, "order/1", 2)
        with pytest.raises(errors.HistoryPruned):
            rebuild(store, OrderTotals())
        with pytest.raises(errors.HistoryPruned):
            Live(store, CustomerBalance()).catch_up()
        fill(store, 6, first=30)
        live.catch_up()
        assert ViewReader(store, "OrderTotals").position() == store.head()
        assert [place.live for place in store.log.views.places() if place.projection == "OrderTotals"] == [True]

    @needs(MAINTENANCE, GLOBAL_ORDER, ANY_STREAM)
    @pytest.mark.parametrize("projection", [OrderTotals(), CustomerBalance()], ids=lambda item: item.name)
    def test_an_erased_payload_leaves_the_rows(self, store: Store, projection: Any) -> None:
        """Settled 25: a row that used the payload is dropped with it, and folded again without it."""
        fill(store)
        Live(store, projection).catch_up()
        before = stored(store, projection)
        upkeep.erase(store, "order/1", 1)
        touched = before.keys() - stored(store, projection).keys()
        assert len(touched) == 1
        Live(store, projection).catch_up()
        after = stored(store, projection)
        assert after == folded(store, projection)
        assert after != before
        fingerprint = ViewReader(store, projection.name).fingerprint()
        rebuild(store, projection)
        assert ViewReader(store, projection.name).fingerprint() == fingerprint

    @needs(MAINTENANCE, GLOBAL_ORDER, ANY_STREAM)
    def test_a_batch_read_before_an_erasure_is_not_stored_after_it(self, store: Store) -> None:
        """Settled 25: a runner that has read the erased payload cannot store what it computed."""
        fill(store)
        done: list[Any] = []

        class Slow(OrderTotals):
            def apply(self, state: Any, event: Event) -> Any:
                if not done:
                    done.append(upkeep.erase(store, "order/1", 1))
                return super().apply(state, event)

        live = Live(store, Slow())
        with pytest.raises(errors.ViewMoved):
            live.step()
        live.catch_up()
        assert stored(store, Slow()) == folded(store, Slow())

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_late_events_are_put_in_their_place(self, store: Store) -> None:
        """COM-07: with order "lamport" the rows depend on the set of events alone, not on their arrival."""
        for lamport in (5, 3, 9, 1, 7, 2, 8):
            made = order_event(PLACED, customer=f"c{lamport % 2}", amount=lamport, lamport=lamport)
            store.append(f"order/{lamport}", made)
            Live(store, MergedFeed()).catch_up()
        reader = ViewReader(store, "MergedFeed")
        assert (reader.get("c1"), reader.get("c0")) == ([1, 3, 5, 7, 9], [2, 8])
        fingerprint = reader.fingerprint()
        rebuild(store, MergedFeed())
        assert reader.fingerprint() == fingerprint

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_two_runners_do_the_work_once(self, store: Store) -> None:
        """CP-08: two live runners, while a writer appends, leave exactly the rows of a fold."""
        fill(store)
        failures: list[BaseException] = []

        def work() -> None:
            try:
                runner = Live(store, OrderTotals(), batch_events=2)
                while runner.catch_up() < 90:
                    pass
            except BaseException as problem:
                failures.append(problem)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        fill(store, 60, first=30)
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert stored(store, OrderTotals()) == folded(store, OrderTotals())

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_lag_is_visible_and_waiting_is_bounded(self, store: Store) -> None:
        """CP-13, CP-14: lag in events and seconds. Read-your-writes waits for a position, within a time limit."""
        fill(store, 10)
        live, reader = Live(store, OrderTotals()), ViewReader(store, "OrderTotals")
        assert (reader.lag().events, reader.lag().position) == (store.head(), 0)
        assert reader.lag().seconds > 0
        with pytest.raises(errors.NotCaughtUp):
            reader.wait_for(store.head(), timeout=0.02)
        runner = threading.Timer(0.05, live.catch_up)
        runner.start()
        assert reader.wait_for(store.head(), timeout=60) == store.head()
        runner.join()
        assert (live.lag().events, live.lag().seconds) == (0, 0.0)
        assert [(gauge.kind, gauge.name, gauge.lag.events) for gauge in gauges(store)] == [
            ("projection", "OrderTotals", 0)
        ]

    @needs(GLOBAL_ORDER, ANY_STREAM)
    @pytest.mark.parametrize("customer", [None, 7, True, 1.5, ["c"], {"c": 1}, "x" * 501])
    def test_a_key_that_is_no_text_is_refused_by_name(self, store: Store, customer: Any) -> None:
        """CP-08: the runner stops at that event. The error names the event and the type it found, not the value."""
        fill(store, 5)
        done = store.append("order/9", order_event(PLACED, customer=customer))
        with pytest.raises(errors.ProjectionKeyInvalid) as refused:
            Live(store, CustomerBalance()).catch_up()
        assert (refused.value.position, refused.value.seq) == (done.position, 1)


class ConsumerContract(Contract):
    """Effects outside of the store."""

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_a_consumer_sees_every_event_in_order(self, store: Store) -> None:
        """CP-07: it catches up, then sees new events. Its checkpoint is durable and its own."""
        fill(store)
        seen: list[int] = []
        consumer = Consumer(store, "mailer", lambda event: seen.append(event.position))
        assert consumer.catch_up() == store.head()
        fill(store, 5)
        assert consumer.lag().events > 0
        Consumer(store, "mailer", lambda event: seen.append(event.position)).catch_up()
        assert seen == [event.position for event in store.events()]
        assert (consumer.lag().events, consumer.lag().seconds) == (0, 0.0)

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_the_cursor_is_saved_after_the_effect(self, store: Store) -> None:
        """CP-07: a consumer that dies in the middle repeats what it had not saved, and skips nothing."""
        fill(store)
        seen: list[int] = []

        def dying(event: Event) -> None:
            if len(seen) == 12:
                raise KeyboardInterrupt
            seen.append(event.position)

        with pytest.raises(KeyboardInterrupt):
            Consumer(store, "mailer", dying, save_every=5).catch_up()
        assert store.load_checkpoint("mailer") == seen[9]
        Consumer(store, "mailer", lambda event: seen.append(event.position)).catch_up()
        assert sorted(set(seen)) == [event.position for event in store.events()]
        assert len(seen) == store.log.head() + 2

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_a_poison_event_is_parked_and_the_rest_goes_on(self, store: Store) -> None:
        """CP-07: it is tried n times, stored as a dead letter with the reason, and replayed or dropped later."""
        fill(store, 6)
        poison = [event.position for event in store.events()][2]
        tried: list[int] = []
        waits: list[float] = []

        def choosy(event: Event) -> None:
            tried.append(event.position)
            if event.position == poison:
                raise ValueError("not this one")

        consumer = Consumer(store, "mailer", choosy, attempts=4, retry_ms=10, sleep=waits.append)
        assert consumer.catch_up() == store.head()
        assert (tried.count(poison), len(tried)) == (4, 9)
        assert waits == [0.01, 0.02, 0.04]
        (letter,) = store.log.dead_letters.letters("mailer", limit=100)
        assert (letter.position, letter.attempts, letter.reason) == (poison, 4, "ValueError: not this one")
        assert [gauge.dead_letters for gauge in gauges(store)] == [1]
        with pytest.raises(ValueError, match="not this one"):
            replay_letter(store, "mailer", poison, choosy)
        assert len(store.log.dead_letters.letters(limit=100)) == 1
        assert replay_letter(store, "mailer", poison, lambda event: None).position == poison
        with pytest.raises(errors.NoDeadLetter):
            drop_letter(store, "mailer", poison)
        assert store.log.dead_letters.letters(limit=100) == []

    @needs(MAINTENANCE, GLOBAL_ORDER, ANY_STREAM)
    def test_a_letter_does_not_keep_what_was_erased(self, store: Store) -> None:
        """Settled 25: the reason of a dead letter may quote the payload, and is deleted with it."""
        fill(store, 3)

        def quoting(event: Event) -> None:
            raise ValueError(repr(event.data))

        Consumer(store, "mailer", quoting, attempts=1).catch_up()
        upkeep.erase(store, "order/1", 1)
        (letter,) = [letter for letter in store.log.dead_letters.letters(limit=100) if letter.stream == "order/1"]
        assert letter.reason == "the event was erased"

    @needs(GLOBAL_ORDER, ANY_STREAM, DURABLE)
    def test_a_consumer_goes_on_after_a_restart(self, harness: EngineHarness) -> None:
        """CP-07: in another process it continues after what was saved."""
        seen: list[int] = []
        for _ in range(3):
            with harness.open() as store:
                fill(store, 4)
                Consumer(store, "mailer", lambda event: seen.append(event.position)).catch_up()
                known = [event.position for event in store.events()]
        assert seen == known

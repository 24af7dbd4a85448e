"""Contract: rows and dead letters are counted, so one that vanished from storage, or was added there, is noticed."""

from __future__ import annotations

import random

import msgspec
import pytest

from tallystick import Store, errors
from tallystick.projections import Live, ViewReader, rebuild, recount_letters, replay_letter
from tallystick.projections.gauges import gauges
from tallystick.projections.retire import drop_projection
from tallystick.store import deadletters
from tallystick.store.capabilities import ANY_STREAM, DURABLE, GLOBAL_ORDER
from tallystick.store.deadletters import DeadLetter
from tallystick.store.side_check import side_problems
from tallystick.store.verify import verify
from tallystick.store.views import Definition, Place, ViewRow
from tallystick.testing.builders import event, events
from tallystick.testing.contract.harness import Contract, EngineHarness, needs
from tallystick.testing.contract.tampered import EventCount

ROWS_GONE = {
    "a row": "DELETE FROM view_rows WHERE key = 'run/a'",
    "all rows": "DELETE FROM view_rows",
    "the key of a row": "UPDATE view_rows SET key = 'run/c' WHERE key = 'run/a'",
    "a row that nobody wrote": "UPDATE views SET row_count = row_count - 1",
    "the count": "UPDATE views SET row_count = 0",
}
LETTERS_GONE = {
    "a letter": "DELETE FROM dead_letters WHERE position = 3",
    "all letters": "DELETE FROM dead_letters",
    "a letter that nobody parked": "UPDATE kept_counts SET number = number - 1",
    "the count": "DELETE FROM kept_counts",
}
DEFINITION = Definition(kind="rows", version=1, key="stream", order="position", types=["a"], upcasters="").text
KEYS = "abcdefgh"
STEPS = 60


def _letter(position: int, consumer: str = "mailer") -> DeadLetter:
    return DeadLetter(consumer, position, "run/a", position, "thing.happened", 5, 1, "no")


class VanishedContract(Contract):
    """Rows and dead letters are as many as were written."""

    def _robbed(self, harness: EngineHarness, statement: str) -> Store:
        """A store with rows of two keys, one of which was deleted in storage."""
        with harness.open() as store:
            store.append("run/a", events(3))
            store.append("run/b", events(2))
            Live(store, EventCount()).catch_up()
        harness.tamper_beside(statement)
        return harness.open()

    @needs(DURABLE, GLOBAL_ORDER)
    @pytest.mark.security
    @pytest.mark.parametrize("gone", ROWS_GONE)
    def test_rows_that_vanished_are_missed(self, harness: EngineHarness, gone: str) -> None:
        """SAFE-01: listings and lookups are refused instead of incomplete, and no state starts again from nothing."""
        store = self._robbed(harness, ROWS_GONE[gone])
        view = ViewReader(store, "EventCount")
        store.append("run/new", event())
        for use in (
            lambda: dict(view.items()),
            lambda: view.rows(limit=10),
            lambda: view.get("run/nobody"),
            view.fingerprint,
            Live(store, EventCount()).catch_up,
        ):
            with pytest.raises(errors.RowsDamaged):
                use()
        assert [problem.what for problem in side_problems(store.log)] == ["rows"]
        assert verify(store.log).ok
        rebuild(store, EventCount())
        assert dict(view.items()) == {"run/a": {"n": 3}, "run/b": {"n": 2}, "run/new": {"n": 1}}
        assert side_problems(store.log) == []

    @needs(DURABLE, GLOBAL_ORDER)
    @pytest.mark.security
    @pytest.mark.parametrize("gone", ["a row", "all rows"])
    def test_a_reader_that_has_read_everything_misses_them(self, harness: EngineHarness, gone: str) -> None:
        """SAFE-01: a complete listing and a fingerprint count the rows each time."""
        store = harness.open()
        store.append("run/a", events(3))
        store.append("run/b", events(2))
        Live(store, EventCount()).catch_up()
        view = ViewReader(store, "EventCount")
        assert (dict(view.items()), view.get("run/c")) == ({"run/a": {"n": 3}, "run/b": {"n": 2}}, None)
        harness.tamper_beside(ROWS_GONE[gone])
        for use in (lambda: dict(view.items()), view.fingerprint):
            with pytest.raises(errors.RowsDamaged):
                use()
        drop_projection(store, "EventCount")
        Live(store, EventCount()).catch_up()
        assert dict(view.items()) == {"run/a": {"n": 3}, "run/b": {"n": 2}}

    @needs(GLOBAL_ORDER)
    @pytest.mark.parametrize("seed", range(4))
    def test_the_count_is_kept_whatever_is_done(self, store: Store, seed: int) -> None:
        """CP-08: for rows that are written, overwritten, removed, dropped and refolded, and for discarded epochs."""
        dice, views = random.Random(seed), store.log.views
        place = Place(projection="p", epoch=1, live=True, definition=DEFINITION, store_id=store.log.store_id)
        views.begin(place)
        model: dict[str, bytes | None] = {}
        for step in range(1, STEPS):
            keys = dice.sample(KEYS, dice.randint(1, 4))
            if dice.random() < 0.2:
                views.drop("p", keys)
                model |= {key: None for key in keys if key in model}
            else:
                states = {key: dice.choice([None, b"{}", b"[1]"]) for key in keys}
                now = views.place("p")
                assert now is not None
                moved = msgspec.structs.replace(now, position=step, link_position=step, link=b"l" * 32)
                views.write(moved, [ViewRow(key, state) for key, state in states.items()], previous=now.position)
                model |= states
                model = {key: state for key, state in model.items() if state is not None or key not in states}
            served = {row.key: row.state for row in views.rows("p").rows}
            assert views.counted("p") == len(served)
            assert served == {key: state for key, state in model.items() if state is not None}
        assert views.counted("q") is None
        while views.discard("p", 1, limit=2, live=True) == 2:
            assert views.counted("p", epoch=1) is None

    def _parked(self, harness: EngineHarness, statement: str) -> Store:
        with harness.open() as store:
            store.append("run/a", events(3))
            store.append("run/a", events(4))
            for letter in (_letter(3), _letter(5), _letter(3, "other"), _letter(5)):
                store.log.dead_letters.park(letter)
        harness.tamper_beside(statement)
        return harness.open()

    @needs(DURABLE, GLOBAL_ORDER)
    @pytest.mark.security
    @pytest.mark.parametrize("gone", LETTERS_GONE)
    def test_dead_letters_that_vanished_are_missed(self, harness: EngineHarness, gone: str) -> None:
        """SAFE-01: listings are refused until an operator has them counted again, which is recorded."""
        store = self._parked(harness, LETTERS_GONE[gone])
        letters = store.log.dead_letters
        for use in (
            lambda: letters.letters(limit=100),
            lambda: letters.letters("other", limit=100),
            lambda: list(deadletters.every(letters, "mailer")),
            lambda: replay_letter(store, "mailer", 4, lambda event: None),
        ):
            with pytest.raises(errors.DeadLettersDamaged):
                use()
        assert [problem.what for problem in side_problems(store.log)] == ["dead letters"]
        left = letters.counts().found
        assert sum(gauge.dead_letters for gauge in gauges(store)) == left
        letters.park(_letter(6))
        fact = recount_letters(store, reason="the disk was replaced")
        assert (fact.found, len(letters.letters(limit=100))) == (left + 1, left + 1)
        assert [found.data["reason"] for found in store.read_stream("tally.store/readers")] == ["the disk was replaced"]
        assert side_problems(store.log) == []

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_letters_are_counted(self, store: Store) -> None:
        """CP-07: storing a letter twice, or removing it twice, counts once."""
        letters = store.log.dead_letters
        for letter in (_letter(3), _letter(5), _letter(3, "other"), _letter(5)):
            letters.park(letter)
        letters.redact(3, "erased")
        assert (letters.remove("mailer", 3), letters.remove("mailer", 3)) == (True, False)
        counts = letters.counts()
        assert (counts.kept, counts.by_consumer) == (2, {"mailer": 1, "other": 1})
        assert letters.load("mailer", 3) is None

"""Contract: the rows of projections. They change with their checkpoint, and epochs are switched atomically."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tallystick import Store, errors
from tallystick.store.capabilities import ANY_STREAM, DURABLE, GLOBAL_ORDER
from tallystick.store.deadletters import DeadLetter
from tallystick.store.views import Definition, Place, ViewRow
from tallystick.testing.contract.harness import Contract, EngineHarness, needs

DEFINITION = Definition(kind="rows", version=1, key="stream", order="position", types=["a"], upcasters="").text
TEXTS = ("a", "a b", "a'--", "Größe", "\n", "\x01", "😀", "Z", "~", "x" * 500)


def _place(store: Store, epoch: int = 1, **changed: Any) -> Place:
    fields: dict[str, Any] = {
        "projection": "p",
        "live": False,
        "definition": DEFINITION,
        "store_id": store.log.store_id,
    }
    return Place(epoch=epoch, **(fields | changed))


def _begun(store: Store, epoch: int = 1, **changed: Any) -> Place:
    place = _place(store, epoch, **changed)
    store.log.views.begin(place)
    return place


def _moved(place: Place, position: int) -> Place:
    return msgspec.structs.replace(place, position=position, link_position=position, link=bytes([position]) * 32)


def _rows(*keys: str, state: bytes = b"{}") -> list[ViewRow]:
    return [ViewRow(key, state) for key in keys]


class ViewContract(Contract):
    """Rows and checkpoints."""

    @needs(GLOBAL_ORDER)
    def test_there_is_nothing_at_first(self, store: Store) -> None:
        """CP-08: a projection that never ran has no checkpoint and no rows."""
        views = store.log.views
        assert (views.place("p"), views.places()) == (None, [])
        assert views.rows("p").place is None
        assert views.rows("p", epoch=3, keys=["a"]).rows == []
        assert views.dropped("p", 1, limit=10) == []
        assert views.discard("p", 1, limit=10) == 0

    @needs(GLOBAL_ORDER)
    def test_rows_move_with_their_place(self, store: Store) -> None:
        """CP-08: rows and checkpoint are stored together, and read together."""
        views, place = store.log.views, _begun(store, live=True)
        views.write(_moved(place, 5), _rows("a", "b"), previous=0)
        found = views.rows("p")
        assert found.place == _moved(place, 5)
        assert found.rows == _rows("a", "b")
        views.write(_moved(place, 7), [ViewRow("b", b"[1]", b"m"), *_rows("c")], previous=5)
        assert views.rows("p").rows == [ViewRow("a", b"{}"), ViewRow("b", b"[1]", b"m"), ViewRow("c", b"{}")]
        assert views.place("p") == _moved(place, 7)

    @needs(GLOBAL_ORDER)
    def test_a_batch_is_filled_in_parts_and_seen_whole(self, store: Store) -> None:
        """PIPE-07: a batch is invisible until it is written. A repeated part counts once. Removed keys are deleted."""
        views, place = store.log.views, _begun(store, live=True)
        views.write(_moved(place, 5), _rows("a", "b"), previous=0)
        at = _moved(place, 5)
        views.fill_batch(at, b"one", [ViewRow("c", b"[1]", b"m"), *_rows("d", state=b"[]"), ViewRow("b", None)])
        views.fill_batch(at, b"one", [ViewRow("c", b"[2]", b"n"), ViewRow("never", None)])
        views.fill_batch(at, b"other", _rows("e"))
        assert (views.place("p"), views.rows("p").rows) == (at, _rows("a", "b"))
        assert views.rows("p", keys=["c", "d", "e"]).rows == []
        views.write_batch(_moved(place, 9), b"one", rows=4, previous=5)
        assert views.counted(place.projection, epoch=place.epoch) == len(
            views.rows(place.projection, epoch=place.epoch).rows
        )
        assert views.rows("p").rows == [ViewRow("a", b"{}"), ViewRow("c", b"[2]", b"n"), ViewRow("d", b"[]")]
        assert views.place("p") == _moved(place, 9)
        with pytest.raises(errors.ViewMoved, match="a batch of 0,"):  # what else had been filled is gone
            views.write_batch(_moved(place, 12), b"other", rows=1, previous=9)
        views.write_batch(_moved(place, 12), b"nothing", rows=0, previous=9)
        assert views.place("p") == _moved(place, 12)

    @needs(GLOBAL_ORDER)
    def test_half_a_batch_is_not_written(self, store: Store) -> None:
        """PIPE-07: if a row is missing, or there is one too many, neither rows nor checkpoint change."""
        views, place = store.log.views, _begun(store, live=True)
        views.fill_batch(place, b"one", _rows("a", "b"))
        for count in (1, 3):
            with pytest.raises(errors.ViewMoved, match="a batch of 2,"):
                views.write_batch(_moved(place, 5), b"one", rows=count, previous=0)
        assert (views.place("p"), views.rows("p").rows) == (place, [])
        views.write_batch(_moved(place, 5), b"one", rows=2, previous=0)
        assert views.rows("p").rows == _rows("a", "b")

    @needs(GLOBAL_ORDER)
    def test_an_older_batch_is_neither_filled_nor_written(self, store: Store) -> None:
        """PIPE-07: a late task or driver finds that the checkpoint has moved, and changes nothing."""
        views, place = store.log.views, _begun(store, live=True)
        views.fill_batch(place, b"old", _rows("a", state=b"1"))
        views.fill_batch(place, b"new", _rows("a", state=b"2"))
        views.write_batch(_moved(place, 5), b"new", rows=1, previous=0)
        with pytest.raises(errors.ViewMoved):
            views.fill_batch(place, b"old", _rows("b", state=b"1"))
        with pytest.raises(errors.ViewMoved):
            views.write_batch(_moved(place, 5), b"old", rows=1, previous=0)
        assert views.rows("p").rows == _rows("a", state=b"2")

    @needs(GLOBAL_ORDER)
    def test_a_drop_and_a_discard_empty_batches(self, store: Store) -> None:
        """PIPE-07: rows that tasks computed before an erasure may contain the payload, and are not stored after it."""
        views, place = store.log.views, _begun(store, live=True)
        views.fill_batch(place, b"one", _rows("a"))
        views.drop("p", ["b"])
        with pytest.raises(errors.ViewMoved):
            views.fill_batch(place, b"one", _rows("c"))
        (after,) = views.places()
        with pytest.raises(errors.ViewMoved, match="a batch of 0,"):
            views.write_batch(_moved(after, 5), b"one", rows=1, previous=0)
        views.fill_batch(after, b"one", _rows("a"))
        assert views.discard("p", 1, limit=10, live=True) == 0
        with pytest.raises(errors.ViewMoved):
            views.fill_batch(after, b"one", _rows("a"))
        again = _begun(store, live=True, drops=after.drops)
        with pytest.raises(errors.ViewMoved, match="a batch of 0,"):
            views.write_batch(_moved(again, 5), b"one", rows=1, previous=0)

    @needs(GLOBAL_ORDER)
    def test_two_writers_of_one_epoch_are_noticed(self, store: Store) -> None:
        """CP-08: a write whose checkpoint has moved stores neither rows nor checkpoint."""
        views, place = store.log.views, _begun(store, live=True)
        views.write(_moved(place, 5), _rows("a"), previous=0)
        for previous in (0, 4, 6):
            with pytest.raises(errors.ViewMoved):
                views.write(_moved(place, 9), _rows("b"), previous=previous)
        with pytest.raises(errors.ViewMoved):
            views.write(_moved(_place(store, 2), 9), _rows("b"), previous=0)
        assert (views.place("p"), views.rows("p").rows) == (_moved(place, 5), _rows("a"))

    @needs(GLOBAL_ORDER)
    def test_one_epoch_is_live(self, store: Store) -> None:
        """CP-08: an epoch is created once, and only one is live."""
        _begun(store, 1, live=True)
        for epoch, live in ((1, False), (1, True), (2, True)):
            with pytest.raises(errors.ViewMoved):
                store.log.views.begin(_place(store, epoch, live=live))
        _begun(store, 2)
        _begun(store, 1, live=True, projection="q")
        assert [(place.projection, place.epoch, place.live) for place in store.log.views.places()] == [
            ("p", 1, True),
            ("p", 2, False),
            ("q", 1, True),
        ]

    @needs(GLOBAL_ORDER)
    def test_a_staged_epoch_is_not_seen(self, store: Store) -> None:
        """CP-08: a rebuild next to the live rows is invisible until it replaces them."""
        views, live, staged = store.log.views, _begun(store, 1, live=True), _begun(store, 2)
        views.write(_moved(live, 5), _rows("old"), previous=0)
        views.write(_moved(staged, 9), _rows("new"), previous=0)
        assert views.rows("p").rows == _rows("old")
        assert views.rows("p", epoch=2).rows == _rows("new")
        views.switch("p", 2, over=1)
        assert views.rows("p").rows == _rows("new")
        assert views.place("p") == msgspec.structs.replace(_moved(staged, 9), live=True)

    @needs(GLOBAL_ORDER)
    def test_a_runner_does_not_go_on_in_an_epoch_that_was_switched_away(self, store: Store) -> None:
        """CP-08, PIPE-07: nobody would see what it wrote there, and it would report that the rows are up to date."""
        views, live, staged = store.log.views, _begun(store, 1, live=True), _begun(store, 2)
        views.fill_batch(live, b"one", _rows("a"))
        views.switch("p", 2, over=1)
        with pytest.raises(errors.ViewMoved):
            views.write(_moved(live, 5), _rows("a"), previous=0)
        with pytest.raises(errors.ViewMoved):
            views.fill_batch(live, b"one", _rows("b"))
        with pytest.raises(errors.ViewMoved):
            views.write_batch(_moved(live, 5), b"one", rows=1, previous=0)
        with pytest.raises(errors.ViewMoved):
            views.write(_moved(staged, 5), _rows("a"), previous=0)
        assert [(place.epoch, place.live, place.position) for place in views.places()] == [(1, False, 0), (2, True, 0)]

    @needs(GLOBAL_ORDER)
    def test_readers_never_go_back_in_time(self, store: Store) -> None:
        """CP-08: an epoch that lags behind the live one cannot replace it, nor can one that is gone or not expected."""
        views, live, staged = store.log.views, _begun(store, 1, live=True), _begun(store, 2)
        views.write(_moved(live, 5), [], previous=0)
        views.write(_moved(staged, 4), [], previous=0)
        for epoch, over in ((2, 1), (3, 1), (2, None)):
            with pytest.raises(errors.ViewMoved):
                views.switch("p", epoch, over=over)
        views.write(_moved(staged, 5), [], previous=4)
        with pytest.raises(errors.ViewMoved):
            views.switch("p", 2, over=3)
        views.switch("p", 2, over=1)
        assert [(place.epoch, place.live) for place in views.places()] == [(1, False), (2, True)]

    @needs(GLOBAL_ORDER)
    def test_a_first_epoch_becomes_live(self, store: Store) -> None:
        """CP-08: a rebuild can run before any live runner."""
        _begun(store, 1)
        store.log.views.switch("p", 1, over=None)
        assert store.log.views.place("p") is not None

    @needs(GLOBAL_ORDER)
    def test_an_epoch_is_discarded_in_steps(self, store: Store) -> None:
        """CP-08: once that has begun, nobody can write or switch to it. Its number is in use until all rows go."""
        views, place = store.log.views, _begun(store, 1)
        views.write(_moved(place, 5), _rows(*"abcde"), previous=0)
        assert views.discard("p", 1, limit=2) == 2
        with pytest.raises(errors.ViewMoved):
            views.write(_moved(place, 6), _rows("f"), previous=5)
        with pytest.raises(errors.ViewMoved):
            views.switch("p", 1, over=None)
        with pytest.raises(errors.ViewMoved):
            _begun(store, 1)
        assert [item.discarded for item in views.places()] == [True]
        assert (views.discard("p", 1, limit=3), views.discard("p", 1, limit=3)) == (3, 0)
        assert views.places() == []
        _begun(store, 1)
        assert views.rows("p", epoch=1).rows == []

    @needs(GLOBAL_ORDER)
    def test_a_live_epoch_is_not_discarded_by_mistake(self, store: Store) -> None:
        """CP-08: an unfinished rebuild that became live in the meantime is not discarded."""
        views, place = store.log.views, _begun(store, 1, live=True)
        views.write(_moved(place, 5), _rows("a", "b"), previous=0)
        assert views.discard("p", 1, limit=9) == 0
        assert views.rows("p").rows == _rows("a", "b")
        assert views.discard("p", 1, limit=1, live=True) == 1
        assert (views.place("p"), len(views.places())) == (None, 1)
        assert views.discard("p", 1, limit=9) == 1
        assert views.places() == []

    @needs(GLOBAL_ORDER)
    def test_rows_are_read_by_key_and_by_range(self, store: Store) -> None:
        """CP-08: ranges are in the order of the UTF-8 bytes of the keys, open below and closed above, in pages."""
        views, place = store.log.views, _begun(store, 1, live=True)
        views.write(_moved(place, 5), _rows(*TEXTS), previous=0)
        ordered = sorted(TEXTS, key=str.encode)
        assert [row.key for row in views.rows("p").rows] == ordered
        for at, after in enumerate(ordered[:-1]):
            (row,) = views.rows("p", after=after, limit=1).rows
            assert row.key == ordered[at + 1]
            assert [row.key for row in views.rows("p", after=after, until=ordered[-2]).rows] == ordered[at + 1 : -1]
        assert [row.key for row in views.rows("p", keys=["~", "none", "a", "a"]).rows] == ["a", "~"]
        assert views.rows("p", keys=[]).rows == []

    @needs(GLOBAL_ORDER)
    def test_a_state_is_kept_byte_for_byte(self, store: Store) -> None:
        """CP-08: states are the canonical bytes of any JSON value, and are returned unchanged."""
        views, place = store.log.views, _begun(store, 1, live=True)
        states = [b"null", b'{"a":1.0}', b"-0.0", '"Größe"'.encode(), b'{"big":9007199254740993}', b"[]"]
        rows = [ViewRow(str(number), state) for number, state in enumerate(states)]
        views.write(_moved(place, 5), rows, previous=0)
        assert views.rows("p").rows == rows

    @needs(GLOBAL_ORDER)
    def test_a_row_without_a_state_is_removed(self, store: Store) -> None:
        """Settled 25: a key with no event left has no row."""
        views, place = store.log.views, _begun(store, 1, live=True)
        views.write(_moved(place, 5), _rows("a", "b"), previous=0)
        views.write(_moved(place, 6), [ViewRow("a", None), ViewRow("b", b"1")], previous=5)
        assert views.rows("p", keys=["a", "b"]).rows == [ViewRow("b", b"1")]

    @needs(GLOBAL_ORDER)
    def test_dropped_states_are_gone_in_every_epoch(self, store: Store) -> None:
        """Settled 25: states that may contain an erased payload are removed. A runner that used it stores nothing."""
        views, live, staged = store.log.views, _begun(store, 1, live=True), _begun(store, 2)
        for place in (live, staged):
            views.write(_moved(place, 5), _rows("a", "b"), previous=0)
        views.drop("p", ["a", "none"])
        assert views.rows("p").rows == _rows("b")
        assert views.rows("p", keys=["a"]).rows == [ViewRow("a", None)]
        assert [views.dropped("p", epoch, limit=9) for epoch in (1, 2)] == [["a"], ["a"]]
        with pytest.raises(errors.ViewMoved):
            views.write(_moved(live, 6), _rows("a"), previous=5)
        views.write(msgspec.structs.replace(_moved(live, 6), drops=1), _rows("a"), previous=5)
        assert (views.dropped("p", 1, limit=9), views.dropped("p", 2, limit=9)) == ([], ["a"])

    @needs(GLOBAL_ORDER, DURABLE)
    def test_rows_survive_reopening(self, harness: EngineHarness) -> None:
        """CP-08: a projection continues where it was."""
        with harness.open() as store:
            place = _begun(store, 1, live=True)
            store.log.views.write(_moved(place, 5), _rows("a"), previous=0)
        again = harness.open().log.views.rows("p")
        assert (again.place, again.rows) == (_moved(place, 5), _rows("a"))


def _letter(consumer: str = "mailer", position: int = 3, **changed: Any) -> DeadLetter:
    return msgspec.structs.replace(DeadLetter(consumer, position, "run/a", 2, "a", 3, 99, "no"), **changed)


class DeadLetterContract(Contract):
    """Dead letters of consumers."""

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_a_letter_is_kept_until_it_is_removed(self, store: Store) -> None:
        """CP-07: letters are found by consumer and position, and listed in order of position."""
        letters = store.log.dead_letters
        assert letters.load("mailer", 3) is None
        for letter in (_letter(position=7), _letter(), _letter("other")):
            letters.park(letter)
        assert letters.load("mailer", 3) == _letter()
        assert letters.letters(limit=100) == [_letter(), _letter("other"), _letter(position=7)]
        assert letters.letters("mailer", limit=100) == [_letter(), _letter(position=7)]
        assert letters.letters(after=3, limit=5) == [_letter(position=7)]
        assert letters.letters(limit=1) == [_letter()]
        assert (letters.remove("mailer", 3), letters.remove("mailer", 3)) == (True, False)
        assert letters.letters(limit=100) == [_letter("other"), _letter(position=7)]

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_a_letter_is_parked_once(self, store: Store) -> None:
        """CP-07: storing it again replaces it, so a repeated delivery does no harm."""
        store.log.dead_letters.park(_letter())
        store.log.dead_letters.park(_letter(attempts=6, reason="still no"))
        assert store.log.dead_letters.letters(limit=100) == [_letter(attempts=6, reason="still no")]

    @needs(GLOBAL_ORDER, ANY_STREAM)
    def test_reasons_can_be_taken_out(self, store: Store) -> None:
        """Settled 25: the reason of any consumer may quote an erased payload."""
        for letter in (_letter(), _letter("other"), _letter(position=7)):
            store.log.dead_letters.park(letter)
        store.log.dead_letters.redact(3, "erased")
        assert [letter.reason for letter in store.log.dead_letters.letters(limit=100)] == ["erased", "erased", "no"]

    @needs(GLOBAL_ORDER, ANY_STREAM, DURABLE)
    def test_letters_survive_reopening(self, harness: EngineHarness) -> None:
        """CP-07: a letter is as durable as the checkpoint that passed its event."""
        with harness.open() as store:
            store.log.dead_letters.park(_letter())
        assert harness.open().log.dead_letters.letters(limit=100) == [_letter()]

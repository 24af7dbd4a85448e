"""Contract: a checkpoint is kept, moves by compare-and-set, and is refused on another history."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tallystick import Store, errors, select
from tallystick.store.capabilities import DURABLE, GLOBAL_ORDER
from tallystick.testing.builders import event, events
from tallystick.testing.contract.harness import Contract, EngineHarness, needs


def _forge(store: Store, name: str, **changed: Any) -> None:
    """Store a checkpoint that this store would not have made."""
    stored = store.log.checkpoints.load(name)
    assert stored is not None
    store.log.checkpoints.save(msgspec.structs.replace(stored, **changed), previous=stored.position)


class CheckpointContract(Contract):
    """Checkpoints."""

    def test_a_new_consumer_starts_at_zero(self, store: Store) -> None:
        """CP-07: a name that was never saved is at position 0."""
        assert store.load_checkpoint("lister") == 0
        assert store.log.checkpoints.names() == []

    def test_a_checkpoint_is_kept_and_moves(self, store: Store) -> None:
        """CP-07, CP-08: each consumer has its own checkpoint."""
        store.append("run/a", events(5))
        positions = [found.position for found in store.read_stream("run/a")]
        for position in positions:
            store.save_checkpoint("lister", position)
            assert store.load_checkpoint("lister") == position
        store.save_checkpoint("other", positions[1])
        assert (store.load_checkpoint("lister"), store.load_checkpoint("other")) == (positions[4], positions[1])
        assert store.log.checkpoints.names() == ["lister", "other"]

    def test_a_checkpoint_may_stand_at_zero(self, store: Store) -> None:
        """CP-08: a consumer that starts from the beginning saves 0, and continues from there."""
        position = store.append("run/a", event()).position
        store.save_checkpoint("lister", 0)
        assert store.load_checkpoint("lister") == 0
        store.save_checkpoint("lister", position)
        store.save_checkpoint("lister", 0)
        store.save_checkpoint("lister", position, previous=0)
        assert store.load_checkpoint("lister") == position

    def test_two_runners_of_one_consumer_are_noticed(self, store: Store) -> None:
        """CP-07: saving is a compare-and-set on the position before, so that no effect is counted twice."""
        store.append("run/a", events(3))
        first, second, third = (found.position for found in store.read_stream("run/a"))
        store.save_checkpoint("lister", first, previous=0)
        store.save_checkpoint("lister", second, previous=first)
        for previous in (0, first, third):
            with pytest.raises(errors.Conflict):
                store.save_checkpoint("lister", third, previous=previous)
        with pytest.raises(errors.Conflict):
            store.save_checkpoint("fresh", third, previous=first)
        assert store.load_checkpoint("lister") == second

    def test_a_checkpoint_can_be_deleted(self, store: Store) -> None:
        """CP-08: a rebuild deletes the checkpoint. Deleting one that does not exist does nothing."""
        store.save_checkpoint("lister", store.append("run/a", event()).position)
        for _ in range(2):
            store.log.checkpoints.delete("lister")
            assert store.load_checkpoint("lister") == 0

    def test_a_place_past_the_head_is_refused(self, store: Store) -> None:
        """CP-07: no consumer can have seen an event that does not exist."""
        head = store.append("run/a", event()).position
        for position in (head + 1, -1, 1 << 70, "1", None, True, 1.0):
            with pytest.raises(errors.InvalidValue):
                store.save_checkpoint("lister", position)  # type: ignore[arg-type]
        assert store.load_checkpoint("lister") == 0

    @pytest.mark.parametrize("name", ["", "a\nb", "\0", "\ud800", "x" * 1001, None, 7, b"x"])
    def test_a_name_that_is_no_text_is_refused(self, store: Store, name: Any) -> None:
        """The name of a checkpoint must be printable text."""
        with pytest.raises(errors.InvalidValue):
            store.save_checkpoint(name, 0)
        with pytest.raises(errors.InvalidValue):
            store.load_checkpoint(name)

    @pytest.mark.parametrize("name", ["a", "a/b:c", "Größe", "x'; DROP TABLE events;--", "../../x", "x" * 1000])
    def test_any_printable_name_will_do(self, store: Store, name: str) -> None:
        """Names are data: quotes, slashes and accents have no special meaning."""
        position = store.append("run/a", event()).position
        store.save_checkpoint(name, position)
        assert store.load_checkpoint(name) == position
        assert store.log.checkpoints.names() == [name]

    def test_a_checkpoint_of_another_store_is_refused(self, store: Store) -> None:
        """CP-07: a checkpoint of one store means nothing in another."""
        store.save_checkpoint("lister", store.append("run/a", event()).position)
        _forge(store, "lister", store_id=bytes(16))
        with pytest.raises(errors.WrongStore):
            store.load_checkpoint("lister")

    def test_a_checkpoint_of_another_history_is_refused(self, store: Store) -> None:
        """CP-07: the same store id with another event at that position is a restored backup, and is refused."""
        store.append("run/a", events(3))
        positions = [found.position for found in store.read_stream("run/a")]
        store.save_checkpoint("lister", positions[1])
        _forge(store, "lister", link=bytes(32))
        with pytest.raises(errors.WrongStore):
            store.load_checkpoint("lister")

    def test_a_checkpoint_past_the_end_of_the_log_is_refused(self, store: Store) -> None:
        """CP-07: a log that ends before the checkpoint was restored from an older backup."""
        store.save_checkpoint("lister", store.append("run/a", event()).position)
        _forge(store, "lister", position=store.head() + 1, link_position=store.head() + 1)
        with pytest.raises(errors.WrongStore):
            store.load_checkpoint("lister")

    @needs(DURABLE)
    def test_checkpoints_are_kept_over_reopening(self, harness: EngineHarness) -> None:
        """CP-07: a consumer's cursor is durable."""
        with harness.open() as store:
            store.append("run/a", events(3))
            place = store.read_stream("run/a")[1].position
            store.save_checkpoint("lister", place)
            store.save_checkpoint("gone", place)
            store.log.checkpoints.delete("gone")
        store = harness.open()
        assert store.load_checkpoint("lister") == place
        assert store.log.checkpoints.names() == ["lister"]

    @needs(GLOBAL_ORDER)
    def test_a_consumer_that_is_handed_its_pages_skips_nothing(self, store: Store) -> None:
        """SAFE-07: events appended while a page is handled come in a later page. A page that failed comes again."""
        wanted, seen = select(type="thing.happened"), []
        store.append("order/a", events(10))
        for page in store.consume("mailer", selection=wanted, batch_events=4):
            seen += [found.data["n"] for found in page.events]
            store.append("order/b", event(100 + len(seen)))
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                for page in store.consume("mailer", selection=wanted):
                    assert [found.data["n"] for found in page.events] == [104, 108, 110]
                    raise ZeroDivisionError
        for page in store.consume("mailer", selection=wanted):
            seen += [found.data["n"] for found in page.events]
        assert seen == [*range(1, 11), 104, 108, 110]
        assert list(store.consume("mailer", selection=wanted)) == []
        assert store.load_checkpoint("mailer") == store.head()

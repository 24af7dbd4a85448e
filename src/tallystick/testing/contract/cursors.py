"""Contract: a cursor is accepted by the history that it was made in, and by no other."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import Store, errors
from tallystick.store import cursors
from tallystick.store.capabilities import GLOBAL_ORDER, MAINTENANCE
from tallystick.testing import upkeep
from tallystick.testing.builders import event, events
from tallystick.testing.contract.harness import Contract, EngineHarness, needs


class CursorContract(Contract):
    """Cursors: positions in one history, as text."""

    def test_a_cursor_is_a_place_in_its_own_history(self, store: Store) -> None:
        """CP-07: the position after an event, or after any position, however the cursor was made."""
        store.append("run/a", events(3))
        found = store.read_stream("run/a")
        for each in found:
            assert store.after(store.cursor(each)) == each.position
            assert store.cursor(each.position) == store.cursor(each)
        assert store.after(store.cursor(0)) == 0
        assert store.after(str(found[1].position)) == store.after(found[1].position) == found[1].position

    @pytest.mark.parametrize(
        "cursor", ["", "x", "-1", "1.", "1.2", "1.2.3", "²", "1" * 20, None, 1.5, b"1", "2.3." + "A" * 28]
    )
    def test_what_is_no_cursor_is_refused(self, store: Store, cursor: Any) -> None:
        """CP-07: text that was cut off, or that never was a cursor."""
        with pytest.raises(errors.InvalidInput):
            store.after(cursor)

    @needs(GLOBAL_ORDER)
    def test_a_cursor_of_another_history_is_refused(self, harness: EngineHarness) -> None:
        """CP-07: another store, another event at that position, and a log that ends before it."""
        store = harness.open()
        store.append("run/a", events(3))
        position, ours = store.head(), store.log.store_id
        link = store.read_stream("run/a")[-1].link
        assert store.after(cursors.text(ours, position, position, link)) == position
        for forged in (
            cursors.text(bytes(16), position, position, link),
            cursors.text(ours, position, position, bytes(32)),
            cursors.text(ours, position, position - 1, link),
            cursors.text(ours, position + 1, position, link),
            cursors.text(ours, position + 1, 0, b""),
            cursors.text(bytes(16), position, 0, b""),
        ):
            with pytest.raises(errors.WrongStore):
                store.after(forged)

    @needs(MAINTENANCE, GLOBAL_ORDER)
    def test_a_cursor_outlives_the_pruning_of_its_event(self, store: Store) -> None:
        """CP-07: a pruned event belongs to this history. A cursor made later is based on what is left."""
        store.append("order/a", events(3))
        store.append("order/b", event())
        before = [store.cursor(position) for position in range(store.head() + 1)]
        positions = [found.position for found in store.read_stream("order/a")]
        upkeep.prune(store, "order/a", 3)
        assert [store.after(cursor) for cursor in before] == list(range(len(before)))
        again = [store.cursor(position) for position in positions]
        assert [store.after(cursor) for cursor in again] == positions

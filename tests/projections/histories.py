"""Random histories of orders with erasures, and replaying them: shared by the tests of all runners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

import tallystick
from tallystick.projections import Live, Projection
from tallystick.testing import upkeep
from tallystick.testing.shop import NOTED, PAID, PLACED, order_event

History = list[tuple[str, Any, Any]]

streams = st.sampled_from(["order/1", "order/2", "order/3", "cart/1"])
orders = st.builds(
    order_event,
    st.sampled_from([PLACED, PAID, NOTED]),
    customer=st.sampled_from(["a", "b", "Ä", "a\n", "\\n"]),
    amount=st.integers(-5, 1 << 53),
    lamport=st.integers(1, 30),
)
appends = st.tuples(st.just("append"), streams, st.lists(orders, min_size=1, max_size=4))
steps = st.tuples(st.just("step"), st.integers(1, 5), st.none())
erasures = st.tuples(st.just("erase"), streams, st.integers(1, 6))


def play(
    store: tallystick.Store,
    history: History,
    projections: Sequence[Projection] = (),
    *,
    erase: Callable[[tallystick.Store, str, int], object] = upkeep.erase,
) -> None:
    """Replay a history; its steps are steps of the live runners of these projections."""
    for what, one, other in history:
        if what == "append":
            store.append(one, other)
        elif what == "step":
            for projection in projections:
                Live(store, projection, batch_events=one).step()
        elif (found := store.at(one, other)) is not None and not found.erased:
            erase(store, one, other)

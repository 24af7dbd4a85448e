"""An erasure after which a projection could not be folded is refused before anything is erased."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import errors, state
from tallystick.projections import Live, ViewReader
from tallystick.testing import upkeep
from tallystick.testing.contract.projections import fill
from tallystick.testing.shop import OrderTotals

from .conftest import EMBEDDED


@pytest.mark.parametrize("engine", EMBEDDED)
def test_rows_that_cannot_be_folded_again_stand_against_an_erasure(open_store: Any, engine: str) -> None:
    """Settled 17, 25: the row would need pruned events: refused unless accepted, and other rows stay current."""
    store = open_store(engine)
    fill(store)
    Live(store, OrderTotals()).catch_up()
    stream = next(event.stream for event in store.events() if event.type in OrderTotals.types and event.seq > 2)
    upkeep.prune(store, stream, 1)
    head = store.stream_head(stream)
    with pytest.raises(errors.EraseRefused, match="would have to fold pruned events again"):
        state.erase(store, stream, head.seq, reason="asked for")
    assert store.read_stream(stream, after=head.seq - 1)[0].payload is not None
    fill(store, 3, first=500)
    Live(store, OrderTotals()).catch_up()
    assert ViewReader(store, OrderTotals().name).get(stream) is not None

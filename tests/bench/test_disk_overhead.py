"""What an event costs on disk is a matter of bytes, not of the machine: the bars of the rows are held here too."""

from __future__ import annotations

import msgspec
import pytest

from bench.rows import disk
from bench.workshop import QUICK, Workshop

CELLS = [(size, commit) for size in disk.SIZES for commit in disk.COMMITS]


@pytest.mark.parametrize(("size", "commit"), CELLS)
def test_the_bars_hold(size: int, commit: int) -> None:
    """LH-18: sealed segments take at most 1.2 times their content, and single events of 350 bytes 1.35 before that."""
    with Workshop(msgspec.structs.replace(QUICK, sized=2000)) as workshop:
        events = disk.drafts(2000 if commit > 1 else 400, size)
        opened = disk._open(workshop.place("files"), events, commit)
        sealed = disk._sealed(workshop.place("files"), events, commit)
    assert 0 < sealed <= 1.2
    assert opened <= {(350, 1): 1.35, (1024, 1000): 1.2}.get((size, commit), 2.2)


@pytest.mark.parametrize("size", disk.SIZES)
def test_the_payloads_have_the_size_that_the_row_names(size: int) -> None:
    """LH-18: within 5 %."""
    events = disk.drafts(200, size)
    mean = sum(len(msgspec.json.encode(event.payload)) for event in events) / len(events)
    assert abs(mean - size) <= 0.05 * size

"""Whether a checkpoint belongs to a history."""

from __future__ import annotations

import pytest

from tallystick import Event, errors
from tallystick.store.checkpoints import Checkpoint, require_same_history

STORE, LINK = bytes([1] * 16), bytes([2] * 32)
PLACE = Checkpoint("lister", STORE, 5, 5, LINK)
THERE = Event(5, "order/1", 1, "x", 1, bytes(16), 0, b"{}", b"{}", b"", LINK)


def test_the_same_history_is_accepted() -> None:
    """CP-07: the store, the position and the link there are the same."""
    require_same_history(PLACE, store_id=STORE, head=5, event=THERE)
    require_same_history(Checkpoint("lister", STORE, 0, 0, b""), store_id=STORE, head=0, event=None)


@pytest.mark.parametrize(
    ("store_id", "head", "link", "reason"),
    [
        (bytes(16), 5, LINK, "was made on store"),
        (STORE, 4, LINK, "the log ends at 4"),
        (STORE, 5, bytes(32), "another link"),
        (STORE, 5, None, "no event at position 5"),
    ],
)
def test_another_history_is_refused_with_the_reason(
    store_id: bytes, head: int, link: bytes | None, reason: str
) -> None:
    """CP-07: a restored backup, a failover or another store is named as such."""
    event = None if link is None else Event(5, "order/1", 1, "x", 1, bytes(16), 0, b"{}", b"{}", b"", link)
    with pytest.raises(errors.WrongStore, match=reason):
        require_same_history(PLACE, store_id=store_id, head=head, event=event)

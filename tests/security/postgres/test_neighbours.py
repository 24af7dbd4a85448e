"""Values of one tenant do not fail the appends of another in the same commit."""

from __future__ import annotations

import secrets

import pytest

from tallystick import NewEvent, Store, errors
from tallystick.event import names
from tallystick.store import idempotency
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify

pytestmark = pytest.mark.security


def _incompressible(size: int) -> str:
    """A text that an index cannot compress."""
    return "".join(secrets.choice("äöüßéèê€łøæþðñçščžř") + secrets.token_hex(1) for _ in range(size))


def _hostile(what: str) -> Request:
    long = _incompressible(1500)
    if what == "command":
        record = CommandRecord(CommandKey("", "me", "here", long), b"\0" * 32, b"{}", 1)
        return Request([Part("order/b", [NewEvent("thing.done", {})])], command=record)
    meta = {"org": long} if what == "org" else {"source": long, "source_seq": 1}
    return Request([Part("order/b", [NewEvent("thing.done", {}, meta=meta)])])


@pytest.mark.parametrize("what", ["org", "source", "command"])
def test_only_the_one_that_the_database_refuses_fails(store: Store, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """LH-04, CP-10, SAFE-09: also for values that pass our own checks; the error names neither database nor index."""
    monkeypatch.setattr(names, "LABEL_MAX", 1 << 20)
    monkeypatch.setattr(idempotency, "KEY_BYTES_MAX", 1 << 20)
    neighbours = [Request([Part(f"order/a{number}", [NewEvent("thing.done", {})])]) for number in range(3)]
    outcomes = store.submit([*neighbours[:2], _hostile(what), neighbours[2]])
    failed = [outcome for outcome in outcomes if isinstance(outcome, errors.TallyError)]
    assert [isinstance(outcome, errors.TallyError) for outcome in outcomes] == [False, False, True, False]
    seen = f"{failed[0]} {failed[0].as_json()}"
    assert "postgresql:" not in seen
    assert not any(word in seen for word in ("_pkey", "events_by", "index", "btree", "tally."))
    assert len(store.read().events) == 3
    store.append("order/c", NewEvent("thing.done", {}))
    assert verify(store.log).ok


@pytest.mark.parametrize("what", ["org", "source", "command"])
def test_what_an_index_cannot_hold_is_refused_before_it_is_sent(store: Store, what: str) -> None:
    """LH-04: limits count bytes."""
    with pytest.raises(errors.TooLarge, match="bytes"):
        raise store.submit([_hostile(what)])[0]  # type: ignore[misc]

"""Preparation: a group is cheap together, and only the culprit fails."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tallystick import ANY, NewEvent, errors
from tallystick.event import chain, ids, profiles
from tallystick.event.catalog import Catalog
from tallystick.store.commit import Transaction
from tallystick.store.prepare import Part, Preparer, Request
from tallystick.testing.builders import event, events, named
from tallystick.testing.clock import START, ManualClock


def _request(*new: NewEvent, stream: str = "order/a", expected: int = ANY) -> Request:
    return Request([Part(stream, list(new), expected)])


CULPRITS: dict[str, Request] = {
    "payload": _request(event(), NewEvent("thing.happened", {"x": (1,)})),
    "text": _request(NewEvent("thing.happened", b"{")),
    "meta": _request(event(meta={"x": b""})),
    "known meta": _request(event(meta={"org": ""})),
    "type": _request(event(type="a b")),
    "type that is no text": _request(event(), event(type=["thing.happened"])),  # type: ignore[arg-type]
    "version": _request(event(version=0)),
    "version that is no number": _request(event(), event(version=[1])),
    "id": _request(event(id=b"short")),
    "time": _request(event(time=-1)),
    "signature": _request(event(signature=b"short")),
    "size": _request(NewEvent("thing.happened", {"x": "a" * (1 << 20)})),
    "stream": _request(event(), stream="order"),
    "reserved": _request(event(), stream="tally.store/settings"),
    "reserved type": _request(event(type="tally.setting.changed")),
    "expected": _request(event(), expected=-2),
    "nothing": _request(),
    "no part": Request([]),
    "no event": Request([Part("order/a", [1])]),  # type: ignore[list-item]
}


@pytest.mark.parametrize("culprit", CULPRITS.values(), ids=CULPRITS.keys())
@pytest.mark.parametrize("place", [0, 2, 4])
def test_in_a_group_only_the_culprit_fails(preparer: Preparer, culprit: Request, place: int) -> None:
    """LH-07: one bad request has its own error, and the others are prepared as if it were not there."""
    group = [_request(event(number)) for number in range(4)]
    group.insert(place, culprit)
    outcomes = preparer.prepare(group)
    assert [isinstance(outcome, errors.InvalidInput) for outcome in outcomes] == [at == place for at in range(5)]
    good = [outcome for outcome in outcomes if isinstance(outcome, Transaction)]
    assert [outcome.writes[0].drafts[0][4] for outcome in good] == [b'{"n":%d}' % number for number in range(4)]


def test_a_group_is_prepared_as_each_of_its_requests(preparer: Preparer) -> None:
    """What one batch makes of a group is what single preparation makes of each request."""
    metas: list[Any] = [None, {"org": "acme"}, {"source": "s", "source_seq": 4}, {}]
    group = [
        Request([Part(f"order/{n}", [named(n, meta=meta, time=n), named(n + 50)], n), Part("run/x", [named(n + 90)])])
        for n, meta in enumerate(metas)
    ]
    alone = [preparer.prepare([request])[0] for request in group]
    assert preparer.prepare(group) == alone


def test_drafts_hold_what_will_be_stored(preparer: Preparer) -> None:
    """LH-03: a draft is type, version, id, time, payload, meta, checksum and signature, ready to be chained."""
    signature = bytes(64)
    made = preparer.prepare([_request(named(1, meta={"b": 1, "a": 2}, signature=signature), event(2))])[0]
    assert isinstance(made, Transaction)
    first, second = made.writes[0].drafts
    checksum = chain.checksum(b'{"n":1}')
    assert first[:2] == ("thing.happened", 1)
    assert first[3:] == (START, b'{"n":1}', b'{"a":2,"b":1}', checksum, signature)
    assert (second[3:6], second[7]) == ((START, b'{"n":2}', b"{}"), None)


def test_minted_ids_rise_through_a_batch(preparer: Preparer) -> None:
    """LH-03: events get rising ids in the order in which they stand, beside those that have their own."""
    made = preparer.prepare([_request(event(), named(7), *events(3))])[0]
    assert isinstance(made, Transaction)
    found = [draft[2] for draft in made.writes[0].drafts]
    minted = [found[0], *found[2:]]
    assert minted == sorted(set(minted))


def test_only_given_ids_are_looked_up(preparer: Preparer) -> None:
    """An append without ids cannot be a retry, and is not slowed down by looking for one."""
    plain, given = preparer.prepare([_request(event()), _request(event(), named(1))])
    assert isinstance(plain, Transaction)
    assert isinstance(given, Transaction)
    assert (plain.writes[0].ids_given, given.writes[0].ids_given) == (False, True)


def test_runs_are_leased_and_others_are_not(preparer: Preparer) -> None:
    """EVT-09: streams of the kind `run` need the lease, and no others."""
    made = preparer.prepare([_request(event(), stream=stream) for stream in ("run/a", "runs/a", "order/run")])
    assert [item.writes[0].is_leased for item in made if isinstance(item, Transaction)] == [True, False, False]


def test_a_large_event_beside_a_culprit_still_warns(preparer: Preparer) -> None:
    """LH-04: the warning is given for the event that is stored, whatever happens to others in the group."""
    large = NewEvent("thing.happened", {"x": "a" * 70_000})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcomes = preparer.prepare([_request(large), CULPRITS["payload"]])
    assert isinstance(outcomes[0], Transaction)
    assert {item.category for item in caught} == {errors.LargeEventWarning}


def test_the_callers_objects_are_not_changed() -> None:
    """Defaults and profiles fill in a copy of the meta, never the author's own."""
    meta: dict[str, Any] = {"source": "s"}
    made = Preparer(
        profile=profiles.named("lighthouse"),
        clock=ManualClock(),
        catalog=Catalog(),
        guard=None,
        defaults={"app": "web"},
        minter=ids.Minter(),
    ).prepare([_request(event(meta=meta))])[0]
    assert isinstance(made, Transaction)
    assert meta == {"source": "s"}
    assert b'"app":"web"' in made.writes[0].drafts[0][5]

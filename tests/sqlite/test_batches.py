"""Many rows in one statement: values that the rows share are bound once, and every row is read back unchanged."""

from __future__ import annotations

import itertools
import random

import pytest

import tallystick
from tallystick import ANY, NewEvent
from tallystick.engines.sqlite import commit_rows
from tallystick.store.verify import verify

_SEVERAL = {
    "version": lambda dice: dice.choice((1, 2)),
    "time": lambda dice: dice.randrange(10**9),
    "meta": lambda dice: dice.choice((None, {"org": "acme"}, {"org": "acme", "app": "shop", "env": "prod"})),
    "signature": lambda dice: dice.choice((None, bytes(64), b"s" * 64)),
}


def _event(dice: random.Random, number: int, varied: tuple[str, ...]) -> NewEvent:
    fields = {"time": 7, "id": number.to_bytes(16, "big")} | {name: _SEVERAL[name](dice) for name in varied}
    type_ = dice.choice(("a.done", "b.done")) if "version" in varied else "a.done"
    return NewEvent(type_, {"n": number, "text": "x" * dice.randrange(300)}, **fields)


@pytest.mark.parametrize("varied", [names for size in range(5) for names in itertools.combinations(_SEVERAL, size)])
@pytest.mark.parametrize("streams", [1, 3])
def test_every_field_of_a_batch_is_kept(store, varied, streams):
    """CP-05: whichever columns are equal in all rows, SQLite stores the same events as the model."""
    dice = random.Random(repr((varied, streams)))
    numbers = itertools.count(1)
    with tallystick.open("memory:") as model:
        for size in (1, 15, 16, 17, 145, 300):
            parts = [
                (f"order/{name}", [_event(dice, next(numbers), varied) for _ in range(size)], ANY)
                for name in range(streams)
            ]
            store.append_all(parts)
            model.append_all(parts)
        assert store.read(limit=10_000).events == model.read(limit=10_000).events
    assert verify(store.log).problems == []


def test_a_batch_of_one_kind_is_one_shape():
    """LH-18: the statement for a usual batch binds eight values once and four per row, and leaves four columns out."""
    row = (1, "order/a", 1, "a.done", 1, bytes(16), 7, b"{}", b"{}", bytes(32), bytes(32), None)
    rows = [(1 + n, "order/a", 1 + n, "a.done", 1, bytes([n] * 16), 7, b"%d" % n, *row[8:]) for n in range(16)]
    statement, values = commit_rows._insertion(rows, 9)
    assert len(values) == 8 + 4 * 16
    assert statement.count("?") == 12 * 16
    assert not any(name in statement for name in ("signature", "org", "app", "env"))

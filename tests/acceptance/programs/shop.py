"""A small program of a user: open, append with an expectation, read, fold into rows, handle errors."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import tallystick
from tallystick import ANY, NO_STREAM, Appended, Event, NewEvent, Store, aio, errors, moving, select, state
from tallystick.projections import Live, Projection, ViewReader


class Paid(Projection):
    """How much each order has paid."""

    types = ("order.paid",)
    key = "stream"

    def initial(self) -> dict[str, int]:
        return {"cents": 0}

    def apply(self, state: dict[str, int], event: Event) -> dict[str, int]:
        return {"cents": state["cents"] + event.data["cents"]}


@state.reducer(name="steps", initial={"steps": 0})
def steps(state: dict[str, int], event: Event) -> dict[str, int]:
    """How many events a stream has."""
    return {"steps": state["steps"] + 1}


def pay(store: Store, order: str, cents: int, *, expected: int) -> Appended | errors.Conflict:
    """Append a payment, or return the conflict."""
    try:
        return store.append(order, NewEvent("order.paid", {"cents": cents}), expected=expected)
    except errors.Conflict as conflict:
        seq: int = conflict.actual
        assert seq > expected
        return conflict


def sell(url: str) -> dict[str, Any]:
    """Use a store as a small shop would; returns what it found."""
    with tallystick.open(url) as store:
        placed = store.append("order/1", NewEvent("order.placed", {"cents": 300}), expected=NO_STREAM)
        assert isinstance(pay(store, "order/1", 100, expected=placed.seq), Appended)
        assert isinstance(pay(store, "order/1", 100, expected=placed.seq), errors.Conflict)
        store.append_all([("order/1", [NewEvent("order.paid", {"cents": 200})], 2), ("order/2", [], ANY)][:1])
        Live(store, Paid()).catch_up()
        first: Event | None = store.at("order/1", 1)
        return {
            "types": [event.type for event in store.stream("order/1")],
            "paid": ViewReader(store, "Paid").get("order/1"),
            "first": first.data if first is not None else None,
            "seen": sum(len(page.events) for page in store.pages(selection=select(type="order.paid"))),
            "steps": state.fold(store, steps, "order/1").value,
            "moved": move(store),
        }


def move(store: Store) -> int:
    """Export a store to a file, and import it into another one; returns how many events came."""
    file = io.BytesIO()
    file.writelines(moving.export(store, whole=True))
    file.seek(0)
    with tallystick.open("memory:") as other:
        done: moving.Progress = moving.import_lines(other, file, progress=lambda now: print(now.imported))
        return done.imported


async def follow(url: str) -> list[int]:
    """The same store from an event loop: append one event and read all positions."""
    async with await aio.open(url) as store:
        await store.append("order/2", NewEvent("order.placed", {"cents": 5}), expected=0)
        return [event.position async for event in store.events()]


def main(url: str) -> tuple[dict[str, Any], list[int]]:
    """Both, one after the other."""
    return sell(url), asyncio.run(follow(url))

"""A program with wrong arguments. A type checker refuses every line that says so, and no other."""

from __future__ import annotations

from pydantic import BaseModel

from tallystick import ANY, NO_STREAM, Appended, Expected, NewEvent, Store, TypedReader, aio, errors
from tallystick.errors import Conflict
from tallystick.store.commit import Write


class Opened(BaseModel):
    """A model."""

    owner: str


class Paid(BaseModel):
    """Another one."""

    cents: int


def raise_errors() -> None:
    """Errors take their values by name, all of them, each of its type."""
    Conflict(stream="order/1", expected=1, actual=2)
    Conflict(stream="order/1", expected="1", actual=2)  # refused: arg-type
    Conflict(stream="order/1", expected=1)  # refused: call-arg
    Conflict(stream="order/1", expected=1, actual=2, reason="?")  # refused: call-arg
    Conflict("order/1", 1, 2)  # refused: call-arg
    errors.HistoryLost(first=1, last=2, reason="?")
    errors.HistoryLost(first=1, last=2)  # refused: call-arg
    errors.InvalidInput(reason="?")
    errors.InvalidName(reason="?", what="stream", value="x", form="y")  # refused: call-arg
    errors.StoreClosed()


def read_errors(problem: errors.Damaged) -> int:
    """Their values have types."""
    problem.rason  # refused: attr-defined  # noqa: B018
    return problem.reason  # refused: return-value


def append(store: Store) -> None:
    """An event is not a text, and an expectation is a number."""
    store.append("order/1", NewEvent("order.placed", {}), expected=3)
    store.append("order/1", "order.placed")  # refused: arg-type
    store.append("order/1", NewEvent("order.placed", {}), expected="none")  # refused: arg-type


async def read(store: aio.AsyncStore) -> str:
    """A store in an event loop has the same types."""
    await store.at("order/1", "2")  # refused: arg-type
    await store.reed()  # refused: attr-defined
    pages = [page async for page in store.pages(limit=10)]
    pages[0].evnts  # refused: attr-defined  # noqa: B018
    return await store.head()  # refused: return-value


def expect(done: Appended) -> list[Expected]:
    """Inside, a seq is not an expectation before it was checked."""
    Write("order/1", [], done.seq)  # refused: arg-type
    Write("order/1", [], Expected(done.seq))
    return [ANY, NO_STREAM, done.seq]  # refused: list-item


def read_typed(store: Store) -> None:
    """The data of a typed event are the models in the brackets; only events and models are appended."""
    for event in TypedReader[Opened | Paid](store).events():
        event.data.cents  # refused: union-attr  # noqa: B018
        if isinstance(event.data, Paid):
            event.data.owner  # refused: attr-defined  # noqa: B018
    store.append("order/1", [Opened(owner="Ada"), NewEvent("order.noted", {})])
    store.append("order/1", [Opened(owner="Ada"), {"cents": 1}])  # refused: list-item

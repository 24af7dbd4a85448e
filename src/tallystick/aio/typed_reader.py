"""`TypedReader` for asyncio: the same view of an `AsyncStore`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from tallystick.aio.async_store import AsyncStore
from tallystick.event.typed import TypedEvent
from tallystick.store.selection import EVERYTHING, Selection
from tallystick.store.typed_reader import TypedView

Data = TypeVar("Data")


class TypedReader(TypedView[Data]):
    """Reads a store as `tallystick.TypedReader` does, in an event loop."""

    def __init__(self, store: AsyncStore) -> None:
        super().__init__(store.store)
        self.store = store

    async def events(
        self, *, after: int = 0, until: int | None = None, selection: Selection = EVERYTHING, backward: bool = False
    ) -> AsyncIterator[TypedEvent[Data]]:
        """Every event of these types; arguments as for `Store.events`."""
        selected = self._selected(selection)
        async for event in self.store.events(after=after, until=until, selection=selected, backward=backward):
            yield self._typed(event)

    async def stream(
        self, name: str, *, after: int = 0, until: int | None = None, backward: bool = False
    ) -> AsyncIterator[TypedEvent[Data]]:
        """Every event of one stream; arguments as for `Store.stream`."""
        async for event in self.store.stream(name, after=after, until=until, backward=backward):
            yield self._typed(event)

    async def follow(
        self, *, after: int | str = 0, selection: Selection = EVERYTHING
    ) -> AsyncIterator[TypedEvent[Data]]:
        """Every event of these types after `after`, then new ones as they are appended, without end."""
        async for event in self.store.follow(after=after, selection=self._selected(selection)):
            yield self._typed(event)

    async def at(self, stream: str, seq: int) -> TypedEvent[Data] | None:
        """The event of a stream at a seq; None if the stream does not reach it."""
        return self._one(await self.store.at(stream, seq))

    async def last(self, stream: str) -> TypedEvent[Data] | None:
        """The newest event of a stream; None if the stream does not exist."""
        return self._one(await self.store.last(stream))

    async def find(self, id: Any) -> TypedEvent[Data] | None:
        """The event with this id, or None."""
        return self._one(await self.store.find(id))

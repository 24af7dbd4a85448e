"""Reading events whose data are instances of models: `TypedReader[Opened | Deposited](store)`.

Type checkers know the union. `match event.data` works on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from tallystick import errors
from tallystick.event import names
from tallystick.event.model import Event
from tallystick.event.typed import Models, TypedEvent
from tallystick.store.reader import Reader
from tallystick.store.selection import EVERYTHING, Selection

Data = TypeVar("Data")


class TypedView(Generic[Data]):
    """A view of a store; the type in brackets is the union of the models that `data` can be, or `Any`."""

    _union: ClassVar[Any] = None

    def __class_getitem__(cls, union: Any) -> Any:
        if isinstance(union, TypeVar):  # a class that is generic itself
            return super().__class_getitem__(union)  # type: ignore[misc]
        return type(cls.__name__, (cls,), {"_union": union, "__doc__": cls.__doc__, "__module__": cls.__module__})

    def __init__(self, reader: Reader) -> None:
        if self._union is None:
            must = "followed by its models: TypedReader[Opened | Deposited](store), or TypedReader[Any](store)"
            raise errors.InvalidValue(what="typed reader", value=type(self).__name__, must=must)
        if not isinstance(reader, Reader):
            raise errors.InvalidValue(what="store of a typed reader", value=names.display(reader), must="an open store")
        self._models = Models(reader.catalog, self._union, reader="this reader")

    def _selected(self, selection: Selection) -> Selection:
        return msgspec.structs.replace(selection, types=self._models.select(selection.types))

    def _typed(self, event: Event) -> TypedEvent[Data]:
        return self._models.typed(event)

    def _one(self, event: Event | None) -> TypedEvent[Data] | None:
        return None if event is None else self._typed(event)


class TypedReader(TypedView[Data]):
    """Reads a store; the type in brackets is the union of the models that `data` can be, or `Any`.

    `events` gives only events of these types. In a stream, reading the data of another type raises `TypeNotTaken`.
    The data of an erased event raises `PayloadErased`, unless `Erased` is in the union.
    """

    def __init__(self, store: Reader) -> None:
        super().__init__(store)
        self.store = store

    def events(
        self, *, after: int = 0, until: int | None = None, selection: Selection = EVERYTHING, backward: bool = False
    ) -> Iterator[TypedEvent[Data]]:
        """Every event of these types; arguments as for `Store.events`."""
        selected = self._selected(selection)
        return map(self._typed, self.store.events(after=after, until=until, selection=selected, backward=backward))

    def stream(
        self, name: str, *, after: int = 0, until: int | None = None, backward: bool = False
    ) -> Iterator[TypedEvent[Data]]:
        """Every event of one stream; arguments as for `Store.stream`."""
        return map(self._typed, self.store.stream(name, after=after, until=until, backward=backward))

    def at(self, stream: str, seq: int) -> TypedEvent[Data] | None:
        """The event of a stream at a seq; None if the stream does not reach it."""
        return self._one(self.store.at(stream, seq))

    def last(self, stream: str) -> TypedEvent[Data] | None:
        """The newest event of a stream; None if the stream does not exist."""
        return self._one(self.store.last(stream))

    def find(self, id: Any) -> TypedEvent[Data] | None:
        """The event with this id, or None."""
        return self._one(self.store.find(id))

"""Payloads as instances of the models in a catalog. What cannot be such an instance raises; it is never guessed."""

from __future__ import annotations

import types
import typing
from typing import Any, Generic, TypeVar

import msgspec

from tallystick import errors
from tallystick.event.catalog import Catalog
from tallystick.event.model import Event, is_model

Data = TypeVar("Data", covariant=True)


class Erased(msgspec.Struct, frozen=True):
    """In place of a payload that was erased, for readers that take it. `type` is the type by its new name."""

    type: str


class TypedEvent(Event, Generic[Data], frozen=True, array_like=True):
    """A recorded event whose `data` is an instance of its model: every field as stored, also the type."""

    instance: Any = None
    problem: Any = None

    @property
    def data(self) -> Data:
        """The payload as its model. Raises if it was erased, does not match the model, or is of a type not taken."""
        if self.problem is not None:
            raise errors.copy(self.problem)
        found: Data = self.instance
        return found


class Models:
    """The models that a reader takes: of a union, or all of the catalog if the union is `Any`."""

    def __init__(self, catalog: Any, union: Any, *, reader: str) -> None:
        if not isinstance(catalog, Catalog):
            raise errors.InvalidValue(what="catalog of the store", value=type(catalog).__name__, must="a Catalog")
        self._catalog = catalog
        self._reader = reader
        self.taken = frozenset(_members(union))
        self._types: frozenset[str] = frozenset()
        for model in self.taken - {Erased}:
            self._types |= self._names(model)

    def _names(self, model: Any) -> frozenset[str]:
        """The type of a model and its old names."""
        what = f"a type that {self._reader} takes"
        if not (isinstance(model, type) and is_model(model)):
            raise errors.InvalidValue(what=what, value=str(model)[:300], must="a Pydantic model of the catalog")
        type_, version = self._catalog.name_of(model)
        current = self._catalog.current_version(type_)
        if version != current:
            must = f"the model of version {current}, which older events are read as"
            raise errors.InvalidValue(what=what, value=f"{model.__name__}, version {version} of {type_}", must=must)
        return self._catalog.names_of(type_)

    def select(self, types: frozenset[str]) -> frozenset[str]:
        """The names to select events by: of the types that are taken, or of some of them; empty if all are taken."""
        if not types:
            return self._types
        names = frozenset[str]().union(*map(self._catalog.names_of, types))
        if self.taken and (others := names - self._types):
            must = f"among the types that {self._reader} takes"
            raise errors.InvalidValue(what="types of the selection", value=", ".join(sorted(others)), must=must)
        return names

    @property
    def types(self) -> frozenset[str]:
        """The types of these models and their old names; empty if all are taken."""
        return self._types

    def typed(self, event: Event) -> TypedEvent[Any]:
        """The event with an instance of its model, or with the error that reading its data raises."""
        try:
            return TypedEvent(*event.row, instance=self.instance(event))
        except errors.TallyError as problem:
            return TypedEvent(*event.row, problem=errors.copy(problem))

    def instance(self, event: Event) -> Any:
        """The payload of an event, after the upcasters, as an instance of its model."""
        if self.taken and event.type not in self._types:
            raise errors.TypeNotTaken(reader=self._reader, type=event.type, stream=event.stream, seq=event.seq)
        if event.payload is None and Erased not in self.taken:
            raise errors.PayloadErased(type=event.type, stream=event.stream, seq=event.seq)
        return self.instance_or_erased(event)

    def instance_or_erased(self, event: Event) -> Any:
        """The same for an event of any type in the catalog, and `Erased` for an erased one."""
        return Erased(self._catalog.new_name(event.type)) if event.erased else self._catalog.instance(event)


def _members(union: Any) -> tuple[Any, ...]:
    """The classes of a union, or the one class; nothing for `Any`."""
    union = getattr(union, "__value__", union)  # of `type Name = A | B`
    if union is Any:
        return ()
    if typing.get_origin(union) in (typing.Union, types.UnionType):
        return tuple(model for part in typing.get_args(union) for model in _members(part))
    return (union,)

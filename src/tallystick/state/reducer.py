"""Reducers: how events become a state. A plain class or function with a name and a version.

    class Balance:
        name, version = "balance", 1
        def initial(self): return {"cents": 0}
        def apply(self, state, event): return {"cents": state["cents"] + event.data["cents"]}

`apply` gets every event of a stream in order and returns the next state, which is plain JSON. It must not depend on
anything else: not on the clock, the order of keys or the identity of objects. The data of an erased event is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from tallystick import errors
from tallystick.event import canonical, names
from tallystick.event.model import Event
from tallystick.event.reference import load as load_object

Scope = Literal["stream", "store"]
Apply = Callable[[Any, Event], Any]


class Reducer(msgspec.Struct, frozen=True, kw_only=True):
    """A checked reducer: its name, its version and its functions.

    `scope` "stream" folds one stream, "store" the whole log. `kinds` and `types` select its events (empty: all). A step
    ends with an event of `step_types`, or one for which `is_step_end` returns true (neither: with every event).
    `working` converts a plain state into the form that `apply` takes and returns, and `plain` converts it back. Without
    them that form is the plain state itself.
    """

    name: str
    version: int
    initial: Callable[[], Any]
    apply: Apply
    scope: Scope = "stream"
    kinds: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    step_types: frozenset[str] = frozenset()
    is_step_end: Callable[[Event], bool] | None = None
    invariants: Callable[[Any], Iterable[str]] | None = None
    migrate: Callable[[Any, int], Any] | None = None
    working: Callable[[Any], Any] | None = None
    plain: Callable[[Any], Any] | None = None

    def wants(self, stream: str) -> bool:
        """Whether this reducer folds a stream."""
        kind = names.kind_of(stream)
        return not names.is_reserved(kind) and (not self.kinds or kind in self.kinds)

    def ends_step(self, event: Event) -> bool:
        """Whether a step ends with this event, so that a cut may follow it."""
        if self.is_step_end is not None:
            try:
                return bool(self.is_step_end(event))
            except Exception as problem:
                reason = f"is_step_end() failed: {type(problem).__name__}: {problem}"
                raise errors.ReducerInvalid(name=self.name, reason=reason) from problem
        return not self.step_types or event.type in self.step_types

    def begin(self) -> Any:
        """The state of no events. It is a new copy, because a reducer may change its state in place."""
        try:
            return canonical.decode(canonical.encode_state(self.initial()))
        except Exception as problem:  # the reducer is the user's, and may do anything
            raise errors.ReducerInvalid(name=self.name, reason=f"initial() failed: {problem}") from problem

    def to_working(self, value: Any) -> Any:
        """A plain state in the form that `apply` takes."""
        return value if self.working is None else self.working(value)

    def to_plain(self, value: Any) -> Any:
        """The result of `apply` as a plain state."""
        return value if self.plain is None else self.plain(value)

    def broken_invariants(self, value: Any) -> list[str]:
        """What the reducer itself reports as wrong with a state."""
        if self.invariants is None:
            return []
        try:
            return [str(text) for text in self.invariants(value)]
        except Exception as problem:
            return [f"invariants() failed: {type(problem).__name__}: {problem}"]


def reducer(
    *, name: str, version: int = 1, initial: Any = None, **options: Any
) -> Callable[[Callable[[Any, Event], Any]], Reducer]:
    """A decorator that makes a reducer of a function (state, event) -> state. `initial` is the state of no events."""
    text = canonical.encode_state({} if initial is None else initial)

    def decorate(apply: Callable[[Any, Event], Any]) -> Reducer:
        sets = {key: _names(name, key, options[key]) for key in ("kinds", "types", "step_types") if key in options}
        fields: dict[str, Any] = options | sets
        made = Reducer(name=name, version=version, initial=lambda: canonical.decode(text), apply=apply, **fields)
        return _checked(made)

    return decorate


def as_reducer(given: Any) -> Reducer:
    """The reducer that an object, a class or a decorated function is."""
    if isinstance(given, Reducer):
        return given
    source = _instance(given)
    found: dict[str, Any] = {"name": getattr(source, "name", ""), "version": getattr(source, "version", 0)}
    for key in ("initial", "apply"):
        found[key] = getattr(source, key, None)
    for key in ("kinds", "types", "step_types"):
        found[key] = _names(str(found["name"]), key, getattr(source, key, ()))
    for key in ("scope", "is_step_end", "invariants", "migrate", "working", "plain"):
        if hasattr(source, key):
            found[key] = getattr(source, key)
    return _checked(Reducer(**found))


def _names(name: str, what: str, given: Any) -> frozenset[str]:
    """A set of names. A single text is refused: it would be the set of its letters."""
    if isinstance(given, str) or not all(isinstance(item, str) for item in given):
        raise errors.ReducerInvalid(name=name, reason=f"{what} must be a tuple of names, such as ('a',)")
    return frozenset(given)


def _instance(given: Any) -> Any:
    if not isinstance(given, type):
        return given
    try:
        return given()
    except Exception as problem:
        raise errors.ReducerInvalid(
            name=given.__name__, reason=f"it cannot be made without arguments: {problem}"
        ) from None


def _checked(made: Reducer) -> Reducer:
    """Refuse anything that is not a reducer, and name what it lacks."""
    reason = None
    if not isinstance(made.name, str) or not names.TYPE.fullmatch(made.name):
        reason = f"its name must match {names.TYPE.pattern}"
    elif type(made.version) is not int or not 1 <= made.version <= names.VERSION_MAX:
        reason = "its version must be a number from 1 on"
    elif not callable(made.initial) or not callable(made.apply):
        reason = "it needs initial() and apply(state, event)"
    elif made.scope not in ("stream", "store"):
        reason = "its scope must be 'stream' or 'store'"
    if reason is not None:
        raise errors.ReducerInvalid(name=str(names.display(made.name)), reason=reason)
    return made


def registry(given: Iterable[Any]) -> tuple[Reducer, ...]:
    """The given reducers, each name once."""
    found = tuple(as_reducer(item) for item in given)
    seen: set[str] = set()
    for item in found:
        if item.name in seen:
            raise errors.ReducerInvalid(name=item.name, reason="two reducers have this name")
        seen.add(item.name)
    return found


def load(reference: str) -> Reducer:
    """The reducer at MODULE:NAME."""
    return as_reducer(load_object(reference, what="reducer", example="shop.state:Balance"))

"""Tests of a decider: given these events, when this is decided, then these events follow, or this error.

    account = Specification(Account, catalog=catalog)
    account.given(Opened(owner="Ada")).when(Account.withdraw, amount=3).then_error(Overdrawn)

Each specification runs on a new store in memory, so what it says holds for events that were stored and read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from tallystick import Catalog, NewEvent, TypedReader, open
from tallystick.decide import Decisions, FunctionDecider
from tallystick.decide.model import Evolves
from tallystick.testing.clock import ManualClock
from tallystick.testing.difference import difference

P = ParamSpec("P")
S = TypeVar("S")
Data = TypeVar("Data")

STREAM = "test/1"


class Specification(Generic[S, Data]):
    """Specifies one decider. `given` starts again each time."""

    @overload
    def __init__(self, decider: FunctionDecider[S, Data], *, catalog: Catalog) -> None: ...
    @overload
    def __init__(self, decider: type[Evolves[S, Data]], *, catalog: Catalog) -> None: ...
    def __init__(self, decider: Any, *, catalog: Catalog) -> None:
        self._decider = decider
        self._catalog = catalog

    def given(self, *events: Data | NewEvent) -> Given[S, Data]:
        """Events that happened before."""
        return Given(self._decider, self._catalog, events)


class Given(Generic[S, Data]):
    """A stream with some events."""

    def __init__(self, decider: Any, catalog: Catalog, events: Sequence[Any]) -> None:
        self._decider = decider
        self._catalog = catalog
        self._events = events

    @overload
    def when(
        self,
        decision: Callable[Concatenate[Any, S, P], Data | NewEvent | Sequence[Data | NewEvent]],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> When[S, Data]: ...
    @overload
    def when(
        self,
        decision: Callable[Concatenate[S, P], Data | NewEvent | Sequence[Data | NewEvent]],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> When[S, Data]: ...
    def when(self, decision: Any, /, *args: Any, **named: Any) -> When[S, Data]:
        """This is decided. It is run when one of the `then` methods is called."""
        return When(self._run, decision, args, named)

    def then_state(self, state: S) -> None:
        """Assert the state of the stream, without a decision."""
        with open("memory:", catalog=self._catalog, clock=ManualClock()) as store:
            if self._events:
                store.append(STREAM, self._events)
            found = Decisions(store, self._decider).load(STREAM).state
        assert found == state, difference("the state differs", expected=[state], found=[found])

    def _run(self, decision: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], Any]:
        """The events that follow, as they are read from the store, and the state after them."""
        with open("memory:", catalog=self._catalog, clock=ManualClock()) as store:
            if self._events:
                store.append(STREAM, self._events)
            decisions: Any = Decisions(store, self._decider)
            decisions.run(STREAM, decision, *args, **named)
            found = TypedReader[Any](store).stream(STREAM, after=len(self._events))
            return [event.data for event in found], decisions.load(STREAM).state


class When(Generic[S, Data]):
    """A decision on a stream with some events."""

    def __init__(
        self,
        run: Callable[[Any, tuple[Any, ...], dict[str, Any]], tuple[list[Any], Any]],
        decision: Any,
        args: tuple[Any, ...],
        named: dict[str, Any],
    ) -> None:
        self._run = run
        self._call = (decision, args, named)
        texts = [*map(repr, args), *(f"{name}={value!r}" for name, value in named.items())]
        self._text = f"{getattr(decision, '__qualname__', decision)}({', '.join(texts)})"

    def then(self, *events: Data) -> None:
        """Assert that exactly these events follow; without any, that nothing is appended."""
        found, _ = self._found()
        same = found == list(events) and list(map(type, found)) == list(map(type, events))
        assert same, difference(f"{self._text} appended other events", expected=events, found=found)

    def then_state(self, state: S) -> None:
        """Assert the state of the stream after the decision."""
        _, found = self._found()
        assert found == state, difference(f"{self._text} led to another state", expected=[state], found=[found])

    def then_error(self, kind: type[BaseException], match: str = "") -> None:
        """Assert that this error is raised, with a message in which `match` is found."""
        expected = f"{kind.__name__}{f' that matches {match!r}' if match else ''}"
        try:
            found, _ = self._run(*self._call)
        except kind as problem:
            if re.search(match, str(problem)):
                return
            what = f"{self._text} raised another message"
            raise AssertionError(difference(what, expected=[match], found=[str(problem)])) from problem
        except Exception as problem:
            what = f"{self._text} raised another error"
            raise AssertionError(difference(what, expected=[expected], found=[_shown(problem)])) from problem
        raise AssertionError(difference(f"{self._text} raised nothing", expected=[expected], found=found))

    def _found(self) -> tuple[list[Any], Any]:
        try:
            return self._run(*self._call)
        except Exception as problem:
            raise AssertionError(f"{self._text} raised {_shown(problem)}") from problem


def _shown(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}"

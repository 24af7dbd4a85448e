"""What a decider is: a class with `initial`, `evolve` and decisions, or plain functions.

    class Account(Decider):
        def initial(self) -> int:
            return 0

        def evolve(self, state: int, event: Deposited | Withdrawn) -> int:
            return state + event.amount if isinstance(event, Deposited) else state - event.amount

        def withdraw(self, state: int, amount: int) -> Withdrawn:
            ...

`evolve` says in its annotation which events it takes. A decision gets the state and its arguments, and returns the
events that follow from them. Neither has any other effect, because both are called again after a conflict.
"""

from __future__ import annotations

import hashlib
import inspect
import typing
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from tallystick import errors
from tallystick.event import names
from tallystick.event.catalog import source_of
from tallystick.event.plain_form import PlainForm

S = TypeVar("S")
E = TypeVar("E", contravariant=True)


class Evolves(Protocol[S, E]):
    """What type checkers know of a decider: its state, and the events that it takes."""

    def initial(self) -> S: ...
    def evolve(self, state: S, event: E) -> S: ...


class Decider:
    """The base of deciders that are classes. See docs/deciders.md.

    - `name` is the class's name unless it is given. Idempotency keys and snapshots belong to it.
    - `ignored` are event types in its streams that it does not take. Any other one is refused by name.
    - With `snapshot_every` n, a stream is snapshotted when n events were folded since its last snapshot.
    - Snapshots by other code in `initial`, `evolve` or the class of the state are not used, nor those of another
      `version`. Raise it when the meaning of the state changes elsewhere.
    """

    name: ClassVar[str] = ""
    version: ClassVar[int] = 1
    ignored: ClassVar[tuple[str, ...]] = ()
    snapshot_every: ClassVar[int | None] = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def initial(self) -> Any:
        """The state before the first event."""
        raise NotImplementedError

    def evolve(self, state: Any, event: Any) -> Any:
        """The state after an event, which is an instance of one of the models in the annotation."""
        raise NotImplementedError


class FunctionDecider(msgspec.Struct, Generic[S, E], frozen=True, kw_only=True):
    """A decider of plain functions. Its decisions are functions of the state and their arguments."""

    name: str
    initial: Callable[[], S]
    evolve: Callable[[S, E], S]
    version: int = 1
    ignored: tuple[str, ...] = ()
    snapshot_every: int | None = None


class Definition:
    """A checked decider: `taken` is the union of the events that `evolve` takes."""

    def __init__(self, given: Any) -> None:
        self.decider = _instance(given)
        self.name: str = getattr(self.decider, "name", "")
        if reason := _wrong(self.decider):
            raise errors.DeciderInvalid(name=str(names.display(self.name)), reason=reason)
        self.initial, self.evolve = self.decider.initial, self.decider.evolve
        self.version: int = self.decider.version
        self.ignored = frozenset(self.decider.ignored)
        self.snapshot_every: int | None = self.decider.snapshot_every
        self.taken = self._taken()
        try:
            self.initial()
        except Exception as problem:  # it is the user's
            raise self.invalid(f"initial() failed: {errors.reason_of(problem)}") from problem

    def _taken(self) -> Any:
        parameters = list(inspect.signature(self.evolve).parameters)
        if len(parameters) != 2:
            raise self.invalid("evolve() must take a state and an event")
        found = self._hints(self.evolve).get(parameters[1])
        if found is None:
            raise self.invalid("evolve() must say which events it takes, as in `event: Opened | Deposited`")
        return found

    def _hints(self, function: Any) -> dict[str, Any]:
        try:
            return typing.get_type_hints(function)
        except Exception as problem:  # whatever evaluating the user's annotations raises
            raise self.invalid(f"its annotations cannot be read: {errors.reason_of(problem)}") from problem

    def state_form(self) -> PlainForm:
        """How its state becomes plain JSON for a snapshot: by the annotation of `initial`, or by the first state."""
        type_ = self._hints(self.initial).get("return") or type(self.initial())
        if type_ in (None, type(None), Any):
            raise self.invalid("snapshots need the type of the state, as in `def initial(self) -> Balance`")
        try:
            return PlainForm(type_)
        except Exception as problem:  # pydantic's own
            raise self.invalid(f"its state has no JSON form: {errors.reason_of(problem)}") from problem

    def fingerprint(self) -> str:
        """The name under which its snapshots are found: it changes with the code that makes a state."""
        digest = hashlib.sha256()
        for part in (self.initial, self.evolve, type(self.initial())):
            digest.update(hashlib.sha256(source_of(part)).digest())
        return f"{self.name}.{digest.hexdigest()[:16]}"

    def invalid(self, reason: str) -> errors.DeciderInvalid:
        """The error that says what is wrong with it."""
        return errors.DeciderInvalid(name=self.name, reason=reason)

    def decision(self, given: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Decision:
        """A decision with its arguments. Anything that is not one, or other arguments, are refused by name."""
        what = getattr(given, "__qualname__", str(names.display(given)))
        if not callable(given) or isinstance(given, type):
            raise self.invalid(f"{what} is not a decision: it must be a function of the state")
        leading = 1
        if not isinstance(self.decider, FunctionDecider):
            own = [vars(kind) for kind in type(self.decider).__mro__ if kind not in (Decider, object)]
            names_of = {name for known in own for name, item in known.items() if item is given}
            if not names_of - {"initial", "evolve"}:
                raise self.invalid(f"{what} is not one of its decisions")
            leading = 2
        try:
            signature = inspect.signature(given)
            bound = signature.bind(*(None,) * leading, *args, **named)
        except (TypeError, ValueError) as problem:  # ValueError: a function of C that has no signature
            known = [] if isinstance(problem, ValueError) else list(signature.parameters)[leading:]
            unknown = sorted(named.keys() - set(known))
            reason = f"it has no argument {unknown[0]!r}" if unknown else str(problem)
            reason = f"{reason}; its arguments are ({', '.join(known)})"
            raise errors.DecisionInvalid(decision=what, reason=reason) from None
        bound.apply_defaults()
        arguments = dict(list(bound.arguments.items())[leading:])
        first = () if leading == 1 else (self.decider,)
        request = {"decision": getattr(given, "__name__", what), "arguments": arguments}
        return Decision(what, request, lambda state: given(*first, state, *args, **named))


class Decision(msgspec.Struct, frozen=True):
    """One decision to be made: its name, what identifies the request for it, and the call that makes it on a state."""

    name: str
    request: dict[str, Any]
    make: Callable[[Any], Any]


def _instance(given: Any) -> Any:
    if not isinstance(given, type):
        return given
    try:
        return given()
    except Exception as problem:
        reason = f"it cannot be made without arguments: {errors.reason_of(problem)}"
        raise errors.DeciderInvalid(name=given.__name__, reason=reason) from problem


def _wrong(decider: Any) -> str | None:
    """What is wrong with the parts of a decider; None if nothing is."""
    if not isinstance(decider, (Decider, FunctionDecider)):
        return "it is not a Decider or a FunctionDecider"
    every, ignored = decider.snapshot_every, decider.ignored
    if not isinstance(decider.name, str) or not names.TYPE.fullmatch(decider.name) or len(decider.name) > 100:
        return f"its name must match {names.TYPE.pattern} and have at most 100 characters"
    if type(decider.version) is not int or not 1 <= decider.version <= names.VERSION_MAX:
        return "`version` must be a number from 1 on"
    if not isinstance(ignored, (tuple, list)) or not all(isinstance(item, str) for item in ignored):
        return "`ignored` must be a tuple of event types, such as ('account.noted',)"
    if every is not None and (type(every) is not int or every < 1):
        return "`snapshot_every` must be a number from 1 on, or None"
    if not callable(decider.initial) or not callable(decider.evolve):
        return "`initial` and `evolve` must be functions"
    missing = [name for name in ("initial", "evolve") if getattr(type(decider), name) is getattr(Decider, name, None)]
    if missing:
        return f"it has no {missing[0]}()"
    return None

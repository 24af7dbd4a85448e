"""`Decisions` for asyncio: states are loaded in threads of the pool, and appends of many tasks share a commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from tallystick import errors
from tallystick.aio.async_store import AsyncStore
from tallystick.commands.runner import CONFLICT_TRIES, Attempts
from tallystick.decide import Boundary, Decided, FunctionDecider, Loaded
from tallystick.decide.model import Evolves
from tallystick.decide.runner import Core
from tallystick.event.model import Event, NewEvent
from tallystick.store.commit import Outcome
from tallystick.store.prepare import Request

P = ParamSpec("P")
S = TypeVar("S")
Data = TypeVar("Data")


class Decisions(Core[S, Data]):
    """Runs decisions as `tallystick.decide.Decisions` does, in an event loop.

    A task that is cancelled while it waits may have appended: an idempotency key makes it safe to run it again.
    """

    @overload
    def __init__(
        self, store: AsyncStore, decider: FunctionDecider[S, Data], *, conflict_tries: int = CONFLICT_TRIES
    ) -> None: ...
    @overload
    def __init__(
        self, store: AsyncStore, decider: type[Evolves[S, Data]], *, conflict_tries: int = CONFLICT_TRIES
    ) -> None: ...
    def __init__(self, store: AsyncStore, decider: Any, *, conflict_tries: int = CONFLICT_TRIES) -> None:
        super().__init__(store.store, decider, conflict_tries=conflict_tries)
        self.store = store

    def request(
        self, *, idempotency_key: str | None = None, cause: Event | None = None, **meta: Any
    ) -> Decisions[S, Data]:
        """The same for one request; see `tallystick.decide.Decisions.request`."""
        other: Decisions[S, Data] = self._with(idempotency_key, cause, meta)
        return other

    async def load(self, subject: str | Boundary) -> Loaded[S]:
        """The state of a stream or of a boundary now."""
        return await asyncio.to_thread(self._load, subject)

    @overload
    async def run(
        self,
        subject: str | Boundary,
        decision: Callable[Concatenate[Any, S, P], Data | NewEvent | Sequence[Data | NewEvent]],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> Decided[Data]: ...
    @overload
    async def run(
        self,
        subject: str | Boundary,
        decision: Callable[Concatenate[S, P], Data | NewEvent | Sequence[Data | NewEvent]],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> Decided[Data]: ...
    async def run(self, subject: str | Boundary, decision: Any, /, *args: Any, **named: Any) -> Decided[Data]:
        """Decide on the state of a stream or of a boundary, append what follows, and wait until it is on disk."""
        attempts = self._attempts(subject, decision, args, named)
        outcome: Outcome | None = None
        while True:
            step = await asyncio.to_thread(_step, attempts, outcome)
            if isinstance(step, Decided):
                return step
            try:
                outcome = await self.store.submit(step)
            except errors.TallyError as problem:
                outcome = problem


def _step(attempts: Attempts[Decided[Data]], outcome: Outcome | None) -> Request | Decided[Data]:
    """What to submit next, or the result. No `StopIteration` can leave a thread of the pool."""
    try:
        return next(attempts) if outcome is None else attempts.send(outcome)
    except StopIteration as done:
        found: Decided[Data] = done.value
        return found

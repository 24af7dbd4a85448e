"""The state of a run as a reducer of `tallystick.state`, so that runs have snapshots, fingerprints and pruning.

`STATE` folds the stream of a run. A fork starts with the history of its parent, which is in another stream. Its state
after its first event is therefore a protected snapshot, recorded when the fork is made (`fork.py`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick import errors
from tallystick.event.model import Event
from tallystick.runs.facts import NodeFailed, NodeFinished, RunCreated, RunStateChanged
from tallystick.runs.state import FORMAT, RunReducer, RunState
from tallystick.state.fold import State
from tallystick.state.reducer import Reducer

NAME = "tallystick.run"
RUN = "run/"


def from_plain(value: Any) -> RunReducer:
    """The reducer that continues from a plain state."""
    state = msgspec.convert(value, RunState)
    return RunReducer(state.run_id, state)


def to_plain(reducer: RunReducer) -> Any:
    """The current state of a reducer, as plain JSON."""
    return msgspec.to_builtins(reducer.state)


def at(reducer: RunReducer, stream: str, *, last: Event | None = None) -> State:
    """The state of a run as a fold of its stream up to the event `last`."""
    state = reducer.state
    return State(
        value=to_plain(reducer),
        stream=stream,
        seq=state.seq,
        position=last.position if last is not None else 0,
        link=bytes.fromhex(state.link),
        latest=last.time if last is not None else 0,
        event_id=last.id if last is not None else b"",
    )


def _apply(reducer: RunReducer, event: Event) -> RunReducer:
    if event.seq == 1:
        reducer.state.run_id = event.stream.removeprefix(RUN)
        if event.type == RunCreated.TYPE and event.data.get("parent") is not None:
            reason = f"it was forked from {event.data['parent']['stream']}: only its snapshots and runs.load have that"
            raise errors.ForkImpossible(run=reducer.state.run_id, reason=reason)
    reducer.fold([event])
    return reducer


STATE = Reducer(
    name=NAME,
    version=FORMAT,
    initial=lambda: msgspec.to_builtins(RunState(run_id="")),
    apply=_apply,
    kinds=frozenset({"run"}),
    step_types=frozenset({NodeFinished.TYPE, NodeFailed.TYPE, RunStateChanged.TYPE}),
    working=from_plain,
    plain=to_plain,
)

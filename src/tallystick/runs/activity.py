"""Who ran what, when, with which inputs and outputs, from which commit: every attempt at every node, for audit."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tallystick import errors
from tallystick.runs import journal
from tallystick.runs.state import RunState
from tallystick.store.store import Store

PAGE = 1000
_RUNS = "run/"


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one node. Inputs and outputs are artifacts with their SHA-256; times are ns since 1970."""

    run: str
    workflow: str
    node: str
    attempt: int
    status: str
    session: str
    worker: str
    actor: str
    commit: str | None
    dirty: bool
    started_at: int
    ended_at: int | None
    inputs: dict[str, str]
    outputs: dict[str, str]
    error: str | None


class ActivityQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions that must all hold. `artifact` is a name or the start of a hash, `commit` may be abbreviated."""

    run: str | None = None
    node: str | None = None
    worker: str | None = None
    actor: str | None = None
    artifact: str | None = None
    commit: str | None = None
    time_from: int | None = None
    time_until: int | None = None

    def wants(self, found: Activity) -> bool:
        """Whether an attempt matches."""
        exact = (("node", self.node), ("worker", self.worker), ("actor", self.actor), ("run", self.run))
        if any(value is not None and getattr(found, key) != value for key, value in exact):
            return False
        if self.commit is not None and not (found.commit or "").startswith(self.commit):
            return False
        if self.artifact is not None and not _touches(found, self.artifact):
            return False
        if self.time_from is not None and found.started_at < self.time_from:
            return False
        return self.time_until is None or found.started_at < self.time_until


class RunTelemetry(msgspec.Struct):
    """The result: attempts, ordered by run and start, and what could not be read, with the reason.

    What could not be read is a run, by its id, or lost positions: a run that is lost completely is in no list.
    """

    activities: list[Activity] = []
    unreadable: dict[str, str] = {}


def telemetry(store: Store, question: ActivityQuery | None = None) -> RunTelemetry:
    """Search every run of a store, or one."""
    question = question or ActivityQuery()
    found = RunTelemetry()
    for run in [question.run] if question.run is not None else run_ids(store):
        try:
            state = journal.load(store, run).state
        except journal.UNREADABLE as problem:
            found.unreadable[run] = problem.message
            continue
        found.activities += sorted(
            (activity for activity in activities(state) if question.wants(activity)),
            key=lambda activity: (activity.started_at, activity.node, activity.attempt),
        )
    if question.run is None:
        said = " ".join(found.unreadable.values())
        holes = [hole for hole in store.log.holes() if hole.reason not in said]
        found.unreadable |= {f"positions {hole.first} to {hole.last}": hole.reason for hole in holes}
    return found


def activities(state: RunState) -> Iterator[Activity]:
    """Every attempt that this run made itself. Inherited ones are listed with the parent run."""
    sessions = {session.session: session for session in state.sessions}
    for item in [*state.work_items, *state.removed_items]:
        for attempt in item.history:
            session = sessions.get(attempt.session)
            if session is not None:
                yield Activity(
                    run=state.run_id,
                    workflow=state.workflow,
                    node=item.node,
                    attempt=attempt.attempt,
                    status=attempt.status,
                    session=session.session,
                    worker=session.worker,
                    actor=session.actor,
                    commit=session.commit,
                    dirty=session.dirty,
                    started_at=attempt.started_at,
                    ended_at=attempt.ended_at,
                    inputs=attempt.inputs,
                    outputs=attempt.outputs,
                    error=attempt.error,
                )


def run_ids(store: Store) -> Iterator[str]:
    """The ids of all runs that a workflow made, sorted. Other streams of that kind are skipped."""
    after = _RUNS
    while page := store.streams(after=after, limit=PAGE):
        for info in page:
            if not info.stream.startswith(_RUNS):
                return
            if _is_run(store, info.stream):
                yield info.stream.removeprefix(_RUNS)
        after = page[-1].stream


def _is_run(store: Store, stream: str) -> bool:
    try:
        first = store.read_stream(stream, limit=1)
    except (errors.Damaged, errors.HistoryPruned):
        return True
    return bool(first) and first[0].type == "RUN_CREATED"


def _touches(found: Activity, artifact: str) -> bool:
    touched = [*found.inputs.items(), *found.outputs.items()]
    return any(name == artifact or (len(artifact) >= 6 and sha256.startswith(artifact)) for name, sha256 in touched)

"""Getting the state of a run back: from its events, held against its snapshot; and what happens when neither helps."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import canonical
from tallystick.event.model import NewEvent
from tallystick.runs import journal, schema, snapshot
from tallystick.runs.snapshot import Documents
from tallystick.runs.state import Issue, Reducer, RunState
from tallystick.store.store import Store

FAILURES_STREAM = "tally.run/failures"
RUN_FAILED = "tally.run.failed"
SNAPSHOT_INVALID = "SnapshotInvalid"


class Comparison(msgspec.Struct, frozen=True):
    """A snapshot beside a replay: equal byte for byte, or in what it is wrong."""

    run_id: str
    events: int
    seq: int
    equal: bool
    reason: str = ""
    rewritten: bool = False


def for_resume(store: Store, run: str) -> Reducer:
    """Take the run over and replay it; an invalid snapshot is put right. If replay is impossible, the run fails.

    A run that another runner holds is refused before anything is looked at.
    """
    documents: Documents | None = getattr(store.log, "documents", None)
    try:
        if store.stream_head(journal.stream_of(run)) is not None:
            store.acquire_lease(journal.stream_of(run))
        reducer = journal.load(store, run)
    except errors.RunNotFound as problem:
        if documents is None or documents.load(run, snapshot.NAME) is None:
            raise
        raise fail(store, run, f"the log is missing: {problem.message}") from problem
    except (errors.Damaged, errors.RunLogInvalid, errors.HistoryPruned, errors.ForkImpossible) as problem:
        raise fail(store, run, problem.message) from problem
    if documents is not None:
        found = compare(store, run, reducer.state)
        if not found.equal or found.seq < found.events:
            documents.replace(run, snapshot.NAME, snapshot.encode(reducer.state))
        documents.remove(run, snapshot.FAILURE)  # the log can be read, so what it says is no longer so
    return reducer


def compare(store: Store, run: str, now: RunState) -> Comparison:
    """The stored snapshot against a replay up to the event that it names. `now` is the replay of everything."""
    documents: Documents | None = getattr(store.log, "documents", None)
    return _compared(store, run, now, None if documents is None else documents.load(run, snapshot.NAME))


def _compared(store: Store, run: str, now: RunState, data: bytes | None) -> Comparison:
    documents: Documents | None = getattr(store.log, "documents", None)
    if data is None:
        return Comparison(run, now.seq, 0, documents is None, "" if documents is None else "there is no snapshot.json")
    if data == snapshot.encode(now):
        return Comparison(run, now.seq, now.seq, True)
    try:
        found = snapshot.decode(data)
    except errors.TallyError as problem:
        return Comparison(run, now.seq, 0, False, problem.message)
    if found.run_id != run or not 1 <= found.seq <= now.seq:
        return Comparison(run, now.seq, found.seq, False, "it is of another run, or ahead of the log")
    equal = found.seq < now.seq and snapshot.encode(journal.load(store, run, until=found.seq).state) == data
    return Comparison(run, now.seq, found.seq, equal, "" if equal else "it is not what the events say")


def replay(store: Store, run: str) -> Comparison:
    """Rebuild the snapshot of a run from RUN_CREATED on, compare it byte for byte, and put it right if it differs."""
    documents: Documents | None = getattr(store.log, "documents", None)
    stored = None if documents is None else documents.load(run, snapshot.NAME)  # before the log: a runner may live
    reducer = journal.load(store, run)
    found = _compared(store, run, reducer.state, stored)
    if documents is None or found.equal or store.log.readonly:
        return found
    documents.replace(run, snapshot.NAME, snapshot.encode(reducer.state))
    return msgspec.structs.replace(found, rewritten=True)


def validate(store: Store, run: str) -> int:
    """Hold every event of a run against the shipped JSON Schema, as the line that it is; says how many there were."""
    count = 0
    for event in journal.events_of(store, journal.stream_of(run)):
        schema.check("event", schema.line(event))
        count += 1
    return count


def fail(store: Store, run: str, reason: str) -> errors.SnapshotInvalid:
    """Fail a run whose log cannot be read. The log is left as it is; the blocker is recorded beside it.

    It stands in failure.json, in the audit trail, and in snapshot.json as the open issue of a failed run.
    """
    now = store.clock()
    issue = Issue(issue="snapshot", code=SNAPSHOT_INVALID, severity="blocker", message=reason, node=None, opened_at=now)
    documents: Documents | None = getattr(store.log, "documents", None)
    if documents is not None and documents.exists(run):
        record: dict[str, Any] = {"run_id": run, "failed_at": now, "issue": msgspec.to_builtins(issue)}
        documents.replace(run, snapshot.FAILURE, canonical.encode_state(record) + b"\n")
        state = _last_known(documents, run)
        state.run_state, state.updated_at = "failed", now
        state.issues = [item for item in state.issues if item.issue != issue.issue] + [issue]
        documents.replace(run, snapshot.NAME, snapshot.encode(state))
    payload = {"stream": journal.stream_of(run), "code": SNAPSHOT_INVALID, "reason": reason}
    store.record([(FAILURES_STREAM, NewEvent(RUN_FAILED, payload))])
    return errors.SnapshotInvalid(run=run, reason=reason)


def _last_known(documents: Documents, run: str) -> RunState:
    """What the snapshot said, if it still says anything."""
    data = documents.load(run, snapshot.NAME)
    try:
        return snapshot.decode(data or b"")
    except errors.TallyError:
        return RunState(run_id=run)

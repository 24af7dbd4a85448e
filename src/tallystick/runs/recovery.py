"""Recover the state of a run from its events and compare it with its snapshot; fail the run if neither is usable."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import canonical
from tallystick.event.model import NewEvent
from tallystick.runs import journal, schema, snapshot
from tallystick.runs.state import Issue, RunReducer, RunState
from tallystick.store.run_documents import RunDocuments
from tallystick.store.store import Store

FAILURES_STREAM = "tally.run/failures"
RUN_FAILED = "tally.run.failed"
SNAPSHOT_INVALID = "SnapshotInvalid"


class StateComparison(msgspec.Struct, frozen=True):
    """A snapshot compared with a replay: equal byte for byte, or the reason why not.

    The replay started after the event `since`: 0, or where the run was pruned.
    """

    run_id: str
    events: int
    seq: int
    equal: bool
    reason: str = ""
    rewritten: bool = False
    since: int = 0


def for_resume(store: Store, run: str) -> RunReducer:
    """Take over the run and load its state. An invalid snapshot is replaced. If that is impossible, the run fails.

    A run that another runner holds is refused before anything is read.
    """
    documents = store.log.run_documents
    try:
        if store.stream_head(journal.stream_of(run)) is not None:
            store.acquire_lease(journal.stream_of(run))
        reducer = journal.load(store, run)
    except errors.RunNotFound as problem:
        if documents is None or documents.load(run, snapshot.NAME) is None:
            raise
        raise fail(store, run, _without_log(documents, run)) from problem
    except journal.UNREADABLE as problem:
        raise fail(store, run, problem.message) from problem
    if reducer.state.parent is not None and not reducer.begun_at:
        journal.keep_beginning(store, run)
    if documents is not None:
        found = compare(store, run, reducer.state)
        if not found.equal or found.seq < found.events:
            documents.replace(run, snapshot.NAME, snapshot.encode(reducer.state))
        documents.remove(run, snapshot.FAILURE)  # the log can be read, so that record is out of date
    return reducer


def compare(store: Store, run: str, now: RunState) -> StateComparison:
    """Compare the stored snapshot with the state at the event that it names. `now` is the state at the end."""
    documents = store.log.run_documents
    return _compared(store, run, now, None if documents is None else documents.load(run, snapshot.NAME), whole=False)


def _compared(store: Store, run: str, now: RunState, data: bytes | None, *, whole: bool) -> StateComparison:
    documents = store.log.run_documents
    if data is None:
        return StateComparison(
            run, now.seq, 0, documents is None, "" if documents is None else "there is no snapshot.json"
        )
    if data == snapshot.encode(now):
        return StateComparison(run, now.seq, now.seq, True)
    try:
        found = snapshot.decode(data)
    except errors.TallyError as problem:
        return StateComparison(run, now.seq, 0, False, problem.message)
    if found.run_id != run or not 1 <= found.seq <= now.seq:
        return StateComparison(run, now.seq, found.seq, False, "it belongs to another run, or is ahead of the log")
    equal = found.seq < now.seq and _encoded_at(store, run, found.seq, whole=whole) == data
    return StateComparison(run, now.seq, found.seq, equal, "" if equal else "it differs from the replay of the events")


def replay(store: Store, run: str) -> StateComparison:
    """Rebuild the snapshot of a run from RUN_CREATED, compare it byte for byte, and replace it if it differs.

    A pruned run is rebuilt from its snapshot at the cut.
    """
    documents = store.log.run_documents
    stored = None if documents is None else documents.load(run, snapshot.NAME)  # before the log: a runner may be alive
    pruned = store.cut(journal.stream_of(run)) is not None
    reducer = journal.load(store, run, whole=not pruned)
    found = _compared(store, run, reducer.state, stored, whole=not pruned)
    found = msgspec.structs.replace(found, since=reducer.begun_at if pruned else 0)
    if documents is None or found.equal or store.log.readonly:
        return found
    documents.replace(run, snapshot.NAME, snapshot.encode(reducer.state))
    return msgspec.structs.replace(found, rewritten=True)


def validate(store: Store, run: str) -> int:
    """Check every existing event of a run against the shipped JSON Schema. Returns how many there were."""
    count = 0
    for event in journal.events_of(store, journal.stream_of(run)):
        schema.check("event", schema.line(event))
        count += 1
    return count


def fail(store: Store, run: str, reason: str) -> errors.SnapshotInvalid:
    """Fail a run whose log cannot be read. The log is not changed; the failure is recorded next to it.

    It is in failure.json, in the audit trail, and in snapshot.json as the open issue of a failed run.
    """
    now = store.clock()
    issue = Issue(issue="snapshot", code=SNAPSHOT_INVALID, severity="blocker", message=reason, node=None, opened_at=now)
    documents = store.log.run_documents
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


def _encoded_at(store: Store, run: str, seq: int, *, whole: bool) -> bytes:
    """The snapshot of a run as it must be at a seq."""
    return snapshot.encode(journal.load(store, run, until=seq, whole=whole).state)


def _without_log(documents: RunDocuments, run: str) -> str:
    """What can be said about a run whose log is missing."""
    gone = f"the log of the run is missing in {documents.place(run)}"
    known = _last_known(documents, run)
    if not known.seq:
        return f"{gone}, and {snapshot.NAME} is not valid either"
    shown = f"{snapshot.NAME} is valid and shows the run up to seq {known.seq}"
    return f"{gone}; {shown}, but a run cannot continue without its log"


def _last_known(documents: RunDocuments, run: str) -> RunState:
    """The state in the snapshot, if it can be read."""
    data = documents.load(run, snapshot.NAME)
    try:
        return snapshot.decode(data or b"")
    except errors.TallyError:
        return RunState(run_id=run)

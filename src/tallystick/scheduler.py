"""What fires by itself, on a given clock: snapshots, retention, validation. Opt-in in the library.

Nothing is remembered outside of the log: when something last happened is what the control facts say. So a restart
neither forgets a trigger nor fires one twice, and a snapshot, whatever caused it, resets every trigger at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from tallystick import errors
from tallystick.event.model import Event, NewEvent
from tallystick.state import shelf, snapshots, validation
from tallystick.state.policy import Policy
from tallystick.state.reducer import Reducer
from tallystick.state.retention import retain
from tallystick.store import facts
from tallystick.store.store import Store

CURSOR = "tally.scheduler"
SCHEDULE = "tally.schedule"
JOB_DONE = "tally.job.done"
PAGE = 5_000


class Fired(msgspec.Struct, frozen=True):
    """One thing that was due and was done: which job, by which trigger, and with what result."""

    job: str
    trigger: str
    result: str


class Scheduler:
    """Looks at a store now and then (`tick`) and does what is due."""

    def __init__(self, store: Store, reducers: Sequence[Reducer], policy: Policy) -> None:
        self._store = store
        self._reducers = tuple(reducers)
        self._policy = policy

    def tick(self) -> list[Fired]:
        """Do everything that is due now."""
        fired: list[Fired] = []
        for job in (self._stream_snapshots, self._store_snapshot, self._retention, self._validation):
            fired += job()
        return fired

    def run(self, stop: threading.Event, *, every_s: float = 1.0, tell: Callable[[Fired], None] | None = None) -> None:
        """Tick until told to stop. A store that cannot be used just now (full, busy) is looked at again later."""
        while not stop.wait(every_s):
            try:
                for fired in self.tick():
                    if tell is not None:
                        tell(fired)
            except (errors.NoSpace, errors.Busy, errors.Conflict) as problem:
                if tell is not None:
                    tell(Fired("tick", "", f"put off: {problem.message}"))

    # --- snapshots of streams ---------------------------------------------------------------------------------------

    def _stream_snapshots(self) -> list[Fired]:
        """Every stream that has grown by so many events since its last snapshot."""
        wanted = self._policy.stream_events
        mine = [item for item in self._reducers if item.scope == "stream"]
        if wanted is None or not mine:
            return []
        fired = []
        after, head = self._cursor(), self._store.head()
        while after < head:
            page = self._store.log.read(after=after, until=head, limit=PAGE, over_pruned=True)
            for stream in sorted({event.stream for event in page.events}):
                fired += self._stream(stream, mine, wanted)
            if page.through <= after:
                break
            self._store.save_checkpoint(CURSOR, page.through)
            after = page.through
        return fired

    def _cursor(self) -> int:
        try:
            return self._store.load_checkpoint(CURSOR)
        except errors.WrongStore:  # a restored backup: look at everything again
            self._store.log.checkpoints.delete(CURSOR)
            return 0

    def _stream(self, stream: str, mine: Sequence[Reducer], wanted: int) -> list[Fired]:
        fired = []
        for item in mine:
            head = self._store.stream_head(stream)
            if head is None or not item.wants(stream):
                continue
            last = next((e.fact.seq for e in shelf.entries(self._store, stream) if e.fact.reducer == item.name), 0)
            if head.seq - last >= wanted:
                snapshots.make(self._store, item, stream)
                fired.append(Fired("stream snapshot", "count", f"{stream} at seq {head.seq} by {item.name}"))
        return fired

    # --- snapshots of the store -------------------------------------------------------------------------------------

    def _store_snapshot(self) -> list[Fired]:
        """The first trigger that is due makes a snapshot of everything, from which all of them count anew."""
        if not self._reducers:
            return []
        trigger = self._store_trigger()
        if trigger is None:
            return []
        made = snapshots.make_all(self._store, self._reducers)
        return [Fired("store snapshot", trigger, made.hex())]

    def _store_trigger(self) -> str | None:
        policy, store = self._policy, self._store
        head = store.head()
        last = self._last_set()
        since = last.position if last is not None else 0
        if head <= since:
            return None
        if policy.store_events is not None and head - since >= policy.store_events:
            return "count"
        if policy.store_bytes is not None and _log_bytes(store) - _bytes_at(last) >= policy.store_bytes:
            return "size"
        if policy.store_ns is not None and self._is_quiet(head):
            began = last.time if last is not None else self._first_recorded()
            if began is not None and store.clock() - began >= policy.store_ns:
                return "time"
        return None

    def _last_set(self) -> Event | None:
        found = shelf.facts_backwards(self._store, "")
        return next((event for event in found if event.type == facts.SNAPSHOT_SET), None)

    def _first_recorded(self) -> int | None:
        page = self._store.log.read(limit=1, over_pruned=True)
        return self._store.log.recorded_at(page.events[0].position) if page.events else None

    def _is_quiet(self, head: int) -> bool:
        recorded = self._store.log.recorded_at(head)
        return recorded is None or self._store.clock() - recorded >= self._policy.quiet_ns

    # --- retention and validation -----------------------------------------------------------------------------------

    def _retention(self) -> list[Fired]:
        if not self._is_due("retention", self._policy.retain_every_ns):
            return []
        deeds, reclaimed = retain(self._store, self._reducers, self._policy)
        self._done("retention")
        done = [f"{deed.what} {deed.stream} ({deed.count})" for deed in deeds if not deed.why_not]
        return [
            Fired("retention", "time", "; ".join([*done, *(reclaimed.done if reclaimed else ())]) or "nothing to do")
        ]

    def _validation(self) -> list[Fired]:
        if self._policy.validate_every_ns is None or not self._is_due("validation", self._policy.validate_every_ns):
            return []
        found = [problem.reason for problem in validation.problems(self._store, self._reducers)]
        self._done("validation")
        return [Fired("validation", "time", "; ".join(found) or "nothing is wrong")]

    def _is_due(self, job: str, every_ns: int) -> bool:
        """Whether a job is due: counted from when it was last done, or from the first event if it never was."""
        head = self._store.stream_head(f"{SCHEDULE}/{job}")
        if head is None:
            last = self._first_recorded()
        else:
            last = self._store.log.read_stream(f"{SCHEDULE}/{job}", after=head.seq - 1, limit=1)[0].time
        return last is not None and self._store.clock() - last >= every_ns

    def _done(self, job: str) -> None:
        self._store.record([(f"{SCHEDULE}/{job}", NewEvent(JOB_DONE, {"job": job}))])


def _log_bytes(store: Store) -> int:
    return int(store.report().facts.get("log_bytes", 0))


def _bytes_at(last: Event | None) -> int:
    return int((last.data or {}).get("log_bytes", 0)) if last is not None else 0

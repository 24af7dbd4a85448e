"""Jobs that run automatically, by a given clock: snapshots, retention, validation. In the library they are opt-in.

The control facts in the log say when a job was last done; nothing is remembered elsewhere. So a restart neither forgets
a trigger nor fires one twice, and a snapshot resets every trigger, whatever caused it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import names
from tallystick.event.model import Event, NewEvent
from tallystick.state import shelf, snapshots, validation
from tallystick.state.archive import Archive
from tallystick.state.policy import Policy
from tallystick.state.reducer import Reducer
from tallystick.state.retention import retain
from tallystick.store import facts, iterate
from tallystick.store.store import Store

CURSOR = "tally.scheduler"
SCHEDULE = "tally.schedule"
JOB_DONE = "tally.job.done"
PAGE = 5_000
RECENT = 100
CLEANUP, CLEANUP_EVERY_NS, ACTIONS_RECORDED_MAX = "cleanup", 60_000_000_000, 100

_PUT_OFF = (errors.Refused, errors.InvalidInput, errors.NoSpace, errors.Busy, errors.Damaged, errors.ReadFailed)
"""Errors that delay a job: a later tick tries again. A closed or failed store ends the loop."""


class Fired(msgspec.Struct, frozen=True):
    """One job that was due: its trigger, what came of it, and whether all is well (`ok`)."""

    job: str
    trigger: str
    result: str
    ok: bool = True


class Scheduler:
    """Does the jobs of a store that are due, whenever `tick` is called."""

    def __init__(
        self,
        store: Store,
        reducers: Sequence[Reducer],
        policy: Policy,
        *,
        archive: Callable[[], Archive] | None = None,
    ) -> None:
        """With `archive`, which returns the archive as it is now, only events that it holds are pruned."""
        self._store = store
        self._reducers = tuple(reducers)
        self._policy = policy
        self._archive = archive
        self._cleaned: int | None = None  # when the need of a cleanup was last checked
        self._retained: int | None = None  # when retention last ran
        self._counted = (0, 0, 0)  # after one position, up to another: how many events of users there are

    def tick(self) -> list[Fired]:
        """Do everything that is due now."""
        fired: list[Fired] = []
        jobs = {
            "stream snapshot": self._stream_snapshots,
            "store snapshot": self._store_snapshot,
            CLEANUP: self._cleanup,
            "retention": self._retention,
            "validation": self._validation,
        }
        for name, job in jobs.items():
            try:
                fired += job()
            except _PUT_OFF as problem:  # the next tick tries again; the other jobs still run
                fired.append(Fired(name, "", f"failed: {problem.message}", ok=False))
        return fired

    def run(self, stop: threading.Event, *, every_s: float = 1.0, tell: Callable[[Fired], None] | None = None) -> None:
        """Tick until `stop` is set. Jobs that cannot be done now (full, busy, damaged) are tried again later."""
        while not stop.wait(every_s):
            for fired in self.tick():
                if tell is not None:
                    tell(fired)

    # --- snapshots of streams ---------------------------------------------------------------------------------------

    def _stream_snapshots(self) -> list[Fired]:
        """Snapshot every stream that has grown by so many events since its last snapshot."""
        wanted = self._policy.stream_events
        mine = [item for item in self._reducers if item.scope == "stream"]
        if wanted is None or not mine:
            return []
        fired = []
        after = self._cursor()
        for page in iterate.pages(self._store.log, after=after, limit=PAGE, over_pruned=True):
            for stream in sorted({event.stream for event in page.events}):
                fired += self._stream(stream, mine, wanted)
            if page.through > after:
                self._store.save_checkpoint(CURSOR, page.through)
            after = page.through
        return fired

    def _cursor(self) -> int:
        try:
            return self._store.load_checkpoint(CURSOR)
        except (errors.WrongStore, errors.CheckpointDamaged):  # for example a restored backup: read everything again
            self._store.log.checkpoints.delete(CURSOR)
            return 0

    def _stream(self, stream: str, mine: Sequence[Reducer], wanted: int) -> list[Fired]:
        fired = []
        for item in mine:
            head = self._store.stream_head(stream)
            if head is None or not item.wants(stream):
                continue
            recent = islice(shelf.entries(self._store, stream), RECENT)
            last = max((entry.fact.seq for entry in recent if entry.fact.reducer == item.name), default=0)
            if head.seq - last >= wanted:
                fired.append(self._make(item, stream, head.seq))
        return fired

    def _make(self, item: Reducer, stream: str, seq: int) -> Fired:
        """Snapshot a stream. If it cannot be folded, the others still get their snapshots."""
        try:
            snapshots.make(self._store, item, stream)
        except (errors.Refused, errors.InvalidInput, errors.Damaged) as problem:
            return Fired("stream snapshot", "count", f"{stream} by {item.name} failed: {problem.message}", ok=False)
        return Fired("stream snapshot", "count", f"{stream} at seq {seq} by {item.name}")

    # --- snapshots of the store -------------------------------------------------------------------------------------

    def _store_snapshot(self) -> list[Fired]:
        """Snapshot everything at the first trigger that is due. All triggers count from there again."""
        if not self._reducers:
            return []
        trigger = self._store_trigger()
        if trigger is None:
            return []
        made = snapshots.make_all(self._store, self._reducers)
        return [Fired("store snapshot", trigger, made.hex())]

    def _store_trigger(self) -> str | None:
        policy, store = self._policy, self._store
        if policy.store_events is None and policy.store_bytes is None and policy.store_ns is None:
            return None
        last = self._last_set()
        events = self._events_since(int((last.data or {}).get("position", 0)) if last is not None else 0)
        if not events:
            return None
        if policy.store_events is not None and events >= policy.store_events:
            return "count"
        if policy.store_bytes is not None:
            size = _log_bytes(store)
            if size - min(_bytes_at(last), size) >= policy.store_bytes:
                return "size"
        if policy.store_ns is not None and self._is_quiet(store.head()):
            began = last.time if last is not None else self._first_recorded()
            if began is not None and self._passed(began, policy.store_ns):
                return "time"
        return None

    def _events_since(self, position: int) -> int:
        """How many events of users there are after a position: the store's own facts trigger nothing."""
        since, upto, count = self._counted
        if since != position:
            upto, count = position, 0
        for page in iterate.pages(self._store.log, after=upto, limit=PAGE, over_pruned=True):
            count += sum(not names.is_reserved(event.stream) for event in page.events)
            upto = max(upto, page.through)
        self._counted = (position, upto, count)
        return count

    def _passed(self, began: int, span: int) -> bool:
        """Whether a span of time is over. A start in the future was noted by a clock that was wrong."""
        now = self._store.clock()
        return began > now or now - began >= span

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
        every_ns = self._policy.retain_every_ns
        if self._retained is not None and not self._passed(self._retained, every_ns):
            return []
        if not self._is_due("retention", every_ns):
            return []
        went, reclaimed = self._retain()
        self._retained = self._store.clock()
        if went:  # otherwise each hour of an idle store would add an event; after a restart it runs again
            self._done("retention")
        return [Fired("retention", "time", "; ".join([*went, *reclaimed]) or "nothing to do")]

    def _retain(self) -> tuple[list[str], Sequence[str]]:
        """Remove what the policy allows; returns what was removed, and what was done with its space."""
        archive = self._archive() if self._archive is not None else None
        actions, reclaimed = retain(self._store, self._reducers, self._policy, archive=archive)
        went = [f"{action.what} {action.stream} ({action.count})" for action in actions if not action.why_not]
        return went, reclaimed.done if reclaimed else ()

    def _cleanup(self) -> list[Fired]:
        """If the disk is nearly full, run retention now. When it is full, appends are refused."""
        wanted = self._policy.free_bytes
        if wanted is None or (self._cleaned is not None and not self._passed(self._cleaned, CLEANUP_EVERY_NS)):
            return []
        self._cleaned, before = self._store.clock(), _free_bytes(self._store)
        if before is None or before >= wanted:
            return []
        went, reclaimed = self._retain()
        done, after = [*went, *reclaimed], _free_bytes(self._store)
        space = f"{before} bytes were free, wanted {wanted}, now {after}"
        if not done:
            return [Fired(CLEANUP, "space", f"failed: {space}; retention removes nothing more", ok=False)]
        self._done(CLEANUP, free_before=before, free_after=after, wanted=wanted, done=done[:ACTIONS_RECORDED_MAX])
        return [Fired(CLEANUP, "space", "; ".join([space, *done]))]

    def _validation(self) -> list[Fired]:
        if self._policy.validate_every_ns is None or not self._is_due("validation", self._policy.validate_every_ns):
            return []
        found = [problem.reason for problem in validation.problems(self._store, self._reducers)]
        self._done("validation")
        return [Fired("validation", "time", "; ".join(found) or "nothing is wrong", ok=not found)]

    def _is_due(self, job: str, every_ns: int) -> bool:
        """Whether a job is due. The time counts from when it was last done, or from the first event."""
        done = iterate.last(self._store.log, f"{SCHEDULE}/{job}")
        last = self._first_recorded() if done is None else done.time
        return last is not None and self._passed(last, every_ns)

    def _done(self, job: str, **more: Any) -> None:
        self._store.record([(f"{SCHEDULE}/{job}", NewEvent(JOB_DONE, {"job": job} | more))])


def _free_bytes(store: Store) -> int | None:
    """How much space is left where the log is; None if the engine does not know."""
    found = store.report().facts.get("free_bytes")
    return found if isinstance(found, int) else None


def _log_bytes(store: Store) -> int:
    return int(store.report().facts.get("log_bytes", 0))


def _bytes_at(last: Event | None) -> int:
    return int((last.data or {}).get("log_bytes", 0)) if last is not None else 0

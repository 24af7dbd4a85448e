"""Long operations (verify, rebuild, snapshot, retention): each in its own thread, with progress, bounded in number.

A job belongs to this process. The store records what the job does to it. The job and its result are kept in memory, as
long as there is room.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from tallystick import errors

RUNNING_MAX = 4
KEPT_MAX = 200
MESSAGE_CHARACTERS_MAX = 500

Progress = Callable[[int], None]
Work = Callable[[Progress], Any]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A long operation: what it is, its progress, and its result. Times are in ns. `total` is null if it is unknown."""

    id: str
    kind: str
    subject: str
    by: str
    state: Literal["running", "done", "failed", "stopped"]
    done: int
    total: int | None
    began: int
    ended: int | None = None
    result: Any = None
    problem: dict[str, Any] | None = None


class Stopped(Exception):
    """Raised inside a job when the service stops."""


class Jobs:
    """The jobs of a service."""

    def __init__(
        self,
        *,
        clock: Callable[[], int] = time.time_ns,
        running_max: int = RUNNING_MAX,
        ended: Callable[[Job], None] = lambda job: None,
    ) -> None:
        self._clock = clock
        self._running_max = running_max
        self._ended = ended
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._stopping = threading.Event()

    def begin(self, kind: str, work: Work, *, subject: str = "", total: int | None = None, by: str = "") -> Job:
        """Begin a job, or return the same job if it is running. `Overloaded` if too many jobs are running."""
        with self._lock:
            running = [job for job in self._jobs.values() if job.state == "running"]
            for job in running:
                if (job.kind, job.subject) == (kind, subject):
                    return job
            if len(running) >= self._running_max or self._stopping.is_set():
                raise errors.Overloaded(what="jobs")
            job = Job(
                id=secrets.token_hex(8),
                kind=kind,
                subject=subject,
                by=by,
                state="running",
                done=0,
                total=total,
                began=self._clock(),
            )
            self._keep(job)
            thread = threading.Thread(target=self._run, args=(job, work), name=f"tallystick-job-{kind}", daemon=True)
            self._threads[job.id] = thread
        thread.start()
        return job

    def get(self, id: str) -> Job:
        """The job with this id; `NothingHere` if there is no such job, or it is no longer kept."""
        job = self._jobs.get(id)
        if job is None:
            raise errors.NothingHere()
        return job

    def all(self) -> list[Job]:
        """Every job that is kept, newest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def last(self, kind: str) -> Job | None:
        """The newest job of a kind that has ended."""
        return next((job for job in self.all() if job.kind == kind and job.state != "running"), None)

    @property
    def running(self) -> int:
        """The number of running jobs."""
        return sum(job.state == "running" for job in self.all())

    def stop(self, *, seconds: float = 5.0) -> None:
        """Stop every job at its next step, and wait for that: a job must not use a closed store."""
        self._stopping.set()
        deadline = time.monotonic() + seconds
        for thread in list(self._threads.values()):
            thread.join(max(0.0, deadline - time.monotonic()))

    # --- in the job's thread ---------------------------------------------------------------------------------------

    def _run(self, job: Job, work: Work) -> None:
        try:
            result = work(lambda done: self._move(job, done))
            self._end(job, state="done", result=msgspec.to_builtins(result, enc_hook=_plain))
        except Stopped:
            self._end(job, state="stopped")
        except errors.TallyError as problem:
            self._end(job, state="failed", problem=problem.as_json())
        except Exception as problem:  # a reducer or a projection is user code, and may raise anything
            failure = {"error": type(problem).__name__, "message": str(problem)[:MESSAGE_CHARACTERS_MAX], "advice": ""}
            self._end(job, state="failed", problem=failure | {"values": {}})

    def _move(self, job: Job, done: int) -> None:
        """Note progress. It never goes back."""
        if self._stopping.is_set():
            raise Stopped
        with self._lock:
            found = self._jobs.get(job.id)
            if found is not None and done > found.done:
                known = done if found.total is None else min(done, found.total)
                self._jobs[job.id] = msgspec.structs.replace(found, done=known)

    def _end(self, job: Job, **changes: Any) -> None:
        with self._lock:
            found = self._jobs.get(job.id, job)
            done = found.total if changes["state"] == "done" and found.total is not None else found.done
            over = msgspec.structs.replace(found, ended=self._clock(), done=done, **changes)
            self._jobs[job.id] = over
            self._threads.pop(job.id, None)
        self._ended(over)

    def _keep(self, job: Job) -> None:
        """Keep a job. The oldest jobs that have ended are dropped."""
        self._jobs[job.id] = job
        over = [id_ for id_, found in self._jobs.items() if found.state != "running"]
        for id_ in over[: max(0, len(self._jobs) - KEPT_MAX)]:
            del self._jobs[id_]


def halves(progress: Progress, size: int) -> Progress:
    """Progress of an operation that counts to `size` several times: each pass is added to those before it."""
    passes = last = 0

    def move(done: int) -> None:
        nonlocal passes, last
        if done < last:
            passes += 1
        last = done
        progress(passes * size + done)

    return move


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)

"""Long operations: progress that only grows, bounded in number, and an end for each."""

from __future__ import annotations

import threading

import pytest

from tallystick import errors
from tallystick.server.jobs import KEPT_MAX, Jobs, Stopped, halves

WAIT_SECONDS = 30


def over(jobs: Jobs, id: str) -> str:
    """How a job ended."""
    for thread in list(jobs._threads.values()):
        thread.join(WAIT_SECONDS)
    return jobs.get(id).state


def test_a_job_ends_with_its_result_and_full_progress():
    """What the work returns is the result, and `done` is at the total."""
    jobs = Jobs()
    job = jobs.begin("count", lambda progress: progress(3) or {"found": 7}, total=5, by="ada")
    assert over(jobs, job.id) == "done"
    found = jobs.get(job.id)
    assert (found.result, found.done, found.total, found.by) == ({"found": 7}, 5, 5, "ada")
    assert found.ended is not None


def test_progress_never_goes_back_and_never_past_the_end():
    """A second pass over the log adds to the first one."""
    seen: list[int] = []
    jobs = Jobs()

    def work(progress):
        move = halves(progress, 10)
        for done in (4, 10, 2, 10, 5):
            move(done)
            seen.append(jobs.get(job_id[0]).done)
        progress(1)
        seen.append(jobs.get(job_id[0]).done)

    job_id: list[str] = []
    gate = threading.Event()
    job_id.append(jobs.begin("verify", lambda progress: gate.wait(WAIT_SECONDS) and work(progress), total=20).id)
    gate.set()
    assert over(jobs, job_id[0]) == "done"
    assert seen == [4, 10, 12, 20, 20, 20]


def test_the_same_job_is_not_begun_twice():
    """A caller who begins a job that is running gets that job; another subject is another job."""
    jobs, gate = Jobs(), threading.Event()

    def wait(progress):
        gate.wait(WAIT_SECONDS)

    first = jobs.begin("rebuild", wait, subject="a")
    assert jobs.begin("rebuild", wait, subject="a").id == first.id
    assert jobs.begin("rebuild", wait, subject="b").id != first.id
    gate.set()
    over(jobs, first.id)
    assert jobs.begin("rebuild", wait, subject="a").id != first.id


def test_too_many_at_once_are_refused():
    """Threads are bounded: the next job is refused and may be tried again."""
    jobs, gate = Jobs(running_max=2), threading.Event()
    begun = [jobs.begin("rebuild", lambda progress: gate.wait(WAIT_SECONDS), subject=str(n)) for n in range(2)]
    with pytest.raises(errors.Overloaded):
        jobs.begin("rebuild", lambda progress: None, subject="2")
    gate.set()
    over(jobs, begun[0].id)
    assert jobs.running == 0


def test_a_job_that_fails_says_why():
    """Our own errors keep their name and advice; errors of user code are reported by type and message."""
    jobs = Jobs()

    def conflict(progress):
        raise errors.Conflict(stream="a/1", expected=1, actual=2)

    def bug(progress):
        raise ZeroDivisionError("by zero")

    ours, theirs = jobs.begin("a", conflict), jobs.begin("b", bug)
    assert (over(jobs, ours.id), over(jobs, theirs.id)) == ("failed", "failed")
    assert jobs.get(ours.id).problem["error"] == "Conflict"
    assert jobs.get(theirs.id).problem["message"] == "by zero"


def test_stopping_ends_a_job_at_its_next_step():
    """A job must not outlive the store it works on; nothing new begins."""
    jobs, begun = Jobs(), threading.Event()

    def forever(progress):
        while True:
            begun.set()
            progress(1)

    job = jobs.begin("verify", forever)
    assert begun.wait(WAIT_SECONDS)
    jobs.stop(seconds=WAIT_SECONDS)
    assert jobs.get(job.id).state == "stopped"
    with pytest.raises(errors.Overloaded):
        jobs.begin("verify", forever)


def test_old_jobs_make_room():
    """The number of kept jobs is bounded."""
    jobs = Jobs()
    first = jobs.begin("a", lambda progress: None).id
    over(jobs, first)
    for _ in range(KEPT_MAX):
        over(jobs, jobs.begin("a", lambda progress: None).id)
    assert len(jobs.all()) == KEPT_MAX
    with pytest.raises(errors.NothingHere):
        jobs.get(first)


def test_being_stopped_is_not_an_error_of_the_store():
    """Code that catches the store's errors does not catch this one by accident."""
    assert not issubclass(Stopped, errors.TallyError)

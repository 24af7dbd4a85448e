"""A real process that runs the example workflow, killed with SIGKILL at random moments, and resumed."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick import runs
from tallystick.runs import journal, recovery, snapshot
from tallystick.store.verify import verify

KILLS = int(os.environ.get("TALLY_RUN_KILLS", "200"))
RUN = "monday"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the runner is forked")


def forked(bench: Any, *, delay_s: float | None) -> int:
    """Start or resume the run in a child, killed after a while; how it ended."""
    gc.disable()
    child = os.fork()
    if child == 0:
        try:
            status = 1
            go_on(bench)
            status = 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    gc.enable()
    if delay_s is not None:
        time.sleep(delay_s)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def go_on(bench: Any) -> None:
    """What a person would do: start the run, or resume it if it is there."""
    flow = bench.counting()
    with bench.open() as store:
        if store.stream_head(journal.stream_of(RUN)) is None:
            runs.start(store, flow, run=RUN, workspace=bench.workspace, inputs=bench.inputs)
        else:
            runs.resume(store, flow, RUN)


def finished_counts(bench: Any) -> dict[str, int]:
    """How often the nodes ran that the log calls finished; the snapshot must agree with a replay, if there is one."""
    if not Path(bench.url.partition(":")[2], "store.json").exists():
        return {}
    with bench.open() as store:
        if store.stream_head(journal.stream_of(RUN)) is None:
            return {}
        state = runs.load(store, RUN).state
        if store.log.run_documents.load(RUN, snapshot.NAME) is not None:
            found = recovery.compare(store, RUN, state)
            assert found.equal, found.reason
    counted = bench.counted()
    return {item.node: counted[item.node] for item in state.work_items if item.state == "finished"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: what a killed process leaves does not depend on the disk below."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="tally-kill-", dir="/dev/shm") as root:
        yield Path(root)


@pytest.mark.timeout(900)  # half a minute on a quiet machine; what is waited for is the run's own speed
def test_a_killed_run_resumes_where_it_stopped(make_bench: Any, place: Path) -> None:
    """RUN-04, RUN-06, RUN-08: after 200 kills the artifacts are the same, and no finished node ever ran again."""
    reference = make_bench("reference", root=place)
    began = time.monotonic()
    assert forked(reference, delay_s=None) == 0
    whole_s = time.monotonic() - began
    dice, kills, rounds = random.Random(6), 0, 0
    stopped: Counter[int] = Counter()
    while kills < KILLS:
        rounds += 1
        bench = make_bench(f"round{rounds}", root=place)
        kept: dict[str, int] = {}
        for _ in range(100):
            delay_s = dice.random() * whole_s * 1.1
            ended = forked(bench, delay_s=delay_s)
            assert ended in (0, -signal.SIGKILL), "the run failed by itself"
            now = finished_counts(bench)
            assert kept.items() <= now.items(), "a finished node ran again, or was forgotten"
            kept = now
            kills += ended != 0
            stopped[len(now)] += ended != 0
            if ended == 0:
                break
        else:
            assert forked(bench, delay_s=None) == 0
        assert bench.artifacts() == reference.artifacts()
        checked_in_the_end(bench)
    assert len(stopped) >= 5, f"the kills did not spread over the run: {stopped}"


def checked_in_the_end(bench: Any) -> None:
    """The run is finished, its log verifies, its snapshot is its replay, and every start is accounted for."""
    with bench.open() as store:
        assert verify(store.log).ok
        found = runs.replay(store, RUN)
        assert (found.equal, found.seq) == (True, found.events), found.reason
        state = runs.load(store, RUN).state
        assert state.run_state == "finished"
        starts = {item.node: len(item.history) for item in state.work_items}
        counted = bench.counted()
        assert all(counted[node] <= starts[node] for node in starts)

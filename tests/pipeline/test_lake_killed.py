"""A table whose writer is killed with SIGKILL, at random moments and at each write; also in an object store."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tallystick
from tallystick import NewEvent, errors, state
from tallystick.event.model import Event
from tallystick.pipeline.lake.check import verify
from tallystick.pipeline.lake.events import append
from tallystick.pipeline.lake.table import FORMATS
from tests.pipeline.lake_tables import events_of
from tests.pipeline.object_store import AnswerLost, Server

MakeLog = Callable[..., None]
Stored = Callable[[str], list[Event]]

APPENDING = """
from tallystick.pipeline.lake.events import append
print("ready", flush=True)
for _ in range(10_000):
    append({url!r}, {place!r}, {kind!r}, commit_events={commit}, buckets=2, forget={forget})
"""
COMMITS = {"delta": "_delta_log/0000000000000000000[1-9]", "iceberg": "metadata/v"}


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each format."""
    return str(request.param)


@contextmanager
def running(
    url: str, place: str, kind: str, *, forget: bool = False, commit: int = 5
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that appends repeatedly; it is ended after the test."""
    code = APPENDING.format(url=url, place=place, kind=kind, forget=forget, commit=commit)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        yield child
    finally:
        kill(child)
        assert child.stdout is not None
        child.stdout.close()


def kill(child: subprocess.Popen[bytes]) -> None:
    """Send SIGKILL, and wait until the process has ended."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def go_on(url: str, chance: random.Random, seconds: float) -> None:
    """Append and erase for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with tallystick.open(url) as store:
            for number in range(3):
                store.append(f"order/o{chance.randrange(4)}", NewEvent("order.noted", {"cents": number}))
            stream = f"order/o{chance.randrange(4)}"
            head = store.stream_head(stream)
            if head is not None and chance.random() < 0.3:
                seq = chance.randint(1, head.seq)
                if store.read_stream(stream, after=seq - 1, limit=1)[0].payload is not None:
                    state.erase(store, stream, seq, reason="asked")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_a_writer_killed_at_random_leaves_each_event_once(
    tmp_path: Path, stored: Stored, kind: str, kills: int
) -> None:
    """PIPE-02: with two writers, appends and erasures at the same time, the table is right after every kill."""
    url, place, chance = f"sqlite:{tmp_path}/log.db", tmp_path / "table", random.Random(kills)
    go_on(url, chance, 0.3)
    for round_ in range(kills):
        with running(url, str(place), kind, forget=round_ % 2 == 1) as one, running(url, str(place), kind) as two:
            go_on(url, chance, chance.uniform(0, 1.5))
            kill(one)
            kill(two)
        if place.exists() and any(place.iterdir()):
            append(url, place, kind)
            assert verify(url, place).problems == []
    append(url, place, kind, forget=True)
    assert events_of(place, kind) == stored(url)
    found = verify(url, place)
    assert (found.problems, found.unsure) == ([], [])


def test_a_table_in_a_store_is_like_one_in_a_directory(
    files_url: str, make_log: MakeLog, stored: Stored, bucket_url: str, kind: str
) -> None:
    """PIPE-02: append, erase, verify and remove old files over the S3 protocol."""
    make_log(files_url, events=40)
    assert append(files_url, bucket_url, kind, commit_events=15).commits == 3
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 1, reason="asked")
    assert append(files_url, bucket_url).erased == 1
    done = append(files_url, bucket_url, forget=True)
    assert (done.left, bool(done.removed)) == (0, True)
    assert events_of(bucket_url.replace("s3a:", "s3:"), kind) == stored(files_url)
    found = verify(files_url, bucket_url)
    assert (found.problems, found.unsure, found.erased) == ([], [], 1)


def test_a_bucket_that_is_not_there_is_named(files_url: str, make_log: MakeLog, objects: Server, kind: str) -> None:
    """PIPE-02: a store that refuses access is not taken for an empty table."""
    make_log(files_url, events=5)
    with pytest.raises(errors.PlaceUnreachable, match="nobodys"):
        append(files_url, "s3://nobodys/table", kind)


def test_a_store_that_ignores_the_condition_is_refused(
    files_url: str, make_log: MakeLog, objects: Server, bucket_url: str, kind: str
) -> None:
    """PIPE-02: both of two writers would succeed, so no table is created and nothing is appended."""
    make_log(files_url, events=20)
    objects.between.ignored.add("if-none-match")
    with pytest.raises(errors.InvalidValue, match="a name can be created only once"):
        append(files_url, bucket_url, kind)
    objects.between.ignored.clear()
    append(files_url, bucket_url, kind)
    make_log(files_url, events=20, seed=2)
    objects.between.ignored.add("if-none-match")
    with pytest.raises(errors.InvalidValue, match="a name can be created only once"):
        append(files_url, bucket_url)
    objects.between.ignored.clear()
    assert len(events_of(bucket_url.replace("s3a:", "s3:"), kind)) == 20


def test_of_two_writers_in_a_store_one_commits(
    files_url: str, make_log: MakeLog, stored: Stored, objects: Server, bucket_url: str, kind: str
) -> None:
    """PIPE-02: two runs commit at the same moment: the store decides, and every event is in the table once."""
    make_log(files_url, events=20)
    append(files_url, bucket_url, kind)
    make_log(files_url, events=20, seed=2)
    others: list[int] = []
    objects.between.at(
        "PUT", COMMITS[kind], lambda: others.append(append(files_url, bucket_url, commit_events=15).events)
    )
    done = append(files_url, bucket_url)
    assert (others, done.events) == ([20], 0)
    assert events_of(bucket_url.replace("s3a:", "s3:"), kind) == stored(files_url)
    assert verify(files_url, bucket_url).problems == []


def test_an_answer_that_is_lost_does_not_add_twice(
    files_url: str, make_log: MakeLog, stored: Stored, objects: Server, bucket_url: str, kind: str
) -> None:
    """PIPE-02: a commit succeeds but its response is lost: the run finds out that it succeeded."""
    make_log(files_url, events=20)
    append(files_url, bucket_url, kind)
    make_log(files_url, events=20, seed=2)

    def lose() -> None:
        raise AnswerLost

    objects.between.at("PUT", COMMITS[kind], lose, after=True)
    append(files_url, bucket_url)
    assert events_of(bucket_url.replace("s3a:", "s3:"), kind) == stored(files_url)
    assert verify(files_url, bucket_url).problems == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("path", ["commit", "data"])
def test_a_writer_killed_at_a_write_is_made_good_by_the_next(
    files_url: str,
    make_log: MakeLog,
    stored: Stored,
    objects: Server,
    bucket_url: str,
    kind: str,
    path: str,
    after: bool,
) -> None:
    """PIPE-02: SIGKILL before and after each kind of write to a store."""
    make_log(files_url, events=20)
    append(files_url, bucket_url, kind, buckets=2)
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 1, reason="asked")
    make_log(files_url, events=20, seed=2)
    children: list[subprocess.Popen[bytes]] = []

    def end() -> None:
        while not children:
            time.sleep(0.01)
        kill(children[0])

    objects.between.at("PUT", COMMITS[kind] if path == "commit" else "parquet", end, after=after)
    with running(files_url, bucket_url, kind) as child:
        children.append(child)
        assert child.wait(timeout=120) == -signal.SIGKILL
    append(files_url, bucket_url, forget=True)
    assert events_of(bucket_url.replace("s3a:", "s3:"), kind) == stored(files_url)
    found = verify(files_url, bucket_url)
    assert (found.problems, found.unsure) == ([], [])

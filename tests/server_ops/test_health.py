"""/health and /ready: yes, or no with the reason."""

from __future__ import annotations

import threading
from typing import Any

import tallystick
from tallystick.engines.disk import Disk
from tallystick.server.sample import Sampler, look
from tallystick.server.settings import Limits
from tallystick.server.tokens import Tokens
from tallystick.testing.faults import Fault, FaultyFileSystem


def checks(answer: Any) -> set[str]:
    """Which checks say no."""
    return {reason["check"] for reason in answer.json()["reasons"]}


def test_a_sound_service_says_so(serve):
    """LH-17: both probes answer 200, open to everybody, and are not to be cached."""
    running = serve()
    running.service.tokens.issue("admin", actor="root")
    running.append("note/a", {"n": 1})
    for path in ("/health", "/ready"):
        answer = running.client.get(path)
        assert (answer.status_code, answer.json()["ok"], answer.json()["reasons"]) == (200, True, [])
        assert answer.headers["cache-control"] == "no-store"


def test_a_poisoned_writer_is_reported(serve, tmp_path):
    """LH-17: after a failed fsync nothing is acknowledged, both probes answer 503, and the gauge is 1."""
    files = FaultyFileSystem(Disk())
    store = tallystick.open(f"files:{tmp_path / 'log'}", filesystem=files)
    running = serve(store=store, tokens=Tokens(store))
    assert running.append("note/a", {"n": 1}).status_code == 201
    assert running.client.get("/ready").status_code == 200
    files.inject(Fault(operation="sync"))
    assert running.append("note/a", {"n": 2}).status_code == 503
    running.service.operations.sampler.sample(fresh=True)
    for path in ("/health", "/ready"):
        answer = running.client.get(path)
        assert (answer.status_code, checks(answer)) == (503, {"writer"})
    assert "tally_writer_poisoned 1.0" in running.client.get("/metrics").text


def test_too_little_space_is_reported_before_appends_fail(serve):
    """LH-17: with less free space than needed both probes say so, and appends continue."""
    running = serve(settings={"limits": Limits(free_bytes_min=1 << 62)})
    for path in ("/health", "/ready"):
        answer = running.client.get(path)
        assert (answer.status_code, checks(answer)) == (503, {"space"})
    assert running.append("note/a", {"n": 1}).status_code == 201


def test_a_damaged_log_is_reported(serve, tmp_path):
    """LH-17: a log that opens with a hole is served for reading, and /health says what to run."""
    url = f"files:{tmp_path / 'log'}"
    with tallystick.open(url, segment_bytes_max=65536) as store:
        for _ in range(40):
            store.append("note/a", [tallystick.NewEvent("noted", {"text": "x" * 100})] * 20)
    first = min((tmp_path / "log").glob("*_001.log"))
    broken = bytearray(first.read_bytes())
    broken[len(broken) // 2] ^= 0xFF
    first.write_bytes(broken)
    running = serve(url)
    running.client.get("/v1/events", params={"limit": 1000})  # whoever reads that far meets the damage
    running.service.operations.sampler.sample(fresh=True)
    answer = running.client.get("/health")
    assert answer.status_code == 503
    assert "log" in checks(answer)
    assert "tally doctor" in answer.json()["reasons"][0]["reason"]
    assert str(tmp_path) not in answer.text


def test_a_store_that_does_not_answer_is_reported(serve):
    """A probe is answered even if the store does not respond: that is what it is for."""
    running = serve()
    running.service.store.close()
    running.service.operations.sampler.sample(fresh=True)
    running.service.tokens._refreshed = float("-inf")  # it cannot say any more who has a token, either
    for path in ("/health", "/ready"):
        answer = running.client.get(path)
        assert (answer.status_code, "store" in checks(answer)) == (503, True)
    assert running.client.get("/metrics").status_code == 503, "nobody is let in who would need a token"
    assert b"tally_store_up 0.0" in running.service.operations.metrics.page()


def test_a_wrong_index_is_reported(monkeypatch):
    """LH-17: the newest event must be found by its id and by its stream."""
    with tallystick.open("memory:") as store:
        store.append("note/a", tallystick.NewEvent("noted", {"n": 1}))
        assert look(store, taken=0.0).problems == ()
        monkeypatch.setattr(store.log, "find", lambda wanted: None)
        (problem,) = look(store, taken=0.0).problems
    assert problem.what == "index"


def test_probes_do_not_wear_the_store_out():
    """However often they ask, one sample serves them for a while."""
    now = [0.0]
    with tallystick.open("memory:") as store:
        sampler = Sampler(store, age_seconds=2.0, monotonic=lambda: now[0])
        first = sampler.sample()
        store.append("note/a", tallystick.NewEvent("noted", {"n": 1}))
        now[0] = 1.9
        assert sampler.sample() is first
        now[0] = 2.0
        assert sampler.sample().head == 1


def test_a_store_that_hangs_takes_one_thread_and_not_all(monkeypatch):
    """While a sample is taken others get the last one. If that is too old, they learn that none has ended."""
    now = [0.0]
    began, release = threading.Event(), threading.Event()
    with tallystick.open("memory:") as store:
        sampler = Sampler(store, age_seconds=2.0, monotonic=lambda: now[0])
        first = sampler.sample()
        real = store.log.report
        monkeypatch.setattr(store.log, "report", lambda: began.set() or (release.wait(30) and real()))
        now[0] = 3.0
        hanging = threading.Thread(target=sampler.sample)
        hanging.start()
        assert began.wait(30)
        assert sampler.sample() is first
        now[0] = 100.0
        assert sampler.sample().failure == "a sample of it has not ended"
        release.set()
        hanging.join(30)
        assert sampler.sample().failure == ""

"""What `make bench-http` measures happened: appends, reads and followers are real, and a refusal is not counted."""

from __future__ import annotations

import pytest

from bench.http.client import Connection, exchange, get, post
from bench.http.followers import Followers
from bench.http.rows import CASES
from bench.http.serving import served

SPECS = {spec.name: spec for case in CASES for spec in case.specs}


def test_single_appends_stand_beside_those_of_umadb() -> None:
    """The peer is named, and what is unequal is said."""
    spec = SPECS["http: 64 connections, one durable event each at a time"]
    assert spec.against is not None
    assert "umadb" in spec.against
    assert "share the cores" in spec.note


def test_the_client_of_the_bench_appends_reads_and_follows(tmp_path) -> None:
    """LH-17, CP-14: every answer is a success, everything is there, and followers got each event once."""
    body = b'{"events":[{"type":"noted","payload":{"n":1}}]}'
    with served(f"files:{tmp_path / 'log'}") as address:
        followers, connections = Followers(address, 3), [Connection(address) for _ in range(4)]
        requests = [[post(f"/v1/streams/note/{number}/events", body)] * 5 for number in range(4)]
        assert len(exchange(connections, requests)) == 20
        page = connections[0].ask(get("/v1/events?after=0&limit=100"))
        assert page.count(b'{"position":') == 20
        followers.take_until(20)
        assert (followers.missing(20), followers.missing(21)) == (0, 3)
        followers.close()
        for connection in connections:
            connection.close()


def test_a_refusal_is_no_success_to_be_counted(tmp_path) -> None:
    """A bench that counted errors would be fast."""
    with served(f"files:{tmp_path / 'log'}") as address:
        connection = Connection(address)
        with pytest.raises(RuntimeError, match="404"):
            connection.ask(get("/v1/nothing"))
        connection.close()

"""SIGTERM: accepted requests are answered, others refused, followers disconnected, and the store is closed."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import httpx

import tallystick
from tallystick.event.model import NewEvent


def test_everything_accepted_is_acknowledged_and_nothing_else_recorded(start: Any, tmp_path: Path) -> None:
    """LH-07: under load, the log has exactly the events that clients got an answer for; the exit status is 0."""
    url = f"files:{tmp_path}/log"
    started = start(url)
    acknowledged: list[tuple[int, int]] = []
    begun = threading.Barrier(9)

    def client(number: int) -> None:
        with httpx.Client(base_url=started.address, timeout=60) as connection:
            for count in range(100_000):
                if count == 5:
                    begun.wait()
                body = {"events": [{"type": "noted", "payload": {"n": count}}]}
                try:
                    answer = connection.post(f"/v1/streams/order/{number}/events", json=body)
                except httpx.TransportError:
                    return
                if answer.status_code != 201:
                    assert answer.status_code == 503
                    return
                acknowledged.append((number, count))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    begun.wait()
    status, said = started.terminate()
    for thread in threads:
        thread.join(60)
    assert (status, said) == (0, "")
    with tallystick.open(url, create=False) as store:
        found = [(int(event.stream.partition("/")[2]), event.data["n"]) for event in store.events()]
    assert sorted(found) == sorted(acknowledged)


def test_followers_are_disconnected_and_do_not_delay_it(start: Any, tmp_path: Path) -> None:
    """A follower gets a last comment and the end of its stream. Idle connections are closed."""
    started = start(f"sqlite:{tmp_path}/log", drain_seconds=600)
    with (
        httpx.Client(base_url=started.address, timeout=60) as client,
        client.stream("GET", "/v1/follow?after=0") as answer,
        socket.create_connection(("127.0.0.1", started.port)),
    ):
        lines = answer.iter_lines()
        assert next(lines) == ": following"
        status, said = started.terminate()
        rest = list(lines)
    assert (status, said) == (0, "")
    assert ": the service is stopping, resume from the last id" in rest


def test_a_request_that_comes_while_it_drains_is_refused(serve: Any) -> None:
    """503 with Retry-After on a connection that is still open, and nothing of the request is done."""
    served = serve()
    served.service.draining = True
    refused = served.append("order/1", {})
    assert (refused.status_code, refused.json()["code"]) == (503, "draining")
    assert refused.headers["retry-after"] == "1"
    assert served.service.store.head() == 0


def test_what_waits_is_committed_before_the_store_is_closed(serve: Any, tmp_path: Path) -> None:
    """Stopping right after an append loses nothing: the log has it when it is opened again."""
    url = f"files:{tmp_path}/log"
    served = serve(url)
    for number in range(20):
        assert served.append("order/1", {"n": number}).status_code == 201
    served.stop()
    with tallystick.open(url) as store:
        assert store.head() == 20
        store.append("order/1", NewEvent("noted", {}))

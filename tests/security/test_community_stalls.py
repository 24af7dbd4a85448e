"""A peer that stalls costs itself, and nobody else."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from tallystick.community.credentials import sign_request
from tallystick.server import quiet
from tallystick.testing.community.people import keys
from tests.security.community_club import Club, club

pytestmark = pytest.mark.security

STALLED = 52


@pytest.fixture
def house() -> Iterator[Club]:
    """The founder's node, with two members."""
    with club() as made:
        made.member(2)
        made.member(3)
        yield made


def scope(house: Club, number: int | None, path: str = "/sync/v1/events") -> dict[str, Any]:
    """A request that begins, signed by this member or by nobody."""
    head: dict[str, str] = {}
    if number is not None:
        head = sign_request(
            keys(number),
            house.keys.node,
            method="POST",
            path=path,
            to=house.keys.node,
            body=b"{",
            now_ns=house.log.clock(),
        )
    return {
        "type": "http", "method": "POST", "path": path, "raw_path": b"", "query_string": b"", "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in head.items()], "http_version": "1.1",
        "scheme": "http", "server": ("x", 1), "client": ("y", 2),
    }  # fmt: skip


def statuses(house: Club, asking: list[dict[str, Any]], *, stalling: int) -> list[int | None]:
    """What each request is answered, if the first ones stall with their bodies; None where there is no answer yet."""
    app = house.server.app()

    async def ask(which: dict[str, Any], *, stalls: bool) -> int:
        found: list[int] = []

        async def receive() -> dict[str, Any]:
            if stalls:
                await asyncio.sleep(600)
            return {"type": "http.request", "body": b"{", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            if "status" in message:
                found.append(message["status"])

        await app(which, receive, send)  # type: ignore[arg-type]
        return found[0]

    async def go() -> list[int | None]:
        tasks = [asyncio.create_task(ask(one, stalls=at < stalling)) for at, one in enumerate(asking)]
        await asyncio.wait(tasks[stalling:])
        done = [task.result() if task.done() else None for task in tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return done

    return asyncio.run(go())


def test_bodies_that_nobody_signed_are_not_waited_for(house: Club) -> None:
    """COM-09: 52 of them are refused by their heads, and a member is answered."""
    asking = [scope(house, None)] * STALLED + [scope(house, 3)]
    answered = statuses(house, asking, stalling=STALLED)
    assert answered[-1] == 400, "the member's body was read and judged"
    assert answered[: STALLED - 1].count(403) >= STALLED - 2


def test_a_member_that_stalls_uses_up_its_own_turns_alone(house: Club) -> None:
    """COM-09: one more of its own is a 429; another member is answered."""
    asking = [scope(house, 2) for _ in range(STALLED)] + [scope(house, 2), scope(house, 3)]
    answered = statuses(house, asking, stalling=STALLED)
    assert answered[-2:] == [429, 400]
    assert answered.count(None) == 4


def test_a_body_that_was_not_signed_is_refused(house: Club) -> None:
    """COM-09: the digest in the head is of the body that follows."""
    wanted = scope(house, 2)
    assert statuses(house, [wanted], stalling=0) == [400]
    assert statuses(house, [wanted], stalling=0) == [403], "and once"
    other = scope(house, 2)
    other["headers"] = [(name, b"0" * 64 if name == b"x-tally-digest" else value) for name, value in other["headers"]]
    assert statuses(house, [other], stalling=0) == [403]


def test_connections_that_ask_nothing_are_closed(house: Club, monkeypatch: pytest.MonkeyPatch) -> None:
    """COM-09: silence, half a head, and silence after an answer: none of them holds a connection for good."""
    monkeypatch.setattr(quiet, "QUIET_SECONDS_MAX", 0.1)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(house.server.app(), http=quiet.Connection, ws="none", log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=asyncio.run, args=(server.serve(sockets=[listening]),))
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
        whole = b"GET /sync/v1/heads HTTP/1.1\r\nhost: x\r\n\r\n"
        for said in (b"", whole[:20], whole, whole + whole[:20]):
            with socket.create_connection(listening.getsockname()) as client:
                client.settimeout(60)
                client.sendall(said)
                while client.recv(4096):
                    pass  # until it is closed
    finally:
        server.should_exit = True
        thread.join()
        listening.close()

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

from tallystick import errors
from tallystick.community import service
from tallystick.community.acts import proof_text
from tallystick.community.credentials import sign_request
from tallystick.community.turns import Turns
from tallystick.server import idle_timeout
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


def scope(
    house: Club, number: int | None, path: str = "/sync/v1/events", *, method: str = "POST", invite: int | None = None
) -> dict[str, Any]:
    """A request that begins, signed by this member or by nobody; it may show an invitation."""
    head: dict[str, str] = {}
    if number is not None:
        head = sign_request(
            keys(number),
            house.keys.node,
            method=method,
            path=path,
            to=house.keys.node,
            body=b"{" if method == "POST" else b"",
            now_ns=house.log.clock(),
            invite=None if invite is None else shown(house, number, invite),
        )
    return {
        "type": "http", "method": method, "path": path, "raw_path": b"", "query_string": b"", "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in head.items()], "http_version": "1.1",
        "scheme": "http", "server": ("x", 1), "client": ("y", 2),
    }  # fmt: skip


def shown(house: Club, number: int, invite: int) -> tuple[str, str]:
    """An invitation, and the proof that whoever shows it holds its key: nobody need have issued it."""
    key = keys(invite)
    return key.node, key.sign(proof_text(house.keys.node, keys(number).node)).hex()


def statuses(house: Club, asking: list[dict[str, Any]], *, stalling: int, at_answer: bool = False) -> list[int | None]:
    """What each request is answered, if the first ones stall with their bodies, or take no answer; None where that is
    not over.
    """
    app, begun = house.server.app(), 0

    async def ask(which: dict[str, Any], *, stalls: bool) -> int:
        found: list[int] = []

        async def receive() -> dict[str, Any]:
            if stalls and not at_answer:
                await asyncio.sleep(600)
            return {"type": "http.request", "body": b"{" if which["method"] == "POST" else b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            nonlocal begun
            if "status" in message:
                found.append(message["status"])
            elif stalls and at_answer:
                begun += 1
                await asyncio.sleep(600)

        await app(which, receive, send)  # type: ignore[arg-type]
        return found[0]

    async def go() -> list[int | None]:
        tasks = [asyncio.create_task(ask(one, stalls=True)) for one in asking[:stalling]]
        while at_answer and begun < stalling:
            await asyncio.sleep(0.01)
        tasks += [asyncio.create_task(ask(one, stalls=False)) for one in asking[stalling:]]
        await asyncio.wait(tasks[stalling:] or tasks)
        done = [task.result() if task.done() else None for task in tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return done

    return asyncio.run(go())


def test_bodies_that_nobody_signed_are_not_waited_for(house: Club) -> None:
    """COM-09, SAFE-09: 52 of them are refused by their heads, and a member is answered."""
    asking = [scope(house, None)] * STALLED + [scope(house, 3)]
    answered = statuses(house, asking, stalling=STALLED)
    assert answered[-1] == 400, "the member's body was read and judged"
    assert answered[: STALLED - 1].count(403) >= STALLED - 2


def test_a_member_that_stalls_uses_up_its_own_turns_alone(house: Club) -> None:
    """COM-09, SAFE-09: one more of its own is a 429; another member is answered."""
    asking = [scope(house, 2) for _ in range(STALLED)] + [scope(house, 2), scope(house, 3)]
    answered = statuses(house, asking, stalling=STALLED)
    assert answered[-2:] == [429, 400]
    assert answered.count(None) == 4


def test_made_up_invitations_give_a_member_no_more_turns(house: Club) -> None:
    """COM-09, SAFE-09: a turn is the member's, whatever key it shows beside its own."""
    asking = [scope(house, 2, invite=100 + at) for at in range(STALLED)] + [scope(house, 2, invite=99), scope(house, 3)]
    answered = statuses(house, asking, stalling=STALLED)
    assert answered[-2:] == [429, 400]
    assert answered.count(None) == 4


def test_an_answer_that_is_not_taken_keeps_its_turn(house: Club) -> None:
    """COM-09, SAFE-09: what waits to be taken is in memory, so a peer that takes nothing has few answers made."""
    asking = [scope(house, 2, "/sync/v1/heads", method="GET") for _ in range(4)]
    answered = statuses(house, [*asking, scope(house, 2), scope(house, 3)], stalling=4, at_answer=True)
    assert answered == [None] * 4 + [429, 400]
    assert statuses(house, [scope(house, 2)], stalling=0) == [400], "they ended with their connections"


def test_an_answer_that_is_not_taken_in_time_is_given_up(house: Club, monkeypatch: pytest.MonkeyPatch) -> None:
    """COM-09: its turn and its memory are free again."""
    monkeypatch.setattr(service, "ANSWER_SECONDS_MAX", 0.1)
    asking = [scope(house, 2, "/sync/v1/heads", method="GET") for _ in range(4)]
    assert statuses(house, asking, stalling=4, at_answer=True) == [200] * 4
    assert statuses(house, [scope(house, 2)], stalling=0) == [400]


def test_answers_that_nobody_takes_are_bounded_in_bytes() -> None:
    """COM-09, SAFE-09: many peers together cannot fill the memory; a single large answer is still given."""
    turns = Turns(bytes_max=100)
    first, second = turns.take("a"), turns.take("b")
    first.hold(1000)
    with pytest.raises(errors.Overloaded):
        second.hold(1)
    first.end()
    second.hold(60)
    with pytest.raises(errors.Overloaded):
        turns.take("c").hold(41)


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
    monkeypatch.setattr(idle_timeout, "IDLE_SECONDS_MAX", 0.1)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(house.server.app(), http=idle_timeout.IdleTimeoutConnection, ws="none", log_level="warning")
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

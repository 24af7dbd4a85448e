"""Following by server-sent events: resumed where it stopped, filtered, shared, and bounded for those who are slow."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tallystick import NewEvent, open, state
from tallystick.server import tail
from tallystick.server.merge import merge
from tallystick.server.service import Service
from tallystick.server.settings import Settings
from tallystick.store.selection import Selection


def messages(answer: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The id and the event of each message, as they come; comments and signs of life are passed over."""
    id_ = ""
    for line in answer.iter_lines():
        field, _, value = line.partition(": ")
        if field == "id":
            id_ = value
        elif field == "data":
            yield id_, json.loads(value)


def take(answer: Any, count: int) -> list[int]:
    """The positions of the next events."""
    found = messages(answer)
    return [int(next(found)[0].partition(".")[0]) for _ in range(count)]


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_follower_gets_what_was_there_and_what_comes(everywhere: Any, fresh: str) -> None:
    """Nothing is missed or repeated between the past and the present."""
    store = everywhere.service.store
    start = store.head()
    store.append(fresh, [NewEvent("noted", {"n": n}) for n in range(3)])
    with everywhere.client.stream("GET", f"/v1/follow?after={start}") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = messages(answer)
        seen = [next(found)[1]["payload"]["n"] for _ in range(3)]
        for number in range(3, 20):
            everywhere.append(fresh, {"n": number})
        seen += [next(found)[1]["payload"]["n"] for _ in range(17)]
    assert seen == list(range(20))


def test_a_follower_resumes_from_the_last_id_it_saw(everywhere: Any, fresh: str) -> None:
    """Last-Event-ID takes precedence over `after`, and the next event is the one after it."""
    store = everywhere.service.store
    start = store.head()
    store.append(fresh, [NewEvent("noted", {"n": n}) for n in range(5)])
    with everywhere.client.stream("GET", f"/v1/follow?after={start}") as answer:
        first = take(answer, 2)
    headers = {"last-event-id": str(first[-1])}
    with everywhere.client.stream("GET", f"/v1/follow?after={start}", headers=headers) as answer:
        rest = take(answer, 3)
    positions = [event.position for event in store.read_stream(fresh)]
    assert first + rest == positions


def test_a_filter_lets_through_what_it_would_when_read(serve: Any) -> None:
    """The same filters apply before and after the follower has caught up."""
    served = serve()
    store = served.service.store

    def write(first: int) -> None:
        for number in range(first, first + 6):
            meta = {"org": "acme" if number % 2 else "other"}
            store.append(f"order/{number % 2}-{number % 3}", NewEvent(f"t{number % 3}", {"n": number}, meta=meta))

    write(0)
    with served.client.stream("GET", "/v1/follow?after=0&org=acme&type=t0&type=t1") as answer:
        found = messages(answer)
        seen = [next(found)[1]["payload"]["n"]]
        write(6)
        seen += [next(found)[1]["payload"]["n"] for _ in range(3)]
    assert seen == [n for n in range(12) if n % 2 and n % 3 in (0, 1)]


def test_a_tenant_follows_only_its_org(serve: Any, book: Any) -> None:
    """CP-10: neither others nor the infrastructure appear in the live part either."""
    served = serve(tokens=book(t=("tenant", "acme")), infrastructure=("host",))
    store = served.service.store
    with served.as_("t") as client, client.stream("GET", "/v1/follow") as answer:
        until(lambda: served.service.tail.count == 1)
        for stream, org in (("order/1", "other"), ("host/1", "acme"), ("order/2", "acme")):
            store.append(stream, NewEvent("noted", {}, meta={"org": org}))
        assert next(messages(answer))[1]["stream"] == "order/2"


def test_many_followers_share_one_encoding(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event is encoded once, however many followers get it."""
    served = serve()
    encoded: list[int] = []
    real = tail.frame
    monkeypatch.setattr(tail, "frame", lambda cursor, event: encoded.append(event.position) or real(cursor, event))
    clients = [served.as_("") for _ in range(10)]
    streams = [client.stream("GET", "/v1/follow") for client in clients]
    answers = [stream.__enter__() for stream in streams]
    until(lambda: sum(map(len, served.service.tail._channels.values())) == 10)
    served.append("order/1", {"n": 1}, {"n": 2})
    assert [take(answer, 2) for answer in answers] == [[1, 2]] * 10
    assert sorted(encoded) == [1, 2]
    for stream, client in zip(streams, clients, strict=True):
        stream.__exit__(None, None, None)
        client.close()
    until(lambda: served.service.tail.count == 0)


def test_signs_of_life_come_and_move_the_id_on(serve: Any) -> None:
    """A follower whose filter nothing passes comes back with a recent id, not with its first."""
    served = serve(limits={"heartbeat_seconds": 0.05})
    with served.client.stream("GET", "/v1/follow?after=0&type=never") as answer:
        lines = answer.iter_lines()
        served.append("order/1", {}, {}, {})
        assert next(line for line in lines if line.startswith("id: 3."))


def idle_follower(port: int) -> socket.socket:
    """One that asks to follow and does not read."""
    idle = socket.socket()
    idle.settimeout(60)
    idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    idle.connect(("127.0.0.1", port))
    idle.sendall(b"GET /v1/follow HTTP/1.1\r\nhost: localhost\r\n\r\n")
    return idle


def test_a_follower_that_does_not_read_is_disconnected_and_the_others_continue(serve: Any) -> None:
    """Its queue is bounded. It is disconnected with a comment, and a quick follower misses nothing."""
    served = serve(limits={"follower_bytes_max": 200_000, "follower_seconds": 600})
    store = served.service.store
    with idle_follower(served.port) as slow, served.client.stream("GET", "/v1/follow") as quick:
        until(lambda: sum(map(len, served.service.tail._channels.values())) == 2)
        found = messages(quick)
        sent = 0
        while sum(map(len, served.service.tail._channels.values())) == 2:
            store.append("order/1", NewEvent("noted", {"text": "x" * 50_000}))
            sent += 1
            assert next(found)[1]["seq"] == sent
            assert sent < 1000
        store.append("order/1", NewEvent("noted", {}))
        assert next(found)[1]["seq"] == sent + 1
        received = b""
        while piece := slow.recv(1 << 16):
            received += piece
    assert b": disconnected: too slow" in received


def test_a_follower_that_takes_nothing_is_disconnected(serve: Any) -> None:
    """A reader that stopped for too long loses its connection."""
    served = serve(limits={"follower_bytes_max": 100_000, "follower_seconds": 0.2})
    with idle_follower(served.port):
        until(lambda: sum(map(len, served.service.tail._channels.values())) == 1)
        for _ in range(200):
            served.service.store.append("order/1", NewEvent("noted", {"text": "x" * 50_000}))
            if served.service.tail.count == 0:
                break
            time.sleep(0.01)
        until(lambda: served.service.tail.count == 0)


def test_followers_are_bounded_in_number(serve: Any) -> None:
    """One follower too many is refused and may try again. When one leaves, there is room."""
    served = serve(limits={"followers_max": 1})
    with served.as_("") as one, one.stream("GET", "/v1/follow"):
        refused = served.client.get("/v1/follow")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    until(lambda: served.service.tail.count == 0)
    with served.client.stream("GET", "/v1/follow") as answer:
        assert answer.status_code == 200


def test_a_follower_joins_the_tail_without_a_gap_or_a_repetition() -> None:
    """A follower behind the tail must read pages first; one ahead of it gets only what it has not read."""

    async def work() -> tuple[bool, list[bytes]]:
        store = open("memory:")
        store.append("order/1", [NewEvent("noted", {"n": n}) for n in range(10)])
        service = Service(store, Settings(url=""))
        await service.start()
        channel = tail.Channel(Selection(), False)
        level, behind, ahead = (service.tail.follower(channel) for _ in range(3))
        await service.tail.begin()
        assert service.tail.join(level, 10)
        store.append("order/1", [NewEvent("noted", {"n": n}) for n in range(10, 13)])
        joined = service.tail.join(behind, 9)
        assert service.tail.join(ahead, 12)
        found = [await follower.next(60) for follower in (level, ahead)]
        await service.stop()
        return joined, found

    joined, (level, ahead) = asyncio.run(work())
    assert not joined
    assert re.findall(rb"^id: (\d+)\.", level, re.MULTILINE) == [b"11", b"12", b"13"]
    assert re.findall(rb"^id: (\d+)\.", ahead, re.MULTILINE) == [b"13"]


def test_a_disconnected_follower_gets_nothing_after_a_gap() -> None:
    """After a failed read the tail starts again at the head. Earlier followers resume from their ids."""

    async def work() -> tuple[bytes, bytes]:
        store = open("memory:")
        store.append("order/1", [NewEvent("noted", {"n": n}) for n in range(10)])
        service = Service(store, Settings(url=""))
        await service.start()
        slow, next_ = (service.tail.follower(tail.Channel(Selection(), False)) for _ in range(2))
        await service.tail.begin()
        assert service.tail.join(slow, 10)
        await service.tail.stop()
        slow.end(tail.FAILED)
        await service.tail.begin()
        assert service.tail.join(next_, 10)
        store.append("order/1", NewEvent("noted", {"n": 10}))
        found = await next_.next(60), await slow.next(60)
        await service.stop()
        return found

    next_, slow = asyncio.run(work())
    assert re.findall(rb"^id: (\d+)\.", next_, re.MULTILINE) == [b"11"]
    assert slow == b""


def test_one_that_is_refused_takes_no_place(serve: Any) -> None:
    """Following from a pruned position is 410, however often it is tried, and its place is free again."""
    served = serve(limits={"followers_max": 1})
    store = served.service.store
    store.append("order/1", [NewEvent("noted", {"n": number}) for number in range(4)])
    state.prune(store, "order/1", before=3, reducers=[merge], snapshot=True, accept=True)
    for _ in range(3):
        assert served.client.get("/v1/follow?after=0").status_code == 410
    with served.client.stream("GET", "/v1/follow?after=0&over_pruned=true&kind=order") as answer:
        assert take(answer, 2) == [3, 4]


@pytest.mark.parametrize("id_", ["-1", "x", "1e3", "9" * 30, ""])
def test_an_id_that_is_not_a_position_is_refused(everywhere: Any, id_: str) -> None:
    """Last-Event-ID must be one of ours."""
    assert everywhere.client.get("/v1/follow", headers={"last-event-id": id_}).status_code == 422


def test_followers_that_come_at_once_wait_for_room(serve: Any) -> None:
    """LH-17: all followers reconnect at once after a restart, and none is refused because of the crowd."""
    served = serve()
    served.append("note/1", {"n": 1})
    gate = served.service.reads
    busy = []
    while gate.has_room(None, 0) and gate.count < served.service.limits.reads_max:
        busy.append(gate.enter())
    timer = threading.Timer(1.0, lambda: [entry.leave() for entry in busy])
    timer.start()
    with served.client.stream("GET", "/v1/follow?after=0") as answer:
        assert answer.status_code == 200
        assert take(answer, 1) == [1]
    timer.join()

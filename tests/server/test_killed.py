"""Many clients, and a server that is killed in the middle: what was acknowledged is there, and once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

import tallystick

CLIENTS = 64


class Client:
    """One that appends numbered events, with a key each, and tries again until it is told how it went."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.acknowledged: list[int] = []
        self.retried = 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def run(self, where: dict[str, int], until: float) -> None:
        """Append until the time is up, and finish what was begun."""
        count = 0
        while time.monotonic() < until:
            while (status := await self._send(where["port"], count)) != 201:
                assert status in (0, 429, 503), status
                self.retried += 1
                await asyncio.sleep(0.05)
            self.acknowledged.append(count)
            count += 1
        self._close()

    async def _send(self, port: int, count: int) -> int:
        """The status that one request was answered with; 0 if it was not."""
        body = b'{"events":[{"type":"noted","payload":{"client":%d,"n":%d}}]}' % (self.number, count)
        head = (
            f"POST /v1/streams/order/{self.number}/events HTTP/1.1\r\nhost: localhost\r\n"
            f"content-type: application/json\r\nidempotency-key: {self.number}-{count}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        try:
            if self._reader is None or self._writer is None:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
            self._writer.write(head.encode() + body)
            answer = await self._reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await self._reader.readexactly(length)
        except (OSError, EOFError):
            self._close()
            return 0
        return int(answer[9:12])

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def traffic(start: Any, url: str, *, seconds: float, kills: int) -> list[Client]:
    """Clients at work while the server is killed and started again; each client has finished in the end."""
    started = start(url)
    where = {"port": started.port}
    clients = [Client(number) for number in range(CLIENTS)]
    until = time.monotonic() + seconds
    work = asyncio.gather(*(client.run(where, until) for client in clients))
    for _ in range(kills):
        await asyncio.sleep(seconds / (kills + 1))
        await asyncio.to_thread(started.kill)
        started = await asyncio.to_thread(start, url)
        where["port"] = started.port
    await work
    status, said = await asyncio.to_thread(started.terminate)
    assert status == 0, said
    return clients


def check(url: str, clients: list[Client]) -> None:
    """Every acknowledged event is there once and in order, nothing else is, and the log is whole."""
    from tallystick.store import verify

    with tallystick.open(url, readonly=True) as store:
        for client in clients:
            found = [event.data["n"] for event in store.read_stream(f"order/{client.number}", limit=100_000)]
            assert found == client.acknowledged
        assert store.head() == sum(len(client.acknowledged) for client in clients)
        assert not verify.verify(store.log).problems
    assert sum(client.retried for client in clients) > 0


def test_what_was_acknowledged_survives_a_kill_once(start: Any, tmp_path: Path) -> None:
    """CP-06, LH-07: 64 clients retry with their keys across kill -9: nothing is lost and nothing is recorded twice."""
    url = f"files:{tmp_path}/log"
    check(url, asyncio.run(traffic(start, url, seconds=5, kills=1)))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["files", "sqlite"])
def test_what_was_acknowledged_survives_kills_for_a_minute(start: Any, tmp_path: Path, engine: str) -> None:
    """CP-06, LH-07: the same for 60 s with three kills, on two engines."""
    url = f"{engine}:{tmp_path}/log"
    check(url, asyncio.run(traffic(start, url, seconds=60, kills=3)))

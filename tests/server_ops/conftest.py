"""Real stores and services for the tests of operations, on loopback, in this process or in a separate one."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tallystick.server import listener
from tallystick.server.service import Service, open_service
from tallystick.server.settings import Settings

WAIT_SECONDS = 30


@pytest.fixture(params=["files", "sqlite", "ndjson"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new store, once for each engine that keeps its tokens on this disk."""
    return f"{request.param}:{tmp_path / 'log'}"


class Running:
    """A service that listens on a free port of this machine."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._ready = threading.Event()
        self._socket: socket.socket = listener.bind(service.settings)
        self._server = listener.Listener(service, ready=self._listens)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._ready.wait(WAIT_SECONDS)
        self.client = httpx.Client(base_url=self.address, timeout=WAIT_SECONDS)

    def _listens(self, address: str) -> None:
        self.address = address
        self._ready.set()

    def _run(self) -> None:
        asyncio.run(self._server.serve([self._socket]))

    def stop(self) -> None:
        """Stop the service in order. It is safe to call twice."""
        self.client.close()
        self._server.should_exit = True
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()

    def get(self, path: str, **given: Any) -> Any:
        """The JSON of a GET."""
        return self.client.get(path, **given).json()

    def append(self, stream: str, *payloads: dict[str, Any], type: str = "noted", **given: Any) -> httpx.Response:
        """Append events over HTTP."""
        events = [{"type": type, "payload": payload} for payload in payloads]
        return self.client.post(f"/v1/streams/{stream}/events", json={"events": events}, **given)

    def until(self, path: str, holds: Callable[[Any], bool]) -> Any:
        """The JSON of a GET, as soon as it is as wanted."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not holds(found := self.get(path)):
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
        return found

    def scraped_until(self, *wanted: str) -> str:
        """The page of /metrics, as soon as it contains all of this."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not all(text in (page := self.client.get("/metrics").text) for text in wanted):
            assert time.monotonic() < deadline, page
            time.sleep(0.05)
        return page

    def finished(self, begun: httpx.Response) -> dict[str, Any]:
        """The job that a response names, after it has ended."""
        assert begun.status_code == 202, begun.text
        deadline = time.monotonic() + WAIT_SECONDS
        while (job := self.get(begun.headers["location"]))["state"] == "running":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return dict(job)


Serve = Callable[..., Running]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start services. All are stopped at the end."""
    started: list[Running] = []

    def start(
        url: str | None = None, *, store: Any = None, settings: dict[str, Any] | None = None, **parts: Any
    ) -> Running:
        chosen = Settings(url=url or f"files:{tmp_path / 'log'}", port=0, **(settings or {}))
        service = open_service(chosen, **parts) if store is None else Service(store, chosen, **parts)
        started.append(Running(service))
        return started[-1]

    yield start
    for running in started:
        running.stop()

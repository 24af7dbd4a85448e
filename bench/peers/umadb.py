"""UmaDB: an event store in Rust, a gRPC server with a Python client. It runs on the same cores as its client.

Its events get `data` as JSON bytes made in the measured loop by msgspec, and the stream's name as their tag.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.payloads import TYPE

START_SECONDS_MAX = 15
UNEQUAL = "umadb is a server on the same cores; it neither checks payloads nor hashes events, and durability is its own"


class UmaDb:
    """A client of a running server."""

    def __init__(self, address: str) -> None:
        import umadb

        self._address = address
        self._new_client = umadb.Client
        self._event = umadb.Event
        self._client = umadb.Client(address)

    def append(self, stream: str, payloads: Sequence[dict[str, Any]]) -> None:
        """One durable append."""
        event, encode = self._event, msgspec.json.encode
        self._client.append([event(event_type=TYPE, data=encode(body), tags=[stream]) for body in payloads])

    def append_singly(self, payloads: Sequence[dict[str, Any]], *, threads: int) -> None:
        """Every thread, with a client of its own, appends every payload by itself."""
        workers = [threading.Thread(target=self._work, args=(f"t{number}", payloads)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def _work(self, stream: str, payloads: Sequence[dict[str, Any]]) -> None:
        mine = UmaDb(self._address)
        for body in payloads:
            mine.append(stream, (body,))

    def read(self, *, limit: int, decode: bool = False) -> int:
        """Read from the start, `limit` events at most; says how many there were."""
        if not decode:
            return sum(1 for _ in self._client.read(limit=limit))
        decoder = msgspec.json.decode
        return sum(1 for found in self._client.read(limit=limit) if decoder(found.event.data))


@contextmanager
def server(path: Path) -> Iterator[UmaDb]:
    """A server on a free loopback port, stopped afterwards."""
    port = _free_port()
    path.mkdir(parents=True)
    command = [_executable(), "--db-path", str(path / "uma.db"), "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield _connect(f"http://127.0.0.1:{port}", process)
    finally:
        process.terminate()
        process.wait()


def _connect(address: str, process: subprocess.Popen[bytes]) -> UmaDb:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            found = UmaDb(address)
            found.read(limit=1)
            return found
        except Exception:
            if time.monotonic() > deadline or process.poll() is not None:
                raise
            time.sleep(0.05)


def _executable() -> str:
    return os.path.join(os.path.dirname(sys.executable), "umadb")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

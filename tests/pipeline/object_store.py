"""A server that speaks S3 (moto, which `make test-all` installs), with a proxy in front of it.

The proxy sees every request before the server and every answer before the client. So a test can end a process, delay a
request, or lose an answer at exactly the write that it means.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BUCKET = "tally"
COMMAND = "moto_server"
START_SECONDS_MAX = 60
_HOP = frozenset({"connection", "transfer-encoding", "keep-alive"})


class AnswerLost(Exception):
    """The client gets no answer: the connection is closed."""


class Conflicting(Exception):
    """The server does not get the request, and the client gets 409: another write to that name is running."""


class Between:
    """The proxy. `at` does something at one request, chosen by its method and a pattern for its path.

    Headers that are `ignored` (in lower case) do not reach the server, as if it did not know them.
    """

    def __init__(self) -> None:
        self._deeds: list[tuple[str, re.Pattern[str], bool, Callable[[], None]]] = []
        self._turn = threading.Lock()
        self.seen: list[str] = []
        self.ignored: set[str] = set()

    def at(self, method: str, path: str, do: Callable[[], None], *, after: bool = False) -> None:
        """Do something before (or after) the server sees the next request of that kind. It may raise `AnswerLost`."""
        self._deeds.append((method, re.compile(path), after, do))

    def clear(self) -> None:
        """Remove all actions, the list of requests, and the ignored headers."""
        self._deeds.clear()
        self.ignored.clear()
        self.seen.clear()

    def meet(self, method: str, path: str, *, after: bool) -> None:
        """Called for a request before the server sees it, and for its answer."""
        with self._turn:
            found = [item for item in self._deeds if item[0] == method and item[1].search(path) and item[2] == after]
            for item in found[:1]:
                self._deeds.remove(item)
        for _, _, _, do in found[:1]:
            do()


class Server:
    """A running server: its address, and the environment that a client needs."""

    def __init__(self, address: str, between: Between) -> None:
        self.between = between
        self.environment = {
            "AWS_ENDPOINT_URL": address,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }


def command(root: Path) -> str | None:
    """The command that starts the server; None if it is not installed."""
    own = root / ".moto" / "bin" / COMMAND
    return os.environ.get("TALLY_MOTO") or (str(own) if own.exists() else shutil.which(COMMAND))


@contextmanager
def serving(program: str) -> Iterator[Server]:
    """A server with an empty bucket."""
    port = _free_port()
    child = subprocess.Popen(
        [program, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    between = Between()
    front = ThreadingHTTPServer(("127.0.0.1", 0), _handler(port, between))
    front.daemon_threads = True
    threading.Thread(target=front.serve_forever, daemon=True).start()
    try:
        _begin(port, child)
        yield Server(f"http://127.0.0.1:{front.server_address[1]}", between)
    finally:
        front.shutdown()
        front.server_close()
        child.kill()
        child.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _begin(port: int, child: subprocess.Popen[bytes]) -> None:
    """Wait until it answers, and create the bucket."""
    end = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
            urllib.request.urlopen(request, timeout=10).close()
            return
        except OSError:
            if child.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.1)


def _handler(port: int, between: Between) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            between.seen.append(f"{self.command} {self.path}")
            try:
                between.meet(self.command, self.path, after=False)
                heard = {name: value for name, value in self.headers.items() if name.lower() not in between.ignored}
                status, headers, answer = _asked(port, self.command, self.path, heard, body)
                between.meet(self.command, self.path, after=True)
            except Conflicting:
                status, headers, answer = 409, [], b""
            except AnswerLost:
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            if not any(name.lower() == "content-length" for name, _ in headers):
                self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815 - the names that are called

        def log_message(self, format: str, *arguments: object) -> None:
            """Log nothing: `Between.seen` has every request."""

    return Handler


def _asked(
    port: int, method: str, path: str, headers: dict[str, str], body: bytes
) -> tuple[int, list[tuple[str, str]], bytes]:
    """The answer of the server."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, headers)
        found = connection.getresponse()
        return found.status, found.getheaders(), found.read()
    finally:
        connection.close()

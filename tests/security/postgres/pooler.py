"""A real PgBouncer in front of the test server, in transaction mode."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

REQUIRED = "TALLY_REQUIRE_PGBOUNCER"
_WAIT_S = 30.0
_CONFIG = """[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {servers}
max_client_conn = 200
logfile = {place}/log
"""


@contextmanager
def pgbouncer(url: str, *, mode: str = "transaction", servers: int = 2) -> Iterator[str]:
    """The URL of a pooler in front of the database, with at most so many connections to the server."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        if os.environ.get(REQUIRED):
            pytest.fail(f"{REQUIRED} is set, and there is no pgbouncer")
        pytest.skip("there is no pgbouncer here")
    parts = urlsplit(url)
    given = {key: values[0] for key, values in parse_qs(parts.query).items()}
    host = given.get("host", parts.hostname or "127.0.0.1")
    with tempfile.TemporaryDirectory() as place:
        listen = _free_port()
        config = Path(place) / "pgbouncer.ini"
        config.write_text(
            _CONFIG.format(
                host=host,
                port=given.get("port", parts.port or 5432),
                user=parts.username,
                listen=listen,
                mode=mode,
                servers=servers,
                place=place,
            )
        )
        process = subprocess.Popen([program, "-q", *_not_as_root(place, host), str(config)], stderr=subprocess.DEVNULL)
        try:
            pooled = f"postgresql://{parts.username}@127.0.0.1:{listen}{parts.path}"
            _wait_until_served(pooled, process)
            yield pooled
        finally:
            process.terminate()
            process.wait()


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def _not_as_root(place: str, host: str) -> list[str]:
    """PgBouncer refuses to run as root. It runs as the owner of the server's socket, who must be able to read this."""
    if os.getuid() != 0:
        return []
    user = pwd.getpwuid(os.stat(host).st_uid) if host.startswith("/") else pwd.getpwnam("nobody")
    for path in (place, f"{place}/pgbouncer.ini"):
        os.chown(path, user.pw_uid, user.pw_gid)
    return ["-u", user.pw_name]


def _wait_until_served(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            assert process.poll() is None, "pgbouncer ended"
            assert time.monotonic() < deadline, "pgbouncer does not answer"
            time.sleep(0.05)

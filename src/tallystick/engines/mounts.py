"""Files that are mounted one by one (`mount --bind a.db b.db`, `docker run -v a.db:/b.db`), without their neighbours.

A write-ahead log, a mark or a lock would be made next to one name, and could not be seen from the other.
"""

from __future__ import annotations

import os
import re

_MOUNTS = "/proc/self/mountinfo"  # without this file, nothing is known of mounts
_POINT = 4  # the field with the path of a mount; blanks, tabs, newlines and backslashes in it are octal


def is_file_mount(path: str) -> bool:
    """Whether this file itself is mounted, and not only a directory that contains it."""
    path = os.path.realpath(path)
    try:
        with open(_MOUNTS, "rb") as file:
            points = {line.split(b" ", _POINT + 1)[_POINT] for line in file}
    except (OSError, IndexError):
        return False
    return os.fsencode(path) in {re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), at) for at in points}

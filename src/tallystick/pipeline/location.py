"""Where archives and checkpoints are: directories of a file system, and nothing that only looks like one."""

from __future__ import annotations

import re
from pathlib import Path

from tallystick import errors
from tallystick.store.stating import shown

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # as a path, `s3a://bucket` has a single slash; `C:/` is a drive


def directory_of(given: str | Path, *, what: str = "archive") -> Path:
    """The directory by its whole path. A URL is refused: taken for a path, it would name a folder of that name here."""
    if _URL.match(str(given)):
        must = "a directory that every worker can reach, by its path; object stores are not supported"
        raise errors.InvalidValue(what=what, value=shown(str(given)), must=must)
    return Path(given).absolute()

"""The record of damage as a small file next to the log. It exists only while something is on record.

    {"check":"<64 hex>","format":1,"problems":[{"position":…,"reason":…,"seq":…,"stream":…,"what":…}]}

Invariants:
- `check` is the SHA-256 of the other values, `[format, problems]`, as JSON without spaces.
- The file is replaced as a whole and synced with its directory, under the lock of a file that is removed again.
- A file that cannot be read refuses appends too: it was written because something was damaged.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import chain
from tallystick.store.damage import KeptDamage
from tallystick.store.events import Problem
from tallystick.store.filesystem import FileSystem, Lock, stage_file

NAME = "damage.json"
FORMAT = 1
_BYTES_MAX = 1 << 20
_WAIT_S, _POLL_S = 10, 0.005


class DamageFile(KeptDamage):
    """The record in the file `name` of a directory. Any process that finds damage may write it."""

    def __init__(self, files: FileSystem, directory: str, name: str = NAME) -> None:
        super().__init__()
        self._files = files
        self._directory = directory
        self._name = name
        self._path = f"{directory}/{name}"

    def exists(self) -> bool:
        return self._files.exists(self._path)

    def known(self) -> list[Problem]:
        try:
            file = self._files.open_read(self._path)
        except FileNotFoundError:
            return []
        except OSError as problem:
            return [Problem("record", f"{self._name} cannot be read: {problem}")]
        try:
            return decode(file.read_at(0, _BYTES_MAX))
        except (OSError, ValueError) as problem:
            return [Problem("record", f"{self._name}, the record of what was found damaged, is damaged: {problem}")]
        finally:
            file.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        path = f"{self._path}.lock"
        lock = self._locked(path)
        try:
            yield
        finally:
            if not self._files.pins_open_files:  # a lock file that stays does no harm
                with suppress(OSError):
                    self._files.unlink(path)
            lock.release()

    def _locked(self, path: str) -> Lock:
        """The lock of this file. It counts only if the name still leads to it: the process before removed the name."""
        deadline = time.monotonic() + _WAIT_S
        while True:
            try:
                lock = self._files.lock(path, file_only=True)
                if lock.is_held:
                    return lock
                lock.release()
            except errors.StoreLocked as problem:
                if time.monotonic() > deadline:
                    raise errors.NotRecorded(path=self._path, reason=problem.message) from problem
                time.sleep(_POLL_S)
            except OSError as problem:
                raise errors.NotRecorded(path=self._path, reason=str(problem)) from problem

    def _store(self, problems: list[Problem]) -> None:
        staged = f"{self._name}.{secrets.token_hex(4)}"  # another process may be writing the record too
        try:
            stage_file(self._files, self._directory, staged, encode(problems))
            self._files.rename(f"{self._directory}/{staged}.tmp", self._path)
            self._files.sync_dir(self._directory)
        except OSError as problem:
            raise errors.NotRecorded(path=self._path, reason=str(problem)) from problem

    def _remove(self) -> None:
        try:
            if self._files.exists(self._path):
                self._files.unlink(self._path)
                self._files.sync_dir(self._directory)
        except OSError as problem:
            raise errors.NotRecorded(path=self._path, reason=str(problem)) from problem


def encode(problems: list[Problem]) -> bytes:
    """The bytes of the file."""
    found: list[dict[str, Any]] = msgspec.to_builtins(problems)
    document = {"check": _check(found), "format": FORMAT, "problems": found}
    return msgspec.json.encode(document) + b"\n"


def decode(data: bytes) -> list[Problem]:
    """What is on record; raises ValueError if the file is not what was written."""
    document = msgspec.json.decode(data)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError("its format is not known")
    found = document.get("problems")
    if document.get("check") != _check(found):
        raise ValueError("its check does not fit its content")
    return msgspec.convert(found, list[Problem])


def _check(found: Any) -> str:
    return chain.checksum(msgspec.json.encode([FORMAT, found])).hex()

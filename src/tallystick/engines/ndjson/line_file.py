"""Small files that grow one line at a time: `streams.ndjson` and `lease.ndjson`.

    {… ,"whole":"<16 hex>"}

Nothing was ever promised about a line that a crash tore. Readers skip a line without the right
hash, and the next writer cuts it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from tallystick.event import canonical
from tallystick.store.filesystem import FileSystem, write_fully

_MARK = b',"whole":"'


class LineFile:
    """A file of lines. `refresh` reads what others have added; `append` is for the holder of a lock."""

    def __init__(self, files: FileSystem, directory: str, name: str) -> None:
        self._files = files
        self._directory = directory
        self._path = f"{directory}/{name}"
        self._end = 0  # the offset after the last valid line

    def refresh(self) -> list[dict[str, Any]]:
        """The valid lines since the last call."""
        if not self._files.exists(self._path):
            return []
        file = self._files.open_read(self._path)
        try:
            size = file.size()
            if size == self._end:
                return []
            data = file.read_at(self._end, size - self._end)
        finally:
            file.close()
        return self._take(data)

    def _take(self, data: bytes) -> list[dict[str, Any]]:
        found, at = [], 0
        while (newline := data.find(b"\n", at)) >= 0:
            content = decode(data[at:newline])
            if content is not None:
                found.append(content)
                last = newline + 1
            at = newline + 1
        if found:
            self._end += last
        return found

    def append(self, content: dict[str, Any]) -> None:
        """Add a line durably. Torn bytes after the last valid line are cut first."""
        new = not self._files.exists(self._path)
        file = self._files.create(self._path) if new else self._files.open_write(self._path)
        data = encode(content)
        try:
            if file.size() > self._end:
                file.truncate(self._end)
            write_fully(file, self._end, data)
            file.sync()
        finally:
            file.close()
        if new:
            self._files.sync_dir(self._directory)
        self._end += len(data)


def encode(content: dict[str, Any]) -> bytes:
    """The line of an object whose keys sort before `whole`."""
    body = canonical.encode(content, what="line")[:-1]
    return body + _MARK + _whole(body) + b'"}\n'


def decode(text: bytes) -> dict[str, Any] | None:
    """The object of a line; None if the line is incomplete."""
    body, mark, _ = text.rpartition(_MARK)
    if not mark or text != body + _MARK + _whole(body) + b'"}':
        return None
    try:
        content: dict[str, Any] = msgspec.json.decode(body + b"}")
    except (msgspec.MsgspecError, UnicodeError):
        return None
    return content


def _whole(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:16].encode()

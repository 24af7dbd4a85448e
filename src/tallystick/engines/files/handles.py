"""What an open log holds of its directory: the file system, open segment files, and index sections in memory.

Files are known by the identity of their segment and not by their name, which another segment may have by now.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from tallystick import errors
from tallystick.engines.files import segment
from tallystick.engines.files.compressed import open_segment
from tallystick.engines.files.index_file import SectionCache
from tallystick.store.filesystem import File, FileSystem
from tallystick.store.page import Hole

if TYPE_CHECKING:
    from tallystick.engines.files.segments import Segment

OPEN_FILES_MAX = 200


class Renamed(Exception):
    """A segment no longer has the name that it had: look at the directory again."""


class Handles:
    """Open segment files, bounded in number. A file that falls out closes when its last reader is done with it.

    Where an open file cannot be renamed, no file is kept: each is open only while it is read, and a writer can seal it.
    """

    def __init__(self, files: FileSystem, directory: str) -> None:
        self.files = files
        self.directory = directory
        self.cache = SectionCache()
        self.writes = False  # whether this process is the writer, which makes derived files again
        self.lock = threading.RLock()  # held while an index is rebuilt; a writer commits under the same lock
        self.note_hole: Callable[[Hole], None] = lambda hole: None
        self._open: OrderedDict[bytes, File] = OrderedDict()

    def get(self, item: Segment) -> File:
        """The file of a segment."""
        file = self._open.get(item.identity)
        if file is None:
            try:
                header, file = open_segment(self.files, f"{self.directory}/{item.name}")
            except segment.BadHeader as problem:
                first = item.header.first_position
                last, reason = max(item.next_position - 1, first), f"{item.name}: {problem}"
                raise errors.Damaged(first=first, last=last, reason=reason) from problem
            if header.identity != item.identity:
                file.close()
                raise Renamed(item.name)
            self.keep(item, file)
        return file

    def keep(self, item: Segment, file: File) -> None:
        """Remember an open file."""
        if self.files.pins_open_files:
            return
        self._open[item.identity] = file
        if len(self._open) > OPEN_FILES_MAX:
            self._open.popitem(last=False)

    def release(self, item: Segment) -> None:
        """Forget the open file of a segment that was replaced: it closes when its last reader is done with it."""
        self._open.pop(item.identity, None)

    def release_all(self) -> None:
        """Forget every open file and everything in memory: what is read next comes from the disk, by its name."""
        self._open.clear()
        self.cache.clear()

    def close(self) -> None:
        """Close all files now: a directory must be free to be moved or unmounted when its log is closed."""
        for file in list(self._open.values()):  # a thread that reads may drop one meanwhile
            file.close()
        self._open.clear()
        self.files.release()

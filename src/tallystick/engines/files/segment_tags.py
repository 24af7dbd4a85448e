"""The tags of one segment of an open log: a file, and what has grown in memory since. Both are replaced in one step.

The file is derived. If it is missing, damaged or of another format, the segment is read, and a writer makes the file of
a sealed segment again. Tags are not read before the first query asks for them: opening a log does not wait for that.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from tallystick.engines.files import frame as frames
from tallystick.engines.files import segment, side, tag_file
from tallystick.engines.files.frame import TRAILER_SIZE, Frame
from tallystick.engines.files.handles import Handles
from tallystick.engines.files.index_file import BadIndex, SectionCache
from tallystick.engines.files.scan import Scanner, next_valid_frame
from tallystick.engines.files.side import SideRecords
from tallystick.engines.files.tag_file import SealedTags
from tallystick.engines.files.tag_index import GrowingTags, TagPart
from tallystick.event.model import Row
from tallystick.store.filesystem import NamedFile, replace_file
from tallystick.store.page import Hole

if TYPE_CHECKING:
    from tallystick.engines.files.segments import Segment

T = TypeVar("T")


class SegmentTags:
    """The tags of a segment. Events up to the end of the segment's index are in it, or are read when a query asks."""

    def __init__(self, item: Segment, handles: Handles) -> None:
        self._item: Segment = weakref.proxy(item)  # a cycle would keep the files of replaced segments open
        self._handles = handles
        self._parts: tuple[SealedTags | None, GrowingTags | None] = (None, None)
        self._looked = False
        self._is_replaced = False
        self.rebuilt = False

    @property
    def covered_end(self) -> int:
        """How far the segment is covered."""
        base, grown = self._parts
        last = grown or base
        return last.covered_end if last is not None else self._item.header.size

    @property
    def _present(self) -> list[TagPart]:
        return [part for part in self._parts if part is not None]

    # --- growth ----------------------------------------------------------------------------------------------------

    def add(self, frame: Frame, rows: Sequence[Row], records: SideRecords) -> None:
        """Add the next frame. If frames before it are not covered, the first query reads them, and this one."""
        base, grown = self._parts
        if frame.offset != self.covered_end:
            return
        if grown is None:
            grown = GrowingTags(begin=frame.offset, position=frame.first_position)
            self._parts = (base, grown)
        grown.add(frame, rows, records)

    # --- questions -------------------------------------------------------------------------------------------------

    def ask(self, question: Callable[[list[TagPart]], T]) -> T:
        """Ask the parts, which are in order of the log. If the file turns out to be bad, read the segment instead.

        `Damaged` if a part of the segment is not covered and cannot be read.
        """
        for again in (self.load, self._cover_all):  # another process may have replaced the file
            try:
                return question(self._covering())
            except BadIndex:
                again()
        return question(self._covering())

    def _covering(self) -> list[TagPart]:
        if not self._looked:
            self.load()
        self._item.parts()
        if self.covered_end < self._item.covered_end:
            self._cover(self._parts[0])
        return self._present

    def _cover_all(self) -> None:
        self._cover(None)

    def _cover(self, base: SealedTags | None) -> None:
        """Read what follows after this part; the whole segment if there is none. Appends continue meanwhile."""
        before, fresh = self._parts, self._after(base)
        self._scan(fresh)
        with self._handles.lock:
            if self._parts != before:  # another thread was faster
                return
            self._scan(fresh)
            self._parts = (base, fresh)
            is_sealed = self._item.name != segment.CURRENT
            self.rebuilt = is_sealed or base is not before[0]
            if self._handles.writes and is_sealed and not self._is_replaced:
                self._save_sealed()

    def _after(self, base: SealedTags | None) -> GrowingTags:
        header = self._item.header
        if base is None:
            return GrowingTags(begin=header.size, position=header.first_position)
        return GrowingTags(begin=base.covered_end, position=base.next_position)

    def _scan(self, grown: GrowingTags) -> None:
        """Add the frames up to the end of what is indexed; `Damaged` if one of them cannot be read."""
        item, end = self._item, self._item.covered_end
        file, begin = self._handles.get(item), grown.covered_end
        scanner = Scanner(file, item.identity, offset=begin, end=end, position=grown.next_position)
        for frame, data in scanner:
            body = frames.decode_body(frame, data)
            grown.add(frame, [event.row for event in body.events], side.decode(body.side))
        if scanner.offset < end:
            at, first = scanner.offset, grown.next_position
            valid = next_valid_frame(file, item.identity, begin=at + 1, end=end, position=first)
            last = (valid.first_position if valid is not None else item.next_position) - 1
            hole = Hole(first, max(first, last), f"{item.name} is damaged at byte {at}")
            self._handles.note_hole(hole)
            raise hole.refusal

    # --- the file --------------------------------------------------------------------------------------------------

    @property
    def file_name(self) -> str:
        """The name of the file."""
        return name_of(self._item.name)

    def load(self) -> None:
        """Use the file if there is a good one that covers more than is in memory."""
        with self._handles.lock:
            self._looked = True
            try:
                base = self.on_disk(self._handles.cache)
            except (BadIndex, OSError):
                return
            if base.covered_end >= self.covered_end:
                self._parts = (base, None)

    def on_disk(self, cache: SectionCache) -> SealedTags:
        """The file as it is now; `BadIndex` if it does not belong to the segment as it is now."""
        item, files = self._item, self._handles.files
        file = NamedFile(files, f"{self._handles.directory}/index/{self.file_name}")
        base = SealedTags(file, cache, store_id=item.header.store_id, identity=item.identity)
        if base.covered_end > item.end or base.last_digest != self._digest_before(base.covered_end):
            raise BadIndex("it covers frames that the segment does not have")
        return base

    def _digest_before(self, end: int) -> bytes:
        """The SHA-256 of the frame that ends here; empty where the segment begins."""
        if end <= self._item.header.size:
            return bytes(TRAILER_SIZE)
        return self._handles.get(self._item).read_at(end - TRAILER_SIZE, TRAILER_SIZE)

    def save(self, name: str) -> None:
        """Write the file for a segment of this name, if everything that is indexed is covered without reading it."""
        if self.covered_end != self._item.covered_end or self._item.gaps:
            return
        try:
            data = self._encoded()
        except BadIndex:  # it is made again when a query asks
            return
        replace_file(self._handles.files, f"{self._handles.directory}/index", name_of(name), data)

    def _save_sealed(self) -> None:
        try:
            self.save(self._item.name)
        except OSError:  # without the file, the segment is read at the next opening
            return
        self.load()

    def _encoded(self) -> bytes:
        item, whole = self._item, self._whole()
        digest = self._digest_before(whole.covered_end)
        return tag_file.encode(whole, store_id=item.header.store_id, identity=item.identity, last_digest=digest)

    def _whole(self) -> GrowingTags:
        base, grown = self._parts
        if base is None and grown is not None:
            return grown
        whole = self._after(None)
        for part in self._present:
            whole.join(part)
        return whole

    def differences(self, base: SealedTags) -> Iterator[tuple[int, str]]:
        """Where a file is not what was taken from the segment, up to the same end: the position, and what is wrong."""
        return tag_file.differences(base, self._whole())

    def distrust(self) -> None:
        """Read the segment instead of its file, which says something else; a writer writes the file again."""
        self._cover(None)
        if self._handles.writes and not self._is_replaced:
            with self._handles.lock, contextlib.suppress(OSError):
                self.save(self._item.name)

    def replace(self) -> None:
        """Note that the segment was replaced by another generation: its file has the name now. Call under the lock."""
        self._is_replaced = True

    def forget(self) -> None:
        """Do not use the file before it was looked at again."""
        with self._handles.lock:
            if self._parts[0] is not None:
                self._parts, self._looked = (None, None), False


def name_of(segment_name: str) -> str:
    """The name of the file of tags of a segment."""
    return segment_name.removesuffix(".log") + ".tags"

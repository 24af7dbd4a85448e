"""Taking over a part of another store's log, as one frame.

The frame covers every position up to its last event, also those that hold nothing, as one does that was written again
without what was pruned. Its side records say what the streams begin with (`cut`), which ids are gone (`gone`), which of
its events were erased (`erase`), whose control facts stand later, and up to where such facts are still to come
(`announce`). What a control fact in it names as erased is noted once more, as in every frame that holds such a fact: so
either frame can be refilled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from tallystick.engines.files.frame import Body
from tallystick.engines.files.side import SideRecords, decode
from tallystick.store import transfer
from tallystick.store.maintenance import Cut, before_cut
from tallystick.store.page import Hole
from tallystick.store.transfer import Received, Transfer

if TYPE_CHECKING:
    from tallystick.engines.files.engine import FilesLog


class FilesReceiver:
    """The part of a file log that takes over what another store holds. A base of `FilesLog`."""

    def receive(self, part: Transfer) -> None:
        log = cast("FilesLog", self)
        with log._combiner.lock:
            writer = log._require_writer()
            received = transfer.judge(log, part, head=writer.current.next_position - 1)
            log._write(writer, received, _records_of(received))

    def announced(self) -> int:
        return cast("FilesLog", self)._view.life.announced

    def pruned_events(self) -> Iterator[tuple[int, bytes]]:
        """As their frames hold them, or as frames that were written again remember their ids."""
        log = cast("FilesLog", self)
        floor, reached = log.floor(), 0
        for last, body in log.bodies(after=0, until=floor):
            if not isinstance(body, Hole):
                yield from _gone(body, range(reached + 1, last + 1), log._view.life.cuts)
            reached = last


def _records_of(part: Received) -> SideRecords:
    """What the frame of a part says besides its events."""
    return SideRecords(
        cuts=tuple(founding.cut for founding in part.cuts),
        erasures=(*(erasure for erasure, _ in part.erasures), *part.named),
        announced=part.announced,
        gone=tuple(id_ for _, id_ in part.pruned),
    )


def _gone(body: Body, positions: range, cuts: dict[str, Cut]) -> list[tuple[int, bytes]]:
    """What was pruned of one frame. Of ids that were left out nobody knows which position each had: any will do."""
    found = [(event.position, event.id) for event in body.events if event.seq <= before_cut(cuts.get(event.stream))[0]]
    missing = sorted(set(positions) - {event.position for event in body.events})
    return sorted(found + list(zip(missing, decode(body.side).gone, strict=False)))

"""What became of events after they were recorded: pruned, erased, lost. And which snapshots belong to the log.

All of it follows from side records. An index holds it for one segment, an open log for all of them together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tallystick.engines.files import side
from tallystick.engines.files.side import SideRecords
from tallystick.event.model import Event
from tallystick.store.ledger import Head
from tallystick.store.loss import Loss
from tallystick.store.maintenance import Cut, before_cut

_POSITION_BYTES = 8


class Lifecycle:
    """Cuts by stream, positions of erased events, and of each snapshot whether it is still there.

    Only the holder of the log's lock changes it, and before the head moves: a reader that sees the control fact finds
    here what the fact says.
    """

    def __init__(self) -> None:
        self.cuts: dict[str, Cut] = {}
        self.erased: set[int] = set()
        self.snapshots: dict[bytes, bool] = {}  # False: dropped, perhaps from an older segment
        self.floor = 0
        self.announced = 0  # up to here, control facts about events that were taken over may still come
        self.losses: list[Loss] = []
        self.touched = 0  # no event after this position is pruned or erased

    def apply(self, records: SideRecords) -> None:
        """Apply the side records of the next frame."""
        for cut in records.cuts:
            self._prune(cut)
        for erasure in records.erasures:
            self._erase(erasure.position)
        self.announced = max(self.announced, records.announced)
        self.losses += records.losses
        self.snapshots |= dict.fromkeys(records.snapshots, True)
        self.snapshots |= dict.fromkeys(records.dropped, False)

    def merge(self, newer: Lifecycle) -> None:
        """Apply what newer frames did."""
        for cut in newer.cuts.values():
            self._prune(cut)
        for position in newer.erased:
            self._erase(position)
        self.announced = max(self.announced, newer.announced)
        self.losses += newer.losses
        self.snapshots |= newer.snapshots

    def _prune(self, cut: Cut) -> None:
        self.cuts[cut.stream] = cut
        self.floor = max(self.floor, cut.last_position)
        self.touched = max(self.touched, cut.last_position)

    def _erase(self, position: int) -> None:
        self.erased.add(position)
        self.touched = max(self.touched, position)

    def visible(self, events: list[Event]) -> list[Event]:
        """Those of these events, in order of position, that were not pruned; erased ones without their payloads."""
        if not events or events[0].position > self.touched:
            return events
        cuts, erased = self.cuts, self.erased
        return [
            msgspec.structs.replace(event, payload=None) if event.position in erased else event
            for event in events
            if event.seq > before_cut(cuts.get(event.stream))[0]
        ]

    def head(self, stream: str, found: Head | None) -> Head | None:
        """The end of a stream, given the end of what is left of it. A cut remembers the end of the pruned part."""
        cut = self.cuts.get(stream)
        if cut is None:
            return found
        if found is None or found.seq < cut.through:
            return Head(cut.through, cut.link, cut.org)
        return found if found.org is not None else Head(found.seq, found.link, cut.org)

    def held_snapshots(self) -> list[bytes]:
        """The ids of the snapshots that belong to the log, ascending."""
        return sorted(id_ for id_, held in list(self.snapshots.items()) if held)

    def encode(self) -> dict[str, Any]:
        """What an index file holds of it."""
        return {
            "cuts": [msgspec.structs.astuple(cut) for _, cut in sorted(self.cuts.items())],
            "erased": b"".join(position.to_bytes(_POSITION_BYTES, "big") for position in sorted(self.erased)),
            "snapshots": sorted(self.snapshots.items()),
        } | {name: value for name in ("announced", "losses") if (value := getattr(self, name))}


def decode(fields: dict[str, Any]) -> Lifecycle:
    """What an index file holds, as it was."""
    found, erased = Lifecycle(), fields["erased"]
    for cut in fields["cuts"]:
        found._prune(side.cut_of(cut))
    for at in range(0, len(erased), _POSITION_BYTES):
        found._erase(int.from_bytes(erased[at : at + _POSITION_BYTES], "big"))
    found.announced = fields.get("announced", 0)
    found.losses = msgspec.convert(fields.get("losses", []), list[Loss])
    found.snapshots = dict(fields["snapshots"])
    return found


def merged(parts: Iterable[Lifecycle]) -> Lifecycle:
    """The lifecycles of parts of a log, in order, as one."""
    found = Lifecycle()
    for part in parts:
        found.merge(part)
    return found

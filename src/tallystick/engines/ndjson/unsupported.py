"""The parts of the port that a store of runs lacks, and the capabilities they belong to.

- `maintenance`: pruning, erasing and snapshots inside the store record a fact about a stream in the commit that changes
  the stream. A commit of this engine goes to one stream. The snapshot of a run is a file next to its log.
- `commands`: a command may append to several streams.
- `transfer`: positions do not order the events of different streams, so a log cannot continue another.

Reading finds nothing of these; asking for them is refused with the name of the capability, here and in `commit.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tallystick import errors
from tallystick.store import capabilities
from tallystick.store.events import Consulted
from tallystick.store.idempotency import CommandKey, CommandRecord, CommandRecords
from tallystick.store.loss import Loss
from tallystick.store.maintenance import Cut, PrunedEvent, Reclaimed
from tallystick.store.query import Query
from tallystick.store.snapshots import Snapshots
from tallystick.store.transfer import Transfer


class NoSnapshots:
    """No bodies: the snapshot of a run is the file next to its log."""

    def load(self, id: bytes, *, bytes_max: int | None = None) -> bytes | None:
        return None

    def ids(self) -> list[bytes]:
        return []

    def size(self) -> int:
        return 0


class NoCommands:
    """No commands."""

    def load(self, key: CommandKey) -> CommandRecord | None:
        return None

    def touching(self, stream: str, seq: int) -> list[CommandKey]:
        return []

    def forget(self, *, before: int, limit: int) -> int:
        return 0


class Unsupported:
    """What the port asks about those parts."""

    snapshots: Snapshots = NoSnapshots()
    commands: CommandRecords = NoCommands()

    def receive(self, part: Transfer) -> None:
        raise errors.UnsupportedCapability(engine="ndjson", capability=capabilities.TRANSFER)

    def announced(self) -> int:
        return 0

    def pruned_events(self) -> Iterator[PrunedEvent]:
        return iter(())

    def consult(self, query: Query, *, after: int, org: str | None, over_pruned: bool) -> Consulted:
        raise errors.UnsupportedCapability(engine="ndjson", capability=capabilities.CONDITIONS)

    def erased(self, positions: Sequence[int]) -> Sequence[int]:
        return ()

    def floor(self) -> int:
        return 0

    def cut(self, stream: str) -> Cut | None:
        return None

    def cuts(self, *, after: str = "", limit: int) -> list[Cut]:
        return []

    def pruned(self, id: bytes) -> bool:
        return False

    def losses(self) -> list[Loss]:
        return []

    def reclaim(self, *, compress_before: int | None, progress: Callable[[int], None]) -> Reclaimed:
        return Reclaimed((), 0, 0)

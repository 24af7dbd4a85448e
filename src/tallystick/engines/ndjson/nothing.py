"""What a store of runs has none of. Pruning, erasing, snapshots in the store and commands need a commit over several
streams (the stream and the facts about it), which this engine does not offer: `committing.py` refuses them by name.
"""

from __future__ import annotations

from tallystick.store.idempotency import CommandKey, CommandRecord


class NoSnapshots:
    """No bodies: the snapshot of a run is the file beside its log."""

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

"""Names become durable before anything that depends on them is acknowledged."""

from __future__ import annotations

import posixpath
from typing import Any

from tallystick.testing.simulated_disk import Operation


def test_a_file_is_synced_before_it_is_renamed_into_place(history: Any) -> None:
    """LH-08, LH-19: whatever gets its name by a rename was synced after its last write and before the rename."""
    operations: list[Operation] = history.disk.operations
    renames = [at for at, done in enumerate(operations) if done.kind == "rename"]
    assert renames
    for at in renames:
        touched = [done.kind for done in operations[:at] if done.inode == operations[at].inode]
        touched = [kind for kind in touched if kind in ("write", "truncate", "sync")]
        assert touched[-1:] == ["sync"], str(operations[at])


def test_a_rename_is_synced_before_the_next_acknowledgement(history: Any) -> None:
    """LH-19: between a rename or a creation of a segment and the next acknowledgement its directory is synced."""
    operations: list[Operation] = history.disk.operations
    acknowledged = [when for when, _ in history.acknowledged]
    seen = 0
    for at, done in enumerate(operations):
        name = done.other if done.kind == "rename" else done.path
        if done.kind not in ("rename", "create") or not name.endswith(".log"):
            continue
        following = [when for when in acknowledged if when > at]
        if following:
            seen += 1
            between = operations[at + 1 : following[0]]
            synced = [item.path for item in between if item.kind == "sync_dir"]
            assert posixpath.dirname(name) in synced, str(done)
    assert seen >= 4


def test_every_acknowledgement_follows_a_sync_of_its_frame(history: Any) -> None:
    """LH-07: the last write to a segment before an acknowledgement is synced before it."""
    operations: list[Operation] = history.disk.operations
    segments = {done.inode for done in operations if done.kind == "rename" and done.other.endswith(".log")}
    for when, _ in history.acknowledged:
        touched = [item.kind for item in operations[:when] if item.inode in segments]
        touched = [kind for kind in touched if kind in ("write", "sync")]
        assert touched[-1] == "sync"

"""What `tally doctor` shows of a file log."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tallystick.testing.builders import events


def test_it_says_who_writes(opened: Any) -> None:
    """LH-15: a handle that writes says so, and one that reads does not."""
    store = opened()
    store.append("order/1", events(1))
    assert store.report().facts["writer"] == "this process"
    assert opened(readonly=True).report().facts["writer"] == "not this process"


def test_a_log_without_a_directory_of_snapshots_has_no_orphans(opened: Any, directory: Path) -> None:
    """A copy that left an empty directory out is whole."""
    with opened() as store:
        store.append("order/1", events(1))
    shutil.rmtree(directory / "snapshots", ignore_errors=True)
    assert opened(readonly=True).report().facts["snapshot_orphans"] == []

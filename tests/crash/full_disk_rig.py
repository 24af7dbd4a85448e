"""Maintenance on a real disk that is full: run under `unshare --mount` with a directory to mount a small tmpfs on.

Fills the disk with ballast, asks for a snapshot and a prune until there is no room, then takes the ballast away and
goes on with the same handle. The exit status is 0 if nothing was half there and everything acknowledged is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.store.maintenance import Maintenance
from tallystick.store.verify import verify
from tallystick.testing import upkeep

SIZE = "2m"


def snapshot_and_prune(store: Store, through: int) -> None:
    """One commit with a snapshot that packs badly, and a cut."""
    made = upkeep.snapshot_of(store, "order/1", b'{"text":"' + os.urandom(50_000).hex().encode() + b'"}')
    cut = upkeep.cut_of(store, "order/1", through)
    facts = [upkeep.snapshot_fact(made), upkeep.pruned_fact(cut)]
    store.record(facts, maintenance=Maintenance(snapshots=(made,), cuts=(cut,)))


def fill(store: Store) -> int:
    """Snapshot and prune until there is no room; how often it was done."""
    for number in range(1, 1000):
        try:
            snapshot_and_prune(store, number)
        except errors.NoSpace:
            return number - 1
    raise AssertionError("the disk does not fill up")


def main() -> None:
    """See above."""
    mounted = Path(sys.argv[1])
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(mounted)], check=True)
    ballast = mounted / "ballast"
    with tallystick.open(f"files:{mounted / 'store'}") as store:
        store.append("order/1", [NewEvent("made", {"number": number}) for number in range(500)])
        ballast.write_bytes(bytes(1 << 20))
        done = fill(store)
        assert done > 2, "the disk was full at once"
        check(store, done)
        with_no_room = len(list((mounted / "store" / "snapshots").iterdir()))
        assert with_no_room == done, "a file was left behind"
        ballast.unlink()
        snapshot_and_prune(store, done + 1)
        check(store, done + 1)
    with tallystick.open(f"files:{mounted / 'store'}") as store:
        check(store, done + 1)
    print(done)


def check(store: Store, done: int) -> None:
    """As many snapshots as were acknowledged, and the last cut."""
    cut = store.cut("order/1")
    assert cut is not None
    assert (len(store.log.snapshots.ids()), cut.through) == (done, done)
    assert verify(store.log).problems == []


if __name__ == "__main__":
    main()

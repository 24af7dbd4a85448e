"""How long the records of commands are kept: at least a day, but not permanently. The scheduler calls this."""

from __future__ import annotations

from tallystick import errors
from tallystick.event import names
from tallystick.store.store import Store

KEPT_NS_MIN = 24 * 3600 * 1_000_000_000
BATCH = 1000


def forget_old(store: Store, *, kept_ns: int = KEPT_NS_MIN, now: int | None = None) -> int:
    """Delete the records of commands older than `kept_ns`; their number. Their events stay."""
    if type(kept_ns) is not int or kept_ns < KEPT_NS_MIN:
        raise errors.InvalidValue(what="kept_ns", value=names.display(kept_ns), must=f"at least {KEPT_NS_MIN} (24 h)")
    before = (store.clock() if now is None else now) - kept_ns
    forgotten = 0
    while count := store.log.commands.forget(before=before, limit=BATCH):
        forgotten += count
    return forgotten

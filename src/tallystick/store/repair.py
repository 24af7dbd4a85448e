"""Clears the record of damage: only after everything was verified again, and never without a control fact.

It is used by `tally doctor --repair`, by refilling from a copy (`store/refill.py`), and by a recorded decision to
accept a loss (`store/acceptance.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tallystick import errors
from tallystick.event.model import NewEvent
from tallystick.store import control
from tallystick.store.damage import put_on_record, with_known
from tallystick.store.events import Problem
from tallystick.store.store import Store
from tallystick.store.verify import Verification, examine


def repair(store: Store, *, progress: Callable[[int], None] = lambda done: None) -> Verification | None:
    """Verify a store that has damage on record, and clear the record if nothing is wrong. None if nothing is on record.

    The store is open for writing, so recovery has done what it can.
    """
    known = store.log.damage.known()
    if not known:
        return None
    found = examine(store.log, progress=progress)
    if found.ok:
        clear(store, cleared(known, how="everything was verified again: nothing is wrong"), known)
        found.problems = with_known([], store.log.damage.known())  # findings of others in the meantime
    else:
        found.unrecorded = put_on_record(store.log.damage, found.problems)
    return found


def require_sound(store: Store, when: str) -> list[Problem]:
    """Verify a store without regard to the record, and refuse if something is wrong. Returns what is on record."""
    known = store.log.damage.known()
    found = examine(store.log)
    if not found.ok:
        put_on_record(store.log.damage, found.problems)
        first = found.problems[0]
        raise errors.Damaged(first=first.position, last=first.position, reason=f"{when}: {first.reason}")
    return known


def clear(store: Store, fact: NewEvent, verified: Sequence[Problem], *, stream: str = control.REPAIRS_STREAM) -> None:
    """Append a fact that says what was on record and how it was settled; then remove exactly that from the record.

    In this order, a crash between the two leaves the record. It never leaves a cleared record without a fact.
    """
    with store.log.damage.settling(verified):
        store.record([(stream, fact)])


def cleared(known: Sequence[Problem], *, how: str) -> NewEvent:
    """The fact that a record of damage was cleared."""
    return NewEvent(control.DAMAGE_CLEARED, {"how": how, "on_record": msgspec.to_builtins(list(known))})

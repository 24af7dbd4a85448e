"""Accepting a loss: a control fact makes a lost range a recorded decision, and the record of damage is cleared.

The engine has noted the lost ranges before that. A crash in between leaves losses without a fact: verification reports
them, appends are still refused, and accepting again completes it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import ids
from tallystick.event.model import NewEvent
from tallystick.store.damage import put_on_record
from tallystick.store.events import EventLog
from tallystick.store.loss import ACCEPTED, KIND, Loss
from tallystick.store.reasons import LOSS
from tallystick.store.repair import clear
from tallystick.store.store import Store
from tallystick.store.verify import accepted_ranges, examine


class LostSeqs(msgspec.Struct, frozen=True):
    """What a stream lost, as far as it is known: the seqs from `first` to `last`."""

    stream: str
    first: int
    last: int


class KeptFile(msgspec.Struct, frozen=True):
    """A damaged file that was kept as it is."""

    file: str
    sha256: str


class Acceptance(msgspec.Struct, frozen=True):
    """What is lost, and what is kept of it. `uncertain` are streams that may have lost events at their ends."""

    losses: tuple[Loss, ...] = ()
    streams: tuple[LostSeqs, ...] = ()
    uncertain: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    kept: tuple[KeptFile, ...] = ()
    done: tuple[str, ...] = ()


def record(store: Store, accepted: Acceptance) -> Acceptance:
    """Record the losses that no fact accepts yet, if nothing else is wrong, and clear the record of damage."""
    known = store.log.damage.known()
    found = examine(store.log)
    others = [problem for problem in found.problems if problem.what != LOSS]
    if others:
        put_on_record(store.log.damage, others)
        first = others[0]
        raise errors.Damaged(first=first.position, last=first.position, reason=f"it cannot be accepted: {first.reason}")
    pending = _pending(store.log)
    if pending or known:
        stream = f"{KIND}/{ids.to_text(ids.default.mint(1, time_ns=store.clock())[0])}"
        payload = _payload(pending, accepted) | {"on_record": msgspec.to_builtins(known)}
        clear(store, NewEvent(ACCEPTED, payload), known, stream=stream)
    return msgspec.structs.replace(accepted, losses=tuple(pending))


def _pending(log: EventLog) -> list[Loss]:
    """The losses that no control fact accepts."""
    settled = accepted_ranges(log)
    return [loss for loss in log.losses() if (loss.first, loss.last) not in settled]


def _payload(pending: list[Loss], accepted: Acceptance) -> dict[str, Any]:
    return {
        "ranges": [
            {
                "first": loss.first,
                "last": loss.last,
                "reason": loss.reason,
                "indexed": loss.is_indexed,
                "ends": [{"stream": end.stream, "seq": end.seq, "link": end.link.hex()} for end in loss.ends],
            }
            for loss in pending
        ],
        "streams": [msgspec.to_builtins(lost) for lost in accepted.streams],
        "uncertain": list(accepted.uncertain),
        "kept": [msgspec.to_builtins(kept) for kept in accepted.kept],
        "done": list(accepted.done),
    }

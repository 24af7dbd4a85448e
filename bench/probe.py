"""A process that does one thing to a store and says what that took: `python -m bench.probe ACTION URL [NUMBER]`.

Actions: `open`, `replay`; `fold` up to a seq; `snapshot` a state of so many bytes in a new store.
"""

from __future__ import annotations

import json
import sys
import time

import tallystick
from bench import machine
from tallystick import state


def main(action: str, url: str, number: str = "0") -> None:
    """Print one JSON object."""
    if action == "snapshot":
        print(json.dumps(_snapshot(url, int(number))))
        return
    started = time.perf_counter()
    with tallystick.open(url) as store:
        taken = time.perf_counter() - started
        store.head()
        idle = machine.rss_mb()
        events = sum(1 for _ in store.events()) if action == "replay" else 0
        if action == "fold":
            _fold(store, int(number))
    found = {"seconds": taken, "rss_mb": idle, "events": events, "peak_mb": machine.rss_mb(peak=True)}
    print(json.dumps(found))


def _fold(store: tallystick.Store, count: int) -> None:
    from bench.rows.state import STREAM, summing

    state.fold(store, summing, STREAM, until=state.Until(seq=count), snapshots=False)


def _snapshot(url: str, size: int) -> dict[str, float]:
    from bench.rows.state import large_state, timed_snapshot

    value = large_state(size)
    with tallystick.open(url) as store:
        before = machine.rss_mb()
        seconds = timed_snapshot(store, value)
    return {"seconds": seconds, "extra_mb": machine.rss_mb(peak=True) - before}


if __name__ == "__main__":
    main(*sys.argv[1:])

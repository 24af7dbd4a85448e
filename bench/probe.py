"""A process that opens a store, maybe replays it, and says what that took: `python -m bench.probe open|replay URL`."""

from __future__ import annotations

import json
import sys
import time

import tallystick
from bench import machine


def main(action: str, url: str) -> None:
    """Print one JSON object."""
    started = time.perf_counter()
    with tallystick.open(url) as store:
        taken = time.perf_counter() - started
        store.head()
        idle = machine.rss_mb()
        events = sum(1 for _ in store.events()) if action == "replay" else 0
    found = {"seconds": taken, "rss_mb": idle, "events": events, "peak_mb": machine.rss_mb(peak=True)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

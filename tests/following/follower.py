"""A process that follows a log while it is rewritten: `follower.py DIRECTORY SEED`.

It reads every position once, looks back at random by id and by seq, and holds few files open, so that it opens segments
again that were replaced meanwhile. At the end of the log it says what it has seen, and what was wrong.
"""

from __future__ import annotations

import json
import random
import sys
import time

import tallystick
from tallystick import Store, errors
from tallystick.engines.files import handles
from tallystick.event.model import Event

BOUND_SECONDS = 60.0
FILES_MAX = 3
KEPT = "order/kept"
LAST = "log.ended"


class Follower:
    """What was seen so far, and the problems."""

    def __init__(self, store: Store, seed: str) -> None:
        self.store = store
        self.dice = random.Random(seed)
        self.after = 0
        self.kept: list[Event] = []
        self.seen = 0
        self.problems: list[str] = []

    def step(self) -> bool:
        """Read one page. Returns whether the log has ended."""
        page = self.store.read(after=self.after, over_pruned=True, limit=self.dice.choice((1, 10, 200)))
        for event in page.events:
            self.take(event)
        self.after = page.through
        return bool(page.events) and page.events[-1].type == LAST

    def take(self, event: Event) -> None:
        """Check one event."""
        if event.position <= self.after:
            self.problems.append(f"position {event.position} came twice, after {self.after}")
        self.after = event.position
        self.seen += 1
        if event.stream == KEPT:
            if event.seq != len(self.kept) + 1:
                self.problems.append(f"seq {event.seq} came after {len(self.kept)}")
            self.kept.append(event)

    def look_back(self) -> None:
        """Check an event that was seen before."""
        if self.kept:
            event = self.dice.choice(self.kept)
            if self.store.find(event.id) != event:
                self.problems.append(f"seq {event.seq} is not found by its id")
            if self.store.read_stream(KEPT, after=event.seq - 1, limit=1) != [event]:
                self.problems.append(f"seq {event.seq} is not found by its seq")


def main(directory: str, seed: str) -> None:
    """Follow to the end."""
    handles.OPEN_FILES_MAX = FILES_MAX
    until = time.monotonic() + BOUND_SECONDS
    with tallystick.open(f"files:{directory}", readonly=True) as store:
        follower = Follower(store, seed)
        print("ready", flush=True)
        try:
            while not follower.step() and time.monotonic() < until:
                follower.look_back()
                if follower.after >= store.head():
                    store.wait(follower.after, timeout=0.05)
        except errors.TallyError as problem:
            follower.problems.append(f"after {follower.after}: {problem}")
        holes = [(hole.first, hole.last) for hole in store.holes()]
    print(json.dumps({"kept": len(follower.kept), "problems": follower.problems[:5], "holes": holes}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

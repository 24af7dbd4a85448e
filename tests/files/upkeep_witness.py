"""A process of its own that reads a file log while its writer prunes and erases: `upkeep_witness.py DIRECTORY`.

Whatever a control fact says that it has been shown must hold in every way of reading from then on. Prints `ready`, and
at the end how many erasures and prunes it saw and how many of the events it had read before they were erased.
"""

from __future__ import annotations

import sys
import time

import tallystick
from tallystick import Event, Store, errors
from tallystick.store import facts

BOUND_SECONDS = 60.0
STREAM = "order/1"
LAST = "log.ended"


class Witness:
    """Remembers what it was shown."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.through = 0
        self.erased: dict[int, Event] = {}
        self.whole: set[int] = set()
        self.known_before = 0

    def look(self) -> bool:
        """Read the facts, then the events that they are about; says whether the log has ended."""
        after = 0
        while page := self.store.read_stream(facts.stream_about(STREAM), after=after):
            for fact in page:
                self.take(fact)
            after = page[-1].seq
        self.check_events()
        return any(event.type == LAST for event in self.store.read_stream("order/end"))

    def take(self, event: Event) -> None:
        """Note what a fact says."""
        if event.type == facts.PRUNED:
            self.through = max(self.through, facts.parse(event, facts.Pruned).through)
        elif event.type == facts.ERASED:
            fact = facts.parse(event, facts.Erased)
            self.known_before += fact.seq not in self.erased and fact.seq in self.whole
            self.erased[fact.seq] = event

    def check_events(self) -> None:
        """No way of reading gives back what a fact said is gone."""
        floor, through, erased = self.store.floor(), self.through, dict(self.erased)
        left = [event for event in self.store.read(over_pruned=True, limit=100_000).events if event.stream == STREAM]
        assert all(event.seq > through for event in left), "a pruned event was served"
        for event in left:
            found = self.store.find(event.id)
            if event.seq in erased:
                assert event.payload is None, "an erased payload was served by position"
                assert found is None or found.payload is None, "an erased payload was served by id"
            elif event.payload is not None:
                self.whole.add(event.seq)
        if through:
            assert floor > 0
            try:
                self.store.read_stream(STREAM, after=through - 1)
            except errors.HistoryPruned:
                return
            raise AssertionError("a read below the cut was answered")


def main() -> None:
    """Watch until the log ends."""
    deadline = time.monotonic() + BOUND_SECONDS
    with tallystick.open(f"files:{sys.argv[1]}", readonly=True) as store:
        witness = Witness(store)
        print("ready", flush=True)
        while not witness.look():
            assert time.monotonic() < deadline, "the log does not end"
        witness.look()
        print(len(witness.erased), witness.through, witness.known_before, flush=True)


if __name__ == "__main__":
    main()

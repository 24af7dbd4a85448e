"""A writer to be killed: forks a child for each line `URL SEED` on its input, which works until it is killed.

Before the child asks the store for anything it writes down what it asks, afterwards what was acknowledged, one JSON
line each. The parent process holds these lines against the store: it needs no part of the store to know what happened.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import traceback
from typing import Any

import tallystick
from tallystick import ANY, NewEvent, Store, errors, state
from tallystick.commands import CommandKey, Commands, Context, Decision
from tallystick.event import ids
from tallystick.projections import Live
from tallystick.testing.shop import PAID, PLACED, CustomerBalance

ORDERS = tuple(f"order/{number}" for number in range(4))
ACCOUNTS = tuple(f"account/{number}" for number in range(3))
RUNS = tuple(f"run/{number}" for number in range(3))
CONSUMER = "mailer"


class Sum:
    """A reducer with a step after every event."""

    name, version = "sum", 1
    step_types = ("booked",)

    def initial(self) -> Any:
        return 0

    def apply(self, value: Any, event: Any) -> Any:
        return value + (0 if event.data is None else event.data["amount"])


SUM = state.as_reducer(Sum)


def say(**what: Any) -> None:
    """One line for the process that keeps the model."""
    os.write(1, (json.dumps(what) + "\n").encode())


class Worker:
    """Does one thing after the other, at random."""

    def __init__(self, store: Store, dice: random.Random) -> None:
        self.store, self.dice = store, dice

    def work(self) -> None:
        """Until killed."""
        runs = [self.append] * 8
        others = [self.append_all, self.command, self.project, self.consume, self.prune, self.erase, self.reclaim]
        actions = runs if self.store.log.engine == "ndjson" else [*runs, *others]
        while True:
            self.dice.choice(actions)()

    def append(self) -> None:
        """One to five events to one stream."""
        streams = RUNS if self.store.log.engine == "ndjson" else (*ORDERS, *ACCOUNTS)
        self._append([self.dice.choice(streams)])

    def append_all(self) -> None:
        """Events to several streams, all or nothing."""
        self._append(self.dice.sample((*ORDERS, *ACCOUNTS), self.dice.randint(2, 4)))

    def _append(self, streams: list[str]) -> None:
        parts = [(stream, self._events(stream), ANY) for stream in streams]
        asked = [[stream, _hex(event.id), event.payload] for stream, events, _ in parts for event in events]
        say(do="append", events=asked)
        done = self.store.append(*parts[0][:2]) if len(parts) == 1 else self.store.append_all(parts)
        acknowledged = [done] if len(parts) == 1 else done
        say(done="append", ends=[[item.stream, item.last_seq, item.link.hex()] for item in acknowledged])

    def _events(self, stream: str) -> list[NewEvent]:
        return [self._event(stream) for _ in range(self.dice.randint(1, 5))]

    def _event(self, stream: str) -> NewEvent:
        type_ = self.dice.choice((PLACED, PAID)) if stream in ORDERS else "booked"
        payload = {"amount": self.dice.randrange(1000), "customer": f"c{self.dice.randrange(4)}"}
        return NewEvent(type_, payload, id=ids.default.mint(1, time_ns=time.time_ns())[0])

    def command(self) -> None:
        """A command under one of a few keys: its effect happens once, its response stays."""
        key = f"k{self.dice.randrange(10)}"
        event = self._event("order/0")
        say(do="command", key=key, events=[["order/0", _hex(event.id), event.payload]])

        def decide(context: Context) -> Decision:
            return Decision([("order/0", [event], ANY)], {"id": _hex(event.id)})

        name = CommandKey(org="", actor="torture", endpoint="place", key=key)
        answer = Commands(self.store).run(key=name, request={"key": key}, handler=decide)
        say(done="command", key=key, response=answer.response)

    def project(self) -> None:
        """Bring the rows of a projection up to the head."""
        Live(self.store, CustomerBalance(), batch_events=self.dice.randint(1, 50)).catch_up()

    def consume(self) -> None:
        """Save a consumer's place."""
        place = self.store.head()
        say(do="checkpoint", position=place)
        self.store.save_checkpoint(CONSUMER, place)
        say(done="checkpoint", position=place)

    def prune(self) -> None:
        """Snapshot an account and prune what is before a seq, in one commit."""
        stream = self.dice.choice(ACCOUNTS)
        head, cut = self.store.stream_head(stream), self.store.cut(stream)
        first = 1 if cut is None else cut.through + 1
        if head is None or head.seq - first < 20:
            return
        before = self.dice.randint(first + 1, head.seq - 5)
        self.project()
        self.consume()
        say(do="prune", stream=stream, through=before - 1)
        state.prune(self.store, stream, before=before, reducers=[SUM], snapshot=True, accept=True)
        say(done="prune", stream=stream, through=before - 1)

    def erase(self) -> None:
        """Erase the payload of one event of an account."""
        stream = self.dice.choice(ACCOUNTS)
        head, cut = self.store.stream_head(stream), self.store.cut(stream)
        first = 1 if cut is None else cut.through + 1
        if head is None or head.seq < first:
            return
        seq = self.dice.randint(first, head.seq)
        say(do="erase", stream=stream, seq=seq)
        try:
            state.erase(self.store, stream, seq, reason="asked for", reducers=[SUM], accept=True)
        except errors.EraseRefused:  # it is erased already
            return
        say(done="erase", stream=stream, seq=seq)

    def reclaim(self) -> None:
        """Give room back, where that is quick."""
        if self.store.log.engine == "files" and self.dice.random() < 0.3:
            self.store.log.reclaim(compress_before=None, progress=lambda done: None)


def _hex(id_: Any) -> str:
    return ids.to_bytes(id_).hex()


def main() -> None:
    """Serve rounds until the input ends."""
    for line in sys.stdin:
        url, seed = line.split()
        child = os.fork()
        if child == 0:
            try:
                options: dict[str, Any] = (
                    {"segment_bytes_max": 20_000, "compress_bytes_min": 0} if url.startswith("files:") else {}
                )
                Worker(tallystick.open(url, **options), random.Random(seed)).work()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        say(pid=child)
        _, status = os.waitpid(child, 0)
        say(gone=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()

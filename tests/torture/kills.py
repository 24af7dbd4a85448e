"""A mixed workload, killed at random moments, held against a model outside of the store.

Nothing that was acknowledged may be missing, and nothing may be there that was never asked for. What was asked for and
not acknowledged when the kill came may have happened or not, but not by half.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tallystick
from tallystick import Event, Store
from tallystick.commands import CommandKey, Commands
from tallystick.projections import Live, ViewReader
from tallystick.store.verify import verify
from tallystick.testing import postgres
from tallystick.testing.shop import PAID, PLACED, CustomerBalance

from .writer import CONSUMER, ORDERS

ENGINES = ("files", "sqlite", "ndjson", "postgres")
ROUNDS_PER_STORE = 20
DELAY_S_MAX = 0.15
READY_S = 60


class Model:
    """What the writers of one store said, and what must follow from it."""

    def __init__(self) -> None:
        self.asked: dict[str, tuple[str, Any]] = {}  # id -> stream and payload
        self.acknowledged: dict[str, str] = {}  # id -> stream
        self.ends: dict[str, tuple[int, str]] = {}
        self.cuts: dict[str, int] = {}
        self.erased: set[tuple[str, int]] = set()
        self.responses: dict[str, Any] = {}
        self.checkpoint = 0
        self.pending: dict[str, Any] | None = None

    def hear(self, line: dict[str, Any]) -> None:
        """Take in one line of a writer."""
        if "do" in line:
            self.pending = line
            self.asked |= {id_: (stream, payload) for stream, id_, payload in line.get("events", ())}
        elif "done" in line:
            getattr(self, f"_{line['done']}")(line)
            self.pending = None

    def _append(self, line: dict[str, Any]) -> None:
        assert self.pending is not None
        self.acknowledged |= {id_: stream for stream, id_, _ in self.pending["events"]}
        self.ends |= {stream: (seq, link) for stream, seq, link in line["ends"]}

    def _command(self, line: dict[str, Any]) -> None:
        before = self.responses.setdefault(line["key"], line["response"])
        assert before == line["response"], f"the response of {line['key']} changed"
        self.acknowledged[line["response"]["id"]] = "order/0"

    def _checkpoint(self, line: dict[str, Any]) -> None:
        self.checkpoint = line["position"]

    def _prune(self, line: dict[str, Any]) -> None:
        self.cuts[line["stream"]] = line["through"]

    def _erase(self, line: dict[str, Any]) -> None:
        self.erased.add((line["stream"], line["seq"]))


class Check:
    """Holds one store against its model, after a kill."""

    def __init__(self, store: Store, model: Model) -> None:
        self.store, self.model = store, model
        self.pending = model.pending or {"do": ""}
        self.events = [event for event in _everything(store) if not event.stream.startswith("tally.")]
        self.ids = {event.id.hex(): event for event in self.events}

    def everything(self) -> None:
        """All of it; an assertion says what is wrong."""
        found = verify(self.store.log)
        assert found.ok, found.problems
        self.nothing_invented()
        self.nothing_lost()
        self.half_of_nothing()
        if self.store.log.engine != "ndjson":
            self.maintenance()
            self.derived()
        self.model.pending = None
        self.model.acknowledged |= {id_: event.stream for id_, event in self.ids.items()}

    def nothing_invented(self) -> None:
        """Every event was asked for, and is what was asked for unless it was erased."""
        for id_, event in self.ids.items():
            assert id_ in self.model.asked, f"nobody asked for {event}"
            assert event.erased or (event.stream, event.data) == self.model.asked[id_], event

    def nothing_lost(self) -> None:
        """Every acknowledged event is there, or was pruned by somebody who asked for it."""
        for id_, stream in self.model.acknowledged.items():
            assert id_ in self.ids or self._cut(stream) > 0, f"{id_} of {stream} is lost"
            assert id_ in self.ids or self.store.log.pruned(bytes.fromhex(id_)), f"{id_} of {stream} is lost"
        for stream, (seq, link) in self.model.ends.items():
            head = self.store.stream_head(stream)
            assert head is not None
            assert head.seq >= seq, f"{stream} ended at {seq}, now at {head.seq}"
            at = [event.link.hex() for event in self.events if (event.stream, event.seq) == (stream, seq)]
            assert at == [link] or seq <= self._cut(stream), f"another event is at {stream} {seq}"

    def half_of_nothing(self) -> None:
        """An append that was under way is there whole or not at all."""
        under_way = [id_ for _, id_, _ in self.pending.get("events", ())]
        there = sum(id_ in self.ids for id_ in under_way)
        assert there in (0, len(under_way)), f"{there} of {len(under_way)} events of one commit"

    def maintenance(self) -> None:
        """Cuts and erasures are those that were asked for, and all that were acknowledged."""
        asked = (self.pending.get("stream"), self.pending.get("through"), self.pending.get("seq"))
        for stream in {event.stream for event in self.events}:
            wanted = {self.model.cuts.get(stream, 0)} | ({asked[1]} if asked[0] == stream and asked[1] else set())
            assert self._cut(stream) in wanted, f"{stream} is cut at {self._cut(stream)}, not in {wanted}"
            self.model.cuts[stream] = self._cut(stream)
        for event in self.events:
            place = (event.stream, event.seq)
            maybe = place == (asked[0], asked[2])
            assert event.erased == (place in self.model.erased) or maybe, f"{place}: erased {event.erased}"
            self.model.erased |= {place} if event.erased else set()

    def derived(self) -> None:
        """The consumer's place, the commands' responses and a projection's rows are what they must be."""
        places = {self.model.checkpoint} | ({self.pending["position"]} if self.pending["do"] == "checkpoint" else set())
        assert self.store.load_checkpoint(CONSUMER) in places
        self.model.checkpoint = self.store.load_checkpoint(CONSUMER)
        for key, response in self.model.responses.items():
            name = CommandKey(org="", actor="torture", endpoint="place", key=key)
            again = Commands(self.store).run(key=name, request={"key": key}, handler=_never)
            assert again.response == response
        Live(self.store, CustomerBalance()).catch_up()
        rows = {key: row["open"] for key, row in ViewReader(self.store, CustomerBalance().name).items()}
        assert rows == _balances(self.events)

    def _cut(self, stream: str) -> int:
        cut = self.store.cut(stream)
        return 0 if cut is None else cut.through


def _everything(store: Store) -> Iterator[Event]:
    if store.log.engine != "ndjson":
        yield from store.events(over_pruned=True)
        return
    for info in store.log.streams(after="", limit=1000):
        yield from store.log.read_stream(info.stream, after=0, until=None, limit=100_000)


def _never(context: Any) -> Any:
    raise AssertionError("a command that had taken effect was decided again")


def _balances(events: list[Event]) -> dict[str, int]:
    found: dict[str, int] = {}
    for event in events:
        if event.stream in ORDERS:
            sign = {PLACED: 1, PAID: -1}[event.type]
            found[event.data["customer"]] = found.get(event.data["customer"], 0) + sign * event.data["amount"]
    return found


@contextmanager
def writer() -> Iterator[subprocess.Popen[str]]:
    """The process that forks writers."""
    command = [sys.executable, str(Path(__file__).with_name("writer.py"))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        yield process
        process.stdin.close()
        process.wait(timeout=READY_S)


def killed_round(process: subprocess.Popen[str], url: str, dice: random.Random, model: Model) -> int:
    """Let a writer work until it is killed; the model hears what it said. Returns how many lines that were."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{url} {dice.random()}\n")
    process.stdin.flush()
    killer: threading.Timer | None = None
    pid = heard = 0
    for text in process.stdout:
        line = json.loads(text)
        if "gone" in line:
            assert line["gone"] == -signal.SIGKILL, "the writer failed by itself"
            break
        pid = line.get("pid", pid)
        model.hear(line)
        heard += "done" in line
        if pid and killer is None and (heard or dice.random() < 0.3):
            killer = threading.Timer(dice.random() * DELAY_S_MAX, os.kill, (pid, signal.SIGKILL))
            killer.start()
    if killer is not None:
        killer.join()
    return heard


def urls(engine: str, place: Path) -> Iterator[str]:
    """A place for a new store, again and again."""
    for number in itertools.count():
        if engine == "postgres":
            with postgres.database() as url:
                yield url
        else:
            (place / str(number)).mkdir(parents=True)
            yield f"{engine}:{place}/{number}/{'log.db' if engine == 'sqlite' else 'log'}"


def survived(urls: Iterator[str], *, kills: int, seed: int) -> int:
    """Kill writers `kills` times, a new store every few rounds, and check after each; returns the acknowledgements."""
    dice = random.Random(seed)
    total, model, url = 0, Model(), ""
    with writer() as process:
        for number in range(kills):
            if number % ROUNDS_PER_STORE == 0:
                model, url = Model(), next(urls)
            total += killed_round(process, url, dice, model)
            with tallystick.open(url) as store:
                Check(store, model).everything()
    return total

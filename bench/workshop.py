"""Where measuring takes place: a directory, the scale of the run, and the large store that several rows share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import msgspec

import tallystick
from bench import payloads
from tallystick import ANY, NewEvent

STREAM_EVENTS = 50


class Scale(msgspec.Struct, frozen=True):
    """How much is measured. Many short rounds: a disturbance then spoils a few of them, and the best are alike."""

    rounds: int = 15
    batches: int = 15
    tasks_events: int = 200
    singles: int = 1000
    replayed: int = 100_000
    large: int = 1_000_000
    lookups: int = 2000
    sized: int = 20_000

    @property
    def large_note(self) -> str:
        """What a row says when the large store is not the promised size."""
        return "" if self.large >= 1_000_000 else f"--quick: {self.large:,} events instead of 1,000,000"


FULL = Scale()
QUICK = Scale(rounds=6, batches=10, tasks_events=100, singles=400, large=200_000, sized=10_000)


class Workshop:
    """Gives out fresh places, and cleans up. With `keep`, the large store stays there for the next run."""

    def __init__(self, scale: Scale, *, keep: Path | None = None) -> None:
        self.scale = scale
        self.root = Path(tempfile.mkdtemp(prefix="tallystick-bench-"))
        self._keep = keep
        self._places = 0

    def place(self, name: str) -> Path:
        """A path that nobody has used."""
        self._places += 1
        return self.root / f"{self._places}-{name}"

    @contextmanager
    def store(self, engine: str, *, secrets: str = "reject") -> Iterator[tallystick.Store]:
        """A new store, removed afterwards."""
        path = self.place(engine)
        try:
            with tallystick.open(url(engine, path), secrets=secrets) as store:
                yield store
        finally:
            remove(path)

    def large_store(self) -> str:
        """The URL of a closed store with as many events as the scale says; built once."""
        path = (self._keep or self.root) / f"large-{self.scale.large}"
        done = path.with_suffix(".built")
        if not done.exists():
            shutil.rmtree(path, ignore_errors=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            with tallystick.open(f"files:{path}") as store:
                fill(store, self.scale.large)
            done.touch()
        return f"files:{path}"

    def __enter__(self) -> Workshop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def url(engine: str, path: Path) -> str:
    """The URL of a store of this engine at this path."""
    return "memory:" if engine == "memory" else f"{engine}:{path}"


def fill(store: tallystick.Store, count: int) -> None:
    """Append `count` events: streams of fifty events, commits of a thousand that touch a hundred streams."""
    bodies = payloads.orders(1000)
    streams_in_commit, each = 100, 10
    for number in range(count // (streams_in_commit * each)):
        group = number // (STREAM_EVENTS // each) * streams_in_commit
        store.append_all(
            (
                f"order/{group + index}",
                [NewEvent(payloads.TYPE, body) for body in bodies[index::streams_in_commit]],
                ANY,
            )
            for index in range(streams_in_commit)
        )


def remove(path: Path) -> None:
    """Remove a store, be it a directory or a file with companions."""
    if path.is_dir():
        shutil.rmtree(path)
    for companion in path.parent.glob(path.name + "*"):
        companion.unlink()


def bytes_on_disk(path: Path) -> int:
    """The sizes of all files of a store."""
    return sum(os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(path) for name in names)

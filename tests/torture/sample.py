"""The stores that are damaged: everything that a store can hold, closed properly or left by a killed writer.

A sample is built by a child process, so that "killed" is a real SIGKILL. What the store acknowledged is written down
beside it, read from the undamaged store, and is what every damaged copy is compared with.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

import tallystick
from tallystick import NewEvent, Store, state
from tallystick.commands import CommandKey, Commands, Context, Decision
from tallystick.projections import Live, ViewReader
from tallystick.testing.builders import event_id
from tallystick.testing.shop import PAID, PLACED, CustomerBalance, order_event

ENGINES = ("files", "sqlite")
ENDS = ("closed", "killed")
STREAMS = ("order/1", "order/2", "order/3", "account/7", "account/8")
KEY = CommandKey(org="", actor="torture", endpoint="place", key="k-1")
CONSUMER = "mailer"
SEGMENT_BYTES = 6_000
COMPRESS_LATER = 1 << 40  # what is sealed in the second half of a sample stays as it was written


class Sum:
    """A reducer with a step after every event, so that a prune may cut anywhere."""

    name, version = "sum", 1
    step_types = ("booked",)

    def initial(self) -> Any:
        return {"cents": 0, "events": 0}

    def apply(self, value: Any, event: Any) -> Any:
        cents = 0 if event.data is None else event.data.get("cents", 0)
        return {"cents": value["cents"] + cents, "events": value["events"] + 1}


SUM = state.as_reducer(Sum)


class Model(msgspec.Struct, frozen=True):
    """What the undamaged store holds, seen from outside."""

    events: dict[int, tuple[str, int, str, str, str | None]]
    streams: dict[str, tuple[int, str]]
    states: dict[str, Any]
    rows: dict[str, Any]
    checkpoint: int
    response: Any
    head: int


def url_of(engine: str, place: Path) -> str:
    """The URL of the store in a directory."""
    return f"files:{place}/log" if engine == "files" else f"sqlite:{place}/log.db"


def opened(engine: str, place: Path, **options: Any) -> Store:
    """The store of a sample, opened as its owner would."""
    own = {"segment_bytes_max": SEGMENT_BYTES, "compress_bytes_min": COMPRESS_LATER} if engine == "files" else {}
    return tallystick.open(url_of(engine, place), **({} if options.get("readonly") else own), **options)


def made(engine: str, end: str, place: Path) -> Model:
    """Build a sample in `place` and return what it holds."""
    place.mkdir(parents=True)
    command = [sys.executable, __file__, engine, end, str(place)]
    child = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    wanted = -signal.SIGKILL if end == "killed" else 0
    assert child.returncode == wanted, child.stderr
    return msgspec.json.decode((place / "model.json").read_bytes(), type=Model)


def looked_at(store: Store) -> Model:
    """Everything that a reader can ask a store, in one value."""
    events = {
        item.position: (
            item.stream,
            item.seq,
            item.id.hex(),
            item.link.hex(),
            None if item.payload is None else item.payload.decode(),
        )
        for item in store.events(over_pruned=True)
    }
    heads = {stream: store.stream_head(stream) for stream in STREAMS}
    return Model(
        events=events,
        streams={stream: (head.seq, head.link.hex()) for stream, head in heads.items() if head is not None},
        states={stream: state.fold(store, SUM, stream).value for stream in STREAMS},
        rows=dict(ViewReader(store, CustomerBalance().name).items()),
        checkpoint=store.load_checkpoint(CONSUMER),
        response=answer(store),
        head=store.head(),
    )


def answer(store: Store) -> Any:
    """The stored response of a command that was run before."""
    return Commands(store).run(key=KEY, request={"order": 1}, handler=_decide).response


def _decide(context: Context) -> Decision:
    return Decision([("order/1", [order_event(PLACED, amount=7)], tallystick.ANY)], {"accepted": True, "total": 7})


def _begin(place: Path, engine: str) -> None:
    """The first half: in files, a segment that is compressed in the background when it is sealed."""
    own = {"segment_bytes_max": SEGMENT_BYTES, "compress_bytes_min": 0} if engine == "files" else {}
    with tallystick.open(url_of(engine, place), **own) as store:
        _write(store, range(20))
        if engine == "files":
            store.log._compressor.wait()  # type: ignore[attr-defined]


def _write(store: Store, numbers: range) -> None:
    for number in numbers:
        placed = order_event(PLACED if number % 4 else PAID, customer=f"c{number % 5}", amount=9)
        store.append(STREAMS[number % 3], placed)
        note = f"{number} and so on, " * (40 if number % 5 == 0 else 3)
        booked = NewEvent("booked", {"cents": number, "note": note}, id=event_id(number + 1))
        store.append(STREAMS[3 + number % 2], booked)


def _fill(store: Store, place: Path, engine: str) -> None:
    _write(store, range(20, 40))
    store.append_all([(name, [NewEvent("booked", {"cents": 1})], tallystick.ANY) for name in STREAMS])
    answer(store)
    Live(store, CustomerBalance()).catch_up()
    store.save_checkpoint(CONSUMER, store.head())
    state.make(store, SUM, "account/7")
    state.prune(store, "account/7", before=8, reducers=[SUM], accept=True)
    state.erase(store, "account/8", 5, reason="asked for", reducers=[SUM])
    state.seal(store, SUM, "account/8")
    store.acquire_lease("run/a")
    store.append("run/a", NewEvent("begun", {"text": "y" * 200}))
    if engine == "files":
        store.log.reclaim(compress_before=None, progress=lambda done: None)
    for number in range(6):
        store.append("order/1", order_event(PLACED, customer="late", amount=number))
    store.append("order/2", order_event(PLACED, customer="l" * 900, amount=1))


def main(engine: str, end: str, place: Path) -> None:
    """Build one sample; "killed" leaves by SIGKILL after the last acknowledgement."""
    _begin(place, engine)
    store = opened(engine, place)
    _fill(store, place, engine)
    (place / "model.json").write_bytes(msgspec.json.encode(looked_at(store)))
    if end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

"""How far a call walks: `python -m bench.walk` counts calls, files, crossings between files, and depth of common acts.

A crossing is a call from a function in one of our files to a function in another; calls into libraries do not count.
Every act is done once before it is traced, so that imports and caches of the first time are not in the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
from rich.table import Table

import tallystick
from bench import report
from bench.payloads import TYPE
from tallystick import NewEvent

PACKAGE = str(Path(tallystick.__file__).parent)
EVENTS = 4


class Walk(msgspec.Struct):
    """What one act passed."""

    calls: int = 0
    files: int = 0
    crossings: int = 0
    depth: int = 0


class Tracer:
    """Counts calls of our functions, in every thread that begins after `watch`, while it is on."""

    def __init__(self) -> None:
        self._on = False
        self._clear()

    def _clear(self) -> None:
        self._calls, self._crossings, self._depth = 0, 0, 0
        self._seen: set[str] = set()

    def watch(self) -> None:
        """See this thread and those that it starts."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def unwatch(self) -> None:
        """See nothing more."""
        sys.setprofile(None)
        threading.setprofile(None)

    def trace(self, act: Callable[[], object]) -> Walk:
        """Do it, and say how far it went."""
        self._clear()
        self._on = True
        try:
            act()
        finally:
            self._on = False
        return Walk(self._calls, len(self._seen), self._crossings, self._depth)

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        if not self._on or event != "call" or not _is_ours(frame):
            return
        self._calls += 1
        self._seen.add(frame.f_code.co_filename)
        above = list(_ours_above(frame))
        self._depth = max(self._depth, len(above) + 1)
        if above and above[0] != frame.f_code.co_filename:
            self._crossings += 1


def _is_ours(frame: FrameType) -> bool:
    """Whether this is a function of the package: comprehensions and generated methods are part of what holds them."""
    code = frame.f_code
    return code.co_filename.startswith(PACKAGE) and (code.co_name == "<lambda>" or not code.co_name.startswith("<"))


def _ours_above(frame: FrameType) -> Iterator[str]:
    above = frame.f_back
    while above is not None:
        if _is_ours(above):
            yield above.f_code.co_filename
        above = above.f_back


def walks(root: Path) -> dict[str, Walk]:
    """Every act that is measured, by its name."""
    found: dict[str, Walk] = {}
    tracer = Tracer()
    tracer.watch()
    try:
        _of_files(tracer, f"files:{root}/log", found)
        _over_http(tracer, found)
    finally:
        tracer.unwatch()
    return found


def _of_files(tracer: Tracer, url: str, found: dict[str, Walk]) -> None:
    def opened() -> None:
        with tallystick.open(url):
            pass

    with tallystick.open(url) as store:
        store.append("order/1", [NewEvent(TYPE, {}) for _ in range(EVENTS - 2)])
        store.append("order/1", NewEvent(TYPE, {}))
        found["files: append one event"] = tracer.trace(lambda: store.append("order/1", NewEvent(TYPE, {})))
        store.read()
        found["files: read a page"] = tracer.trace(store.read)
        found[f"files: verify {EVENTS} events"] = _twice(tracer, lambda: _verified(store))
    found["files: open and close"] = _twice(tracer, opened)


def _twice(tracer: Tracer, act: Callable[[], object]) -> Walk:
    act()
    return tracer.trace(act)


def _verified(store: tallystick.Store) -> None:
    from tallystick.store.verify import verify

    if not verify(store.log).ok:
        raise RuntimeError("the log that was made for tracing does not verify")


def _over_http(tracer: Tracer, found: dict[str, Walk]) -> None:
    from tallystick.testing.postgres import database

    with ExitStack() as stack:
        ask = stack.enter_context(_client(stack.enter_context(database())))
        found["HTTP: append one event to PostgreSQL"] = _twice(tracer, ask)


@contextmanager
def _client(url: str) -> Iterator[Callable[[], None]]:
    """The service as an ASGI app in this process; the function appends one event."""
    import httpx

    from tallystick.server.app import build
    from tallystick.server.service import open_service
    from tallystick.server.settings import Settings

    app = build(open_service(Settings(url=url)))
    body = {"events": [{"type": TYPE, "payload": {}}]}

    async def ask(client: httpx.AsyncClient) -> None:
        answer = await client.post("/v1/streams/order/1/events", json=body)
        answer.raise_for_status()

    with asyncio.Runner() as runner:
        life = app.router.lifespan_context(app)
        runner.run(life.__aenter__())
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8787")
        try:
            yield lambda: runner.run(ask(client))
        finally:
            runner.run(client.aclose())
            runner.run(life.__aexit__(None, None, None))


def main(arguments: list[str] | None = None) -> int:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.walk", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    from bench.workshop import QUICK, Workshop

    with Workshop(QUICK) as workshop:
        found = walks(workshop.root)
    if options.json:
        print(json.dumps(msgspec.to_builtins(found), indent=2))
        return 0
    table = Table("act", *Walk.__struct_fields__)
    for name, walk in found.items():
        figures: list[Any] = [str(getattr(walk, field)) for field in Walk.__struct_fields__]
        table.add_row(name, *figures)
    report.console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

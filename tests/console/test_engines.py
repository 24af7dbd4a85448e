"""The console over engines that differ: empty, without one order, and with all there is."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

import tallystick
from tallystick import errors, runs
from tallystick.server.app import build
from tallystick.server.service import open_service
from tallystick.server.settings import Settings

from . import shop, stock

PATHS = ("", "/events", "/streams", "/projections", "/snapshots", "/integrity", "/runs", "/community", "/data/overview")
NEXT_STEPS = ("tally append", "tally project", "tally snapshot", "tally run start", "tally community init")


def _pages(url: str, *more: str) -> dict[str, str]:
    """What every page says of a store. In a thread of its own: the browser's driver has an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_asked(url, (*PATHS, *more)))).result()


async def _asked(url: str, paths: tuple[str, ...]) -> dict[str, str]:
    app = build(open_service(Settings(url=url), reducers=[shop.order]))
    found = {}
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
    async with app.router.lifespan_context(app), client:
        for path in paths:
            answer = await client.get(f"/console{path}")
            assert answer.status_code == 200, f"{path}: {answer.text[:500]}"
            found[path] = answer.text
    return found


def test_an_empty_store_says_what_to_do_next() -> None:
    """Every page of an empty store answers, and names a command to begin with."""
    pages = "".join(_pages("memory:").values())
    assert [step for step in NEXT_STEPS if step not in pages] == []


def test_a_store_of_runs_has_its_pages(tmp_path: Path) -> None:
    """RUN-10: a store without a global order (ndjson) shows its runs and leaves out what has no meaning."""
    url = f"ndjson:{tmp_path}/runs"
    with tallystick.open(url) as store, contextlib.suppress(errors.RunFault):
        runs.start(store, shop.week, run="week-46", workspace=str(tmp_path / "workspace"))
    pages = _pages(url, "/runs/week-46", "/streams/run/week-46", "/data/streams/run/week-46/state?seq=3")
    assert "out of ink" in pages["/runs/week-46"]


def test_a_worn_store_of_sqlite_has_its_pages(tmp_path: Path) -> None:
    """EVT-03, EVT-14: a store that was pruned, and in which a payload was erased, shows both."""
    url = f"sqlite:{tmp_path}/log.db"
    with tallystick.open(url) as store:
        named = stock.fill(store, tmp_path, worn=True)
    pages = _pages(url, "/streams/order/1002", f"/events/{named['paid']}", "/streams/payment/5")
    assert "the first 2 were pruned" in pages["/streams/order/1002"]
    assert ">erased<" in pages["/streams/payment/5"]

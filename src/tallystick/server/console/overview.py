"""The overview: rate, lag, size and health, sampled once a second while somebody looks."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any

import msgspec
from starlette.responses import Response

from tallystick import errors
from tallystick.server.console import headline, render, route
from tallystick.server.health import health
from tallystick.server.http.route import HttpRequest
from tallystick.server.sample import Sample, Sampler
from tallystick.server.service import Service

EVERY_SECONDS = 1.0
KEPT = 600
IDLE_SECONDS = 900.0

pages = route.pages()
data = route.data()


class Watch:
    """Samples of one service over the last ten minutes. It runs from the first visit until nobody looks."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sampler = Sampler(service.store, age_seconds=EVERY_SECONDS / 2)
        self._task: asyncio.Task[None] | None = None
        self._asked = 0.0
        self.samples: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self.last: Sample | None = None

    async def look(self) -> None:
        """Take a first sample, and continue to take them."""
        self._asked = time.monotonic()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        if self.last is None:
            await self._take()

    async def _run(self) -> None:
        while not self._service.draining and time.monotonic() - self._asked < IDLE_SECONDS:
            await asyncio.sleep(EVERY_SECONDS)
            if not self._service.draining:
                await self._take()

    async def _take(self) -> None:
        try:
            self.last = await self._service.in_thread(self._sampler.sample)
        except (errors.TallyError, RuntimeError):  # the service stops
            return
        applied = [gauge.lag.position for gauge in self.last.lags if gauge.kind == "projection"]
        self.samples.append(
            {
                "time": time.time(),
                "head": self.last.head,
                "applied": min(applied) if applied else None,
                "lag": max((gauge.lag.events for gauge in self.last.lags if gauge.kind == "projection"), default=0),
                "bytes": self.last.bytes,
            }
        )


@pages.get("")
async def show_overview(request: HttpRequest) -> Response:
    """The first page."""
    service = request.service
    watch = route.of_app(request, "watch", Watch)
    await watch.look()
    now = await service.in_thread(_now, service, watch)
    return await service.in_thread(
        render.page,
        request,
        "overview.html",
        here="",
        title="Overview",
        data={"samples": list(watch.samples)},
        sample=watch.last,
        projections=now["projections"],
        health=now["health"],
        verdict=now["verdict"],
        running=sum(each["kind"] == "projection" for each in now["projections"]),
    )


@data.get("/overview")
async def look(request: HttpRequest, since: float = 0.0) -> Response:
    """The samples since a time, and the state now."""
    service = request.service
    watch = route.of_app(request, "watch", Watch)
    await watch.look()
    now = await service.in_thread(_now, service, watch)
    return render.data({"samples": [each for each in watch.samples if each["time"] > since]} | now)


def _now(service: Service, watch: Watch) -> dict[str, Any]:
    holes = len(service.store.holes())
    lines = _health(service, watch.last)
    return {
        "projections": _lags(watch.last),
        "holes": holes,
        "health": msgspec.to_builtins(lines),
        "verdict": headline.headline(lines),
    }


def _lags(sample: Sample | None) -> list[dict[str, Any]]:
    return [
        {
            "key": f"{gauge.kind} {gauge.name}",
            "name": gauge.name,
            "kind": gauge.kind,
            "events": gauge.lag.events,
            "seconds": gauge.lag.seconds,
            "part": round(100 * gauge.lag.position / gauge.lag.head, 2) if gauge.lag.head else 100,
        }
        for gauge in (sample.lags if sample is not None else ())
    ]


def _health(service: Service, sample: Sample | None) -> list[headline.CheckLine]:
    """One line per check."""
    operations = service.operations
    not_writing = ""
    if service.is_readonly:
        not_writing = "opened for reading" if service.store.log.readonly else "refuses appends while the log is damaged"
    return headline.lines(
        headline.Seen(
            verdict=health(operations),
            lags=sample.lags if sample is not None else (),
            letters=sample.letters if sample is not None else None,
            verified=operations.verified,
            free_bytes=sample.free_bytes if sample is not None else None,
            free_bytes_min=operations.free_bytes_min,
            failures=service.failures,
            not_writing=not_writing,
            failure=sample.failure if sample is not None else "no sample was taken yet",
            scheduler=operations.upkeep.failure if operations.upkeep is not None else "",
            now=service.store.clock(),
        )
    )

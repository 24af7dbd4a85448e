"""Verification of the whole log in the background, and what is known of its soundness without it."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.server.jobs import Job, Progress, halves
from tallystick.server.service import Service
from tallystick.store.verify import verify

TOLD_MAX = 1000


def known(service: Service) -> dict[str, Any]:
    """What is known now: damaged ranges, the engine's problems, the last verification, and the one under way."""
    operations = service.operations
    sample = operations.sampler.sample()
    running = next((job for job in operations.jobs.all() if (job.kind, job.state) == ("verify", "running")), None)
    return {
        "holes": [{"first": hole.first, "last": hole.last, "reason": hole.reason} for hole in service.store.holes()],
        "problems": [msgspec.to_builtins(problem) for problem in sample.problems],
        "verified": msgspec.to_builtins(operations.verified),
        "running": msgspec.to_builtins(running),
    }


def begin_verify(service: Service, *, by: str) -> Job:
    """Verify every frame, checksum, sequence, link and fact."""
    size = service.store.head()

    def work(progress: Progress) -> dict[str, Any]:
        found = verify(service.store.log, progress=halves(progress, size))
        counted = {
            name: getattr(found, name) for name in ("events", "streams", "erased", "pruned", "snapshots", "head")
        }
        problems = [msgspec.to_builtins(problem) for problem in found.problems[:TOLD_MAX]]
        return counted | {"ok": found.ok, "problems": problems, "truncated": found.truncated}

    return service.operations.jobs.begin("verify", work, total=2 * size, by=by)

"""Verification of the whole log in the background."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.server.jobs import Job, Progress, halves
from tallystick.server.service import Service

PROBLEMS_MAX = 1000


def begin_verify(service: Service, *, by: str) -> Job:
    """Start the verification of a store, as `Store.verify` does it."""
    store = service.store
    size = store.head()
    passes = 3 if store.profile.signed else 2

    def work(progress: Progress) -> dict[str, Any]:
        move = halves(progress, size)
        found = store.verify(progress=lambda part, done: move(done))
        counted = {
            name: getattr(found, name) for name in ("events", "streams", "erased", "pruned", "snapshots", "head")
        }
        problems = [msgspec.to_builtins(problem) for problem in found.problems[:PROBLEMS_MAX]]
        result = {
            "ok": found.ok,
            "problems": problems,
            "truncated": found.truncated,
            "unchecked": found.unchecked,
            "unrecorded": found.unrecorded,
        }
        return counted | result

    return service.operations.jobs.begin("verify", work, total=passes * size, by=by)

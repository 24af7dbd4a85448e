"""Verification of the whole log in the background."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.server.jobs import Job, Progress, halves
from tallystick.server.service import Service
from tallystick.store.kept_check import problems_beside
from tallystick.store.store import Store
from tallystick.store.verify import Verification, verify

TOLD_MAX = 1000


def begin_verify(service: Service, *, by: str) -> Job:
    """Verify every frame, checksum, sequence, link and fact, all signatures of a community, and what is beside."""
    store = service.store
    size = store.head()
    signed = store.profile.signed

    def work(progress: Progress) -> dict[str, Any]:
        move = halves(progress, size)
        found = verify(store.log, progress=move)
        unchecked = _add_wrong_signatures(store, found, progress=move) if signed else []
        for problem in problems_beside(store.log):
            found.add(problem)
        counted = {
            name: getattr(found, name) for name in ("events", "streams", "erased", "pruned", "snapshots", "head")
        }
        problems = [msgspec.to_builtins(problem) for problem in found.problems[:TOLD_MAX]]
        told = {
            "ok": found.ok,
            "problems": problems,
            "truncated": found.truncated,
            "unchecked": unchecked,
            "unrecorded": found.unrecorded,
        }
        return counted | told

    return service.operations.jobs.begin("verify", work, total=(3 if signed else 2) * size, by=by)


def _add_wrong_signatures(store: Store, found: Verification, *, progress: Progress) -> list[str]:
    """Add what is wrong with the signatures of a community's log; says what could not be checked, and why."""
    try:
        from tallystick.community import signatures
    except ModuleNotFoundError as missing:
        return [f"signatures: {missing.name} is not installed: pip install 'tallystick[community]'"]
    for problem in signatures.problems(store, progress=progress):
        found.add(problem)
    return []

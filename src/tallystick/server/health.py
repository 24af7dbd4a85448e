"""Whether the store is sound (/health) and whether the service can do its work (/ready), with the reasons if not.

Both are cheap: they check what is known (holes, a poisoned writer, the last verification), the newest event and the
free space. Every caller who reaches the address may ask, so reasons name no path, no stream and no content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.server.sample import Sample

if TYPE_CHECKING:
    from tallystick.server.operations import Operations

HOLDING = frozenset({"stuck appender", "foreign lock"})
CHECKS = ("store", "log", "index", "space", "writer", "verification")


class FailedCheck(msgspec.Struct, frozen=True):
    """One problem: the check that found it, and what to do."""

    check: str
    reason: str


class Verdict(msgspec.Struct, frozen=True):
    """The result of a probe."""

    ok: bool
    reasons: tuple[FailedCheck, ...]
    facts: dict[str, Any]

    @property
    def status(self) -> int:
        """The HTTP status."""
        return 200 if self.ok else 503


def health(operations: Operations) -> Verdict:
    """Whether the store is sound, as far as it is known without reading all of it. Call it in a thread."""
    sample = operations.sampler.sample()
    reasons = (*_of_store(sample), *_of_space(sample, operations.free_bytes_min), *_of_writer(operations))
    reasons += tuple(_of_verification(operations))
    checks = {name: not any(reason.check == name for reason in reasons) for name in CHECKS}
    verified = operations.verified
    facts = {"checks": checks, "head": sample.head, "verified": verified.ended if verified is not None else None}
    return Verdict(not reasons, reasons, facts)


def ready(operations: Operations) -> Verdict:
    """Whether requests are accepted and can be served."""
    sample = operations.sampler.sample()
    reasons = tuple(_of_service(operations))
    if sample.failure:
        reasons += (FailedCheck("store", f"the store does not answer: {sample.failure}"),)
    reasons += (*_of_space(sample, operations.free_bytes_min), *_of_writer(operations), *_of_head(sample))
    if stopped := operations.stopped_projections():
        reasons += (FailedCheck("projections", f"{len(stopped)} do not run; see /v1/projections"),)
    return Verdict(not reasons, reasons, {"head": sample.head, "projections": len(operations.runners())})


def _of_store(sample: Sample) -> Iterator[FailedCheck]:
    if sample.failure:
        yield FailedCheck("store", f"the store does not answer: {sample.failure}")
    if sample.holes:
        yield FailedCheck("log", f"damaged ranges: {sample.holes}; run `tally doctor`")
    reported = {"writer", "hole"} if sample.holes else {"writer"}  # a hole may be recorded although no read meets it
    for what in sorted({problem.what for problem in sample.problems} - reported):
        check = "index" if what == "index" else "log"
        yield FailedCheck(check, f"the engine reports a problem: {what}; run `tally doctor`")


def _of_head(sample: Sample) -> Iterator[FailedCheck]:
    """Appends that hang, or locks of others: readers may miss new events, or nothing can be appended."""
    for what in sorted({problem.what for problem in sample.problems} & HOLDING):
        yield FailedCheck("head", f"the head or the appends are held up: {what}; run `tally doctor`")


def _of_space(sample: Sample, free_bytes_min: int) -> Iterator[FailedCheck]:
    if sample.free_bytes is not None and sample.free_bytes < free_bytes_min:
        yield FailedCheck("space", f"{sample.free_bytes} bytes are free, {free_bytes_min} are needed; free some space")


def _of_writer(operations: Operations) -> Iterator[FailedCheck]:
    sample = operations.sampler.last
    poisoned = sample is not None and any(problem.what == "writer" for problem in sample.problems)
    if poisoned or operations.metrics.failure is not None:
        yield FailedCheck(
            "writer", "the writer stopped after a failed write; restart the service, which recovers the store"
        )


def _of_verification(operations: Operations) -> Iterator[FailedCheck]:
    verified = operations.verified
    if verified is not None and not verified.result["ok"]:
        count = len(verified.result["problems"])
        yield FailedCheck("verification", f"the last verification found {count} problems")


def _of_service(operations: Operations) -> Iterator[FailedCheck]:
    if operations.service.draining:
        yield FailedCheck("service", "it is stopping")
    upkeep = operations.upkeep
    if upkeep is not None and upkeep.failure:
        yield FailedCheck("scheduler", f"it stopped: {upkeep.failure}")

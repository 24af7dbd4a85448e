"""The first lines of the overview: one line per check, and a headline for all of them.

A line is `bad` if somebody must act, `warn` if somebody should look, otherwise `ok`. The headline is as bad as the
worst line. docs/console.md lists the thresholds. What was never checked is never `ok`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tallystick.event import names
from tallystick.projections import Gauge
from tallystick.server.console import display
from tallystick.server.health import Verdict
from tallystick.server.jobs import Job
from tallystick.store.deadletters import LetterCounts

LAG_EVENTS_WARN, LAG_EVENTS_BAD = 1_000, 100_000
LAG_SECONDS_WARN, LAG_SECONDS_BAD = 300, 86_400
VERIFIED_DAYS_WARN = 7
SPACE_TIMES_WARN = 4  # the minimum that is wanted free, so many times
NAMED_MAX = 3

OK, WARN, BAD = "ok", "warn", "bad"
_DAY_NS = 86_400_000_000_000
_SAID = {
    "store": "answers",
    "log": "no damage is known",
    "index": "leads to the newest event",
    "space": "enough is free",
    "writer": "takes appends",
}


class CheckLine(msgspec.Struct, frozen=True):
    """The result of one check."""

    what: str
    state: str
    says: str


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What the lines are computed from. `not_writing` says why appends are refused, if they are.

    `failure` says why the store gave no sample, and `scheduler` why the scheduler stopped.
    """

    verdict: Verdict
    lags: Sequence[Gauge]
    letters: LetterCounts | None = None
    verified: Job | None
    free_bytes: int | None
    free_bytes_min: int
    failures: Mapping[str, str]
    not_writing: str
    failure: str = ""
    scheduler: str = ""
    now: int


def lines(seen: Seen) -> list[CheckLine]:
    """One line per check, in the order of the page."""
    found = [_checked(seen, check) for check in _SAID]
    found += [_verification(seen)]
    if seen.failure:
        found += [CheckLine(what, WARN, "not known: the store did not answer") for what in ("lag", "dead letters")]
    else:
        found += [_lag(seen.lags), _dead_letters(seen)]
    found += [CheckLine("scheduler", BAD, f"it stopped: {seen.scheduler}")] if seen.scheduler else []
    found += [CheckLine(f"projection {name}", BAD, f"its runner stopped: {why}") for name, why in seen.failures.items()]
    return found


def headline(found: Sequence[CheckLine]) -> dict[str, str | bool]:
    """All lines in a few words."""
    bad, warn = (sum(line.state == state for line in found) for state in (BAD, WARN))
    if bad:
        says = f"{bad} {'things need' if bad > 1 else 'thing needs'} you" + (
            f", {warn} more to look at" if warn else ""
        )
    elif warn:
        says = f"{warn} {'things' if warn > 1 else 'thing'} to look at"
    else:
        says = "All is well"
    return {"ok": not bad and not warn, "state": BAD if bad else WARN if warn else OK, "says": says}


def _checked(seen: Seen, check: str) -> CheckLine:
    why = "; ".join(reason.reason for reason in seen.verdict.reasons if reason.check == check)
    if check == "store" and seen.failure:
        return CheckLine(check, BAD, f"the store does not answer: {seen.failure}")
    if why or not seen.verdict.facts["checks"][check]:
        return CheckLine(check, BAD, why)
    if check == "writer" and seen.not_writing:
        return CheckLine(check, WARN, seen.not_writing)
    if check == "space" and seen.free_bytes is not None and seen.free_bytes < SPACE_TIMES_WARN * seen.free_bytes_min:
        wanted = display.size(seen.free_bytes_min)
        return CheckLine(
            check, WARN, f"{display.size(seen.free_bytes)} are free; below {wanted} the service is not healthy"
        )
    return CheckLine(check, OK, _SAID[check])


def _verification(seen: Seen) -> CheckLine:
    what, job = "verification", seen.verified
    if job is None or job.ended is None:
        return CheckLine(what, WARN, "the log was not verified since the service started")
    when = display.ago(job.ended, seen.now)
    count = len(job.result["problems"])
    if not job.result["ok"]:
        return CheckLine(what, BAD, f"it found {count} {'problems' if count > 1 else 'problem'}, {when}")
    if job.result.get("unchecked"):
        return CheckLine(what, WARN, f"not everything could be checked: {'; '.join(job.result['unchecked'])}")
    if seen.now - job.ended > VERIFIED_DAYS_WARN * _DAY_NS:
        return CheckLine(what, WARN, f"it is older than {VERIFIED_DAYS_WARN} days: {when}")
    return CheckLine(what, OK, f"found nothing wrong, {when}")


def _lag(lags: Sequence[Gauge]) -> CheckLine:
    """How far the readers are behind. Our own bookkeeping does not count."""
    damaged = [f"the checkpoint of {gauge.kind} {gauge.name} is damaged" for gauge in lags if gauge.damaged]
    if damaged:
        return CheckLine("lag", BAD, f"{_some(damaged)}; run `tally doctor`")
    readers = [gauge for gauge in lags if not names.is_reserved(gauge.name)]
    behind = [gauge for gauge in readers if _tone(gauge) != OK]
    if not behind:
        return CheckLine("lag", OK, "no reader is far behind" if readers else "nothing follows the log")
    behind.sort(key=lambda gauge: -gauge.lag.events)
    state = BAD if any(_tone(gauge) == BAD for gauge in behind) else WARN
    lines = [f"{gauge.kind} {gauge.name} is {display.count(gauge.lag.events)} events behind" for gauge in behind]
    return CheckLine("lag", state, _some(lines))


def _tone(gauge: Gauge) -> str:
    events, seconds = gauge.lag.events, gauge.lag.seconds
    if not events:
        return OK
    if events >= LAG_EVENTS_BAD or seconds >= LAG_SECONDS_BAD:
        return BAD
    return WARN if events >= LAG_EVENTS_WARN or seconds >= LAG_SECONDS_WARN else OK


def _dead_letters(seen: Seen) -> CheckLine:
    if seen.letters is not None and not seen.letters.whole:
        kept = "an unknown number" if seen.letters.kept is None else display.count(seen.letters.kept)
        found = f"{kept} were kept, and {display.count(seen.letters.found)} are found"
        return CheckLine("dead letters", BAD, f"{found}; `tally deadletters --recount` records it")
    parked = sorted((gauge for gauge in seen.lags if gauge.dead_letters), key=lambda gauge: -gauge.dead_letters)
    if not parked:
        return CheckLine("dead letters", OK, "none")
    named = [f"{display.count(gauge.dead_letters)} of {gauge.name}" for gauge in parked]
    return CheckLine("dead letters", BAD, f"{_some(named)}; `tally deadletters` shows, replays and drops them")


def _some(texts: list[str]) -> str:
    more = len(texts) - NAMED_MAX
    return ", ".join(texts[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")

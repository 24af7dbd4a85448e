"""Mutation testing: make small mistakes in the code, one at a time, and count how many the tests notice."""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from . import forked, named
from .campaign import KILLED, Campaign, Overlay, Result, unsound
from .covering import covering
from .harmless import harmless
from .report import Report, line
from .sites import Site, sites

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".mutants"
PACKAGES = ("event", "store", "state", "engines/files", "engines/sqlite", "projections", "commands")
TESTS = (
    *("tests/event", "tests/store", "tests/contract/test_memory.py", "tests/catalog", "tests/guard", "tests/commands"),
    *("tests/state", "tests/contract/test_sqlite.py", "tests/contract/test_files.py", "tests/projections"),
    *("tests/files", "tests/sqlite", "tests/refill", "tests/property", "tests/docs/test_formats.py"),
    *("tests/filesystem", "tests/cli", "tests/aio", "tests/following", "tests/crash", "tests/acceptance"),
    *("tests/windows_rules", "tests/security", "tests/contract/test_model_memory.py"),
    *("tests/contract/test_model_files.py", "tests/contract/test_model_sqlite.py"),
)
PROGRESS_SECONDS = 60.0
ROUNDS_MAX, MORE = 5, 4  # the budget grows so much from one round to the next


def main() -> int:
    """Sample mutants, run them, print what survived. Status 1 if too few were killed or not all were judged."""
    given = _given()
    sources = [path for name in PACKAGES for path in sorted((ROOT / "src/tallystick" / name).rglob("*.py"))]
    known = covering(ROOT, KEPT, sources, given.tests or TESTS)
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sources}
    found = [site for path, text in texts.items() for site in sites(path, text)]
    chosen = _sample(found, given)
    print(f"{len(chosen):,} of {len(found):,} mutants, {len(known.costs):,} tests", flush=True)
    campaign, bad = Campaign(known, texts, _kept()), list[str]()
    if not given.report:
        bad = _run(campaign, chosen, given)
    results = [result for result in map(campaign.of, chosen) if result is not None]
    sampled = Counter(_package(site) for site in chosen)
    failing = [test for test in bad if "::" in test]
    report = Report(results, {name: sampled[name] for name in PACKAGES if sampled[name]}, harmless(), failing)
    print(*report.lines(), *(each for each in bad if each not in failing), sep="\n")
    return int(bool(bad) or report.rate() < given.rate or not report.whole())


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many mutants (1,000)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same mutants of the same code (1)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=30.0,
        help="processor time of a mutant's first round (30); it grows until all ran",
    )
    parser.add_argument("--only", default="", help="only files whose path contains this")
    parser.add_argument("--line", type=int, help="with --only: only this line, every mutant of it")
    parser.add_argument("--report", action="store_true", help="run nothing, print what is known")
    parser.add_argument("--tests", action="append", help="only these tests, a file or a directory; may be repeated")
    parser.add_argument("--rate", type=float, default=0.9, help="the share that must be killed (0.9)")
    return parser.parse_args()


def _sample(found: Sequence[Site], given: argparse.Namespace) -> list[Site]:
    """Mutants by the hash of their names: each beginning is a fair sample, and a changed line changes only its own."""
    chosen = [site for site in found if given.only in site.path and given.line in (None, site.line)]
    chosen.sort(key=lambda site: hashlib.sha256(f"{given.seed} {site.key}".encode()).digest())
    return chosen if given.line is not None else chosen[: given.count]


def _kept() -> list[Result]:
    """What earlier runs found; the last word counts."""
    file = KEPT / "results.jsonl"
    lines = file.read_bytes().splitlines() if file.exists() else []
    results = [msgspec.json.decode(each, type=Result) for each in lines if each.endswith(b"}")]
    return list({(each.site.key, each.text): each for each in results}.values())


def _run(campaign: Campaign, chosen: Sequence[Site], given: argparse.Namespace) -> list[str]:
    """Judge what is left until nothing is or somebody stops it; return what is wrong with the tests themselves."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, forked.stopped)
    forked.prepare(ROOT)
    overlay = Overlay(ROOT, given.tests or TESTS)
    try:
        bad = [] if given.only or given.tests else list(named.survivors(overlay))
        _rounds(campaign, chosen, overlay, given.seconds)
        results = [result for result in map(campaign.of, chosen) if result is not None]
        killers = sorted({result.test for result in results if result.outcome == KILLED and result.test})
        return bad + unsound(overlay, campaign.tasks(killers))
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return []
    finally:
        overlay.remove()


def _rounds(campaign: Campaign, chosen: Sequence[Site], overlay: Overlay, seconds: float) -> None:
    """Give each mutant so much time of the processor, then those that need it more, until all their tests ran."""
    shown = time.monotonic()
    for _ in range(ROUNDS_MAX):
        left = [site for site in chosen if campaign.open(site)]
        for number, site in enumerate(left):
            result = campaign.judged(site, overlay, seconds)
            _keep(result)
            if result.outcome != KILLED:
                print(line(result), flush=True)
            if time.monotonic() > shown + PROGRESS_SECONDS:
                shown = time.monotonic()
                _progress(campaign, chosen, f"round of {seconds:.0f} s: {number + 1:,} of {len(left):,}")
        seconds *= MORE


def _progress(campaign: Campaign, chosen: Sequence[Site], where: str) -> None:
    ends = Counter(result.outcome for result in map(campaign.last, chosen) if result is not None)
    said = ", ".join(f"{count:,} {end}" for end, count in ends.most_common())
    print(f"{time.strftime('%H:%M')} {where}; {said}; {sum(os.times()[:4]):,.0f} s of the processor", file=sys.stderr)


def _keep(result: Result) -> None:
    with (KEPT / "results.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(result) + b"\n")


def _package(site: Site) -> str:
    return next(name for name in PACKAGES if f"/tallystick/{name}/" in site.path)


if __name__ == "__main__":
    sys.exit(main())

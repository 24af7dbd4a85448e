"""Mutation testing: make small mistakes in the code, one at a time, and count how many the tests notice."""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from pathlib import Path

import msgspec

from .campaign import KILLED, Result, run
from .covering import covering
from .sites import Site, sites

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".mutants"
PACKAGES = ("event", "store", "state", "engines/files", "engines/sqlite", "projections", "commands")
TESTS = (
    *("tests/event", "tests/catalog", "tests/guard", "tests/store", "tests/state", "tests/files", "tests/sqlite"),
    *("tests/projections", "tests/commands", "tests/refill", "tests/property", "tests/docs/test_formats.py"),
    *("tests/contract/test_memory.py", "tests/contract/test_files.py", "tests/contract/test_sqlite.py"),
    *("tests/aio", "tests/cli", "tests/crash", "tests/filesystem", "tests/following", "tests/torture"),
)


def main() -> int:
    """Sample mutants, run them, print what survived. Status 1 if fewer than --rate were killed."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many mutants (1,000)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same mutants of the same code (1)")
    parser.add_argument("--workers", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--only", default="", help="only files whose path contains this")
    parser.add_argument("--line", type=int, help="with --only: only this line, every mutant of it")
    parser.add_argument("--rate", type=float, default=0.9, help="the share that must be killed (0.9)")
    given = parser.parse_args()
    sources = [path for name in PACKAGES for path in sorted((ROOT / "src/tallystick" / name).rglob("*.py"))]
    known = covering(ROOT, KEPT, sources, TESTS)
    found = [site for path in sources for site in sites(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))]
    chosen = [site for site in found if given.only in site.path and given.line in (None, site.line)]
    if given.line is None and given.count < len(chosen):
        chosen = random.Random(given.seed).sample(chosen, given.count)
    print(f"{len(chosen):,} of {len(found):,} mutants", flush=True)
    results = []
    with (KEPT / "results.jsonl").open("w", encoding="utf-8") as file:
        for result in run(ROOT, chosen, known, workers=given.workers):
            results.append(result)
            file.write(json.dumps(msgspec.to_builtins(result)) + "\n")
            file.flush()
            if result.outcome != KILLED:
                print(_line(result), flush=True)
            if len(results) % 50 == 0:
                print(f"{len(results):,} of {len(chosen):,}", file=sys.stderr, flush=True)
    return _summed_up(results, given.rate)


def _line(result: Result) -> str:
    site: Site = result.site
    return f"{result.outcome}: {site.path}:{site.line}: {' '.join(site.before.split())} -> {site.after}"


def _summed_up(results: list[Result], rate: float) -> int:
    total: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    for result in results:
        package = next(name for name in PACKAGES if f"/tallystick/{name}/" in result.site.path)
        total[package] += 1
        killed[package] += result.outcome == KILLED
    for package in total:
        print(f"{package:16} {killed[package]:5} of {total[package]:5} killed ({killed[package] / total[package]:.0%})")
    share = sum(killed.values()) / max(1, len(results))
    print(f"{'all':16} {sum(killed.values()):5} of {len(results):5} killed ({share:.1%})")
    return int(share < rate)


if __name__ == "__main__":
    sys.exit(main())

"""Random damages to closed and killed stores, then kills of a mixed workload. Status 1 if one answer was wrong."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from . import kills, sample
from .campaign import Case, campaign, case, counted, prepared


def main() -> int:
    """Run both campaigns; print every silent damage, and end with what was counted."""
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many damages (10,000)")
    parser.add_argument("--kills", type=int, default=500, help="how many kills per engine (500)")
    parser.add_argument("--engine", choices=kills.ENGINES, help="this engine alone (all)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same damages (1)")
    parser.add_argument("--workers", type=int, default=2, help="how many processes (2)")
    parser.add_argument("--only", type=int, help="run this one damage again, and no kills")
    parser.add_argument("--keep", type=Path, help="with --only: leave the damaged store in this directory")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="torture-") as place:
        engines = kills.ENGINES if given.engine is None else (given.engine,)
        bench = prepared(Path(place) / "samples", tuple(name for name in sample.ENGINES if name in engines))
        if given.only is not None:
            return _reported([case(bench, given.seed, given.only, keep=given.keep)])
        cases = campaign(bench, seed=given.seed, count=given.count, workers=given.workers)
        wrong = _reported(_watched(cases, given.count))
        for engine in engines if given.kills else ():
            done = kills.survived(kills.urls(engine, Path(place) / engine), kills=given.kills, seed=given.seed)
            print(f"{engine}: {given.kills} kills, {done:,} acknowledgements, 0 lost, 0 invented", flush=True)
    return wrong


def _watched(cases: Iterable[Case], count: int) -> list[Case]:
    done: list[Case] = []
    for item in cases:
        done.append(item)
        if item.silent:
            print(f"damage {item.number}: {item.engine}, {item.end}: {item.what}")
            print("".join(f"    {line}\n" for line in item.silent), end="", flush=True)
        if len(done) % 500 == 0:
            print(f"{len(done):,} of {count:,} damages", file=sys.stderr, flush=True)
    return done


def _reported(cases: list[Case]) -> int:
    if len(cases) == 1:
        print(json.dumps({"what": cases[0].what, "silent": cases[0].silent}, indent=2))
    print(json.dumps(counted(cases)))
    return int(any(item.silent for item in cases))


if __name__ == "__main__":
    sys.exit(main())

"""Mutation testing: make small mistakes in the code, one at a time, and count how many the tests notice."""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from . import campaign, forked
from .campaign import BROKEN, KILLED, Result
from .covering import covering
from .harmless import harmless
from .sites import Site, sites

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".mutants"
PACKAGES = ("event", "store", "state", "engines/files", "engines/sqlite", "projections", "commands")
TESTS = (
    *("tests/event", "tests/store", "tests/contract/test_memory.py", "tests/catalog", "tests/guard", "tests/commands"),
    *("tests/state", "tests/contract/test_sqlite.py", "tests/contract/test_files.py", "tests/projections"),
    *("tests/files", "tests/sqlite", "tests/refill", "tests/property", "tests/docs/test_formats.py"),
    *("tests/filesystem", "tests/cli", "tests/aio", "tests/following", "tests/crash"),
)


def main() -> int:
    """Sample mutants, run them, print what survived. Status 1 if fewer than --rate were killed."""
    given = _given()
    sources = [path for name in PACKAGES for path in sorted((ROOT / "src/tallystick" / name).rglob("*.py"))]
    known = covering(ROOT, KEPT, sources, given.tests or TESTS)
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sources}
    found = [site for path, text in texts.items() for site in sites(path, text)]
    chosen = [site for site in found if given.only in site.path and given.line in (None, site.line)]
    if given.line is None and given.count < len(chosen):
        chosen = random.Random(given.seed).sample(chosen, given.count)
    print(f"{len(chosen):,} of {len(found):,} mutants", flush=True)
    kept = _kept(texts)
    done = [kept[site.key] for site in chosen if site.key in kept and not (given.again and _lived(kept[site.key]))]
    judged = {result.site.key for result in done}
    left = sorted((site for site in chosen if site.key not in judged), key=_runs_at_import)
    forked.prepare(ROOT)
    groups, before = given.tests or TESTS, [*kept.values()]
    for result in campaign.run(ROOT, left, known, texts, groups, seconds_max=given.seconds, before=before):
        done.append(result)
        _keep(result)
        if len(done) % 50 == 0:
            print(f"{len(done):,} of {len(chosen):,}", file=sys.stderr, flush=True)
    return _summed_up(done, given.rate, groups)


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many mutants (1,000)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same mutants of the same code (1)")
    parser.add_argument("--seconds", type=float, default=20.0, help="tests of a line up to this time (20)")
    parser.add_argument("--only", default="", help="only files whose path contains this")
    parser.add_argument("--line", type=int, help="with --only: only this line, every mutant of it")
    parser.add_argument("--again", action="store_true", help="run those again that survived")
    parser.add_argument("--tests", action="append", help="only these tests, a file or a directory; may be repeated")
    parser.add_argument("--rate", type=float, default=0.9, help="the share that must be killed (0.9)")
    return parser.parse_args()


def _kept(texts: dict[str, str]) -> dict[str, Result]:
    """What an earlier run found about files that did not change since; the last word counts."""
    file = KEPT / "results.jsonl"
    lines = file.read_bytes().splitlines() if file.exists() else []
    results = [msgspec.json.decode(line, type=Result) for line in lines if line.endswith(b"}")]
    now = {path: campaign.digest_of(text) for path, text in texts.items()}
    return {each.site.key: each for each in results if now.get(each.site.path) == each.text}


def _lived(result: Result) -> bool:
    return result.outcome != KILLED


def _runs_at_import(site: Site) -> bool:
    """What stands outside of functions comes last: it takes a process that imports the package again."""
    return site.scope.rpartition(".")[2][:1].isupper() or site.scope == "module"


def _keep(result: Result) -> None:
    with (KEPT / "results.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(result) + b"\n")
    if _lived(result):
        print(_line(result), flush=True)


def _line(result: Result) -> str:
    site: Site = result.site
    return f"{result.outcome}: {site.path}:{site.line}: {site.key.partition(' ')[2]}"


def _summed_up(results: Sequence[Result], rate: float, groups: Sequence[str]) -> int:
    unsound = campaign.unsound(ROOT, results, groups)
    total: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    known = harmless()
    for result in results:
        package = next(name for name in PACKAGES if f"/tallystick/{name}/" in result.site.path)
        total[package] += 1
        killed[package] += result.outcome == KILLED and result.test not in unsound
    for package in total:
        print(f"{package:16} {killed[package]:5} of {total[package]:5} killed ({killed[package] / total[package]:.0%})")
    alive = [result for result in results if _lived(result)]
    for result in alive:
        print(f"{_line(result)}: {known.get(result.site.key, 'nobody said yet why this is harmless')}")
    for name in unsound:
        print(f"fails on the code as it is, and counts for nothing: {name}")
    share = sum(killed.values()) / max(1, len(results))
    named = sum(result.site.key in known for result in alive)
    print(f"{'all':16} {sum(killed.values()):5} of {len(results):5} killed ({share:.1%}); {named} known to be harmless")
    return int(share < rate or any(result.outcome == BROKEN for result in results))


if __name__ == "__main__":
    sys.exit(main())

"""The campaign: many random damages, each on a fresh copy of a sample, judged in worker processes.

Case `n` of seed `s` is the same in every run, so a case that fails can be looked at alone (`--only N --keep DIR`).
"""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from . import damage, sample
from .judge import Judge
from .sample import Model

CASE_SECONDS_MAX = 120
CASES_PER_POOL = 1000
OPEN_EACH = 5  # so many cases have one that is damaged under a reader


class Case(msgspec.Struct, frozen=True):
    """What one damage was, and what was wrong with the answers."""

    number: int
    engine: str
    end: str
    what: str
    silent: list[str]


class Bench(msgspec.Struct, frozen=True):
    """The samples, each with its model, by engine and end."""

    place: Path
    models: dict[str, Model]


def prepared(place: Path, engines: tuple[str, ...] = sample.ENGINES) -> Bench:
    """Build every sample below `place`."""
    names = [(engine, end) for engine in engines for end in sample.ENDS]
    return Bench(
        place, {f"{engine}-{end}": sample.made(engine, end, place / f"{engine}-{end}") for engine, end in names}
    )


def case(bench: Bench, seed: int, number: int, *, keep: Path | None = None) -> Case:
    """Damage a fresh copy of one sample and judge it."""
    dice = random.Random(f"{seed}/{number}")
    name = sorted(bench.models)[number % len(bench.models)]
    engine, end = name.split("-")
    place = Path(tempfile.mkdtemp(prefix="torture-")) / "store" if keep is None else keep
    try:
        damage.copied(bench.place / name, place)
        signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(CASE_SECONDS_MAX)
        judge, is_open = Judge(engine, place, bench.models[name]), number % OPEN_EACH == 0
        with judge.beside() if is_open else nullcontext():
            what = damage.damaged(place, dice, in_place=is_open)
        silent = judge.judged()
        signal.alarm(0)
        return Case(number, engine, end, f"{what}{' under a reader' if is_open else ''}", silent)
    finally:
        if keep is None:
            shutil.rmtree(place.parent)


def _too_long(*_: Any) -> None:
    raise RuntimeError(f"no answer within {CASE_SECONDS_MAX} s")


def campaign(bench: Bench, *, seed: int, count: int, workers: int) -> Iterator[Case]:
    """All cases of a seed, in worker processes; a worker that dies ends the campaign with an error."""
    for first in range(0, count, CASES_PER_POOL):  # new workers now and then: what a case leaves behind goes with them
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            numbers = range(first, min(count, first + CASES_PER_POOL))
            for item in [pool.submit(case, bench, seed, number) for number in numbers]:
                yield item.result()


def counted(cases: list[Case]) -> dict[str, Any]:
    """How many cases there were of each kind, and how many were silent."""
    kinds = Counter(f"{item.engine} {item.end}" for item in cases)
    return {"cases": len(cases), **dict(sorted(kinds.items())), "silent": sum(bool(item.silent) for item in cases)}

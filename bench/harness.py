"""Measuring: contenders take turns, the best of several rounds counts, and a bar says what is good enough.

Turns matter because a shared machine drifts: two figures taken a minute apart do not make a ratio.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from bench.workshop import Workshop


SETTLE_SECONDS = 0.05


class Bar(msgspec.Struct, frozen=True):
    """What a row has to reach."""

    of: Literal["ratio", "value"]
    op: Literal[">=", "<="]
    figure: float

    def __str__(self) -> str:
        return f"{self.op} {self.figure:,g}{' x' if self.of == 'ratio' else ''}"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table and of the JSON document. A value that could not be measured is None."""

    name: str
    unit: str
    value: float | None
    against: str | None = None
    against_value: float | None = None
    ratio: float | None = None
    bar: Bar | None = None
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the bar is reached. A row that could not be measured misses, whether it has a bar or not."""
        if self.value is None:
            return False
        if self.bar is None:
            return True
        figure = self.ratio if self.bar.of == "ratio" else self.value
        if figure is None:
            return False
        return figure >= self.bar.figure if self.bar.op == ">=" else figure <= self.bar.figure


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A row before it is measured: what is promised, and what is unequal about the comparison."""

    name: str
    unit: str
    against: str | None = None
    bar: Bar | None = None
    note: str = ""
    covers: tuple[str, ...] = ()

    def row(self, value: float, against_value: float | None = None, *, note: str = "") -> Row:
        """The measured row; the ratio is ours over theirs."""
        return Row(
            name=self.name,
            unit=self.unit,
            value=value,
            against=self.against,
            against_value=against_value,
            ratio=value / against_value if against_value else None,
            bar=self.bar,
            note=joined(self.note, note),
        )

    def failed(self, reason: str) -> Row:
        """The row of a measurement that could not be made."""
        return Row(name=self.name, unit=self.unit, value=None, against=self.against, bar=self.bar, note=reason)


Measure: TypeAlias = "Callable[[Workshop], Iterable[Row]]"


class Case(msgspec.Struct, frozen=True):
    """Rows that are measured together."""

    specs: tuple[Spec, ...]
    measure: Measure


def measures(*specs: Spec) -> Callable[[Measure], Case]:
    """Make a case of a function that measures these rows."""
    return lambda measure: Case(specs, measure)


class Samples(msgspec.Struct):
    """What one contender did in each round: rates, or times."""

    figures: list[float] = []

    @property
    def highest(self) -> float:
        """The best rate."""
        return max(self.figures)

    @property
    def lowest(self) -> float:
        """The best time."""
        return min(self.figures)

    @property
    def spread(self) -> str:
        """How far apart the rounds were, for the note."""
        apart = (self.highest - self.lowest) / self.highest if self.highest else 0.0
        return f"best of {len(self.figures)}, rounds {apart:.0%} apart"


def alternate(contenders: Mapping[str, Callable[[], float]], *, rounds: int) -> dict[str, Samples]:
    """Let every contender have one turn a round, so that what disturbs the machine disturbs them all.

    Each round begins with another one, and what the turn before left for the disk is written first: nobody is measured
    in somebody else's wake.
    """
    found = {name: Samples() for name in contenders}
    turns = list(contenders.items())
    for number in range(rounds):
        first = number % len(turns)
        for name, turn in turns[first:] + turns[:first]:
            gc.collect()
            _settle()
            found[name].figures.append(turn())
    return found


def _settle() -> None:
    if hasattr(os, "sync"):  # not on Windows
        os.sync()
    time.sleep(SETTLE_SECONDS)


def rate(count: int, work: Callable[[], object], *, times: int = 1) -> float:
    """How many a second, `work` doing `count` of them each time."""
    started = time.perf_counter()
    for _ in range(times):
        work()
    return count * times / (time.perf_counter() - started)


def latencies_ms(work: Callable[[int], object], *, count: int) -> list[float]:
    """The time of each of `count` calls in ms, sorted."""
    clock = time.perf_counter
    taken = []
    for number in range(count):
        started = clock()
        work(number)
        taken.append((clock() - started) * 1e3)
    return sorted(taken)


def percentile(ascending: list[float], share: float) -> float:
    """The figure that `share` of all do not exceed."""
    return ascending[min(len(ascending) - 1, int(len(ascending) * share))]


def run_cases(cases: Iterable[Case], workshop: Workshop, *, wanted: Callable[[str], bool]) -> Iterator[Row]:
    """Measure every case that has a wanted row. A case that fails yields rows that miss, and the others go on."""
    for case in cases:
        specs = [spec for spec in case.specs if wanted(spec.name)]
        if not specs:
            continue
        try:
            rows = {row.name: row for row in case.measure(workshop)}
        except Exception as problem:
            rows = {spec.name: spec.failed(f"could not be measured: {problem!r}") for spec in specs}
        for spec in specs:
            yield rows[spec.name]


def joined(*notes: str) -> str:
    """Notes in one line."""
    return "; ".join(note for note in notes if note)

"""What a campaign found, by package, and what survived, with the reason where one is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from .campaign import BROKEN, KILLED, NOT_RUN, SURVIVED, UNDECIDED, Result

COLUMNS = ("sampled", "judged", "killed", "harmless", "survived", "no test", "undecided")
UNKNOWN = "nobody said yet why this is harmless"


def line(result: Result) -> str:
    """One mutant, and what became of it."""
    site = result.site
    said = f" ({result.by})" if result.outcome == BROKEN else ""
    return f"{result.outcome}: {site.path}:{site.line}: {site.key.partition(' ')[2]}{said}"


class Report:
    """The results of a sample: those that were tried, out of how many in each package."""

    def __init__(
        self,
        results: Sequence[Result],
        sampled: Mapping[str, int],
        reasons: Mapping[str, str],
        unsound: Collection[str] = (),
    ) -> None:
        self._results, self._sampled, self._reasons, self._unsound = results, sampled, reasons, unsound

    def counts(self, package: str = "") -> Counter[str]:
        """How many of a package came to which end; of all if none is named."""
        total = Counter({"sampled": sum(n for name, n in self._sampled.items() if package in ("", name))})
        for result in self._results:
            if f"/tallystick/{package}" in result.site.path:
                total[self._end(result)] += 1
        total["judged"] = total["killed"] + total["harmless"] + total["survived"] + total["no test"]
        return total

    def _end(self, result: Result) -> str:
        if result.outcome == KILLED:
            return "undecided" if result.test in self._unsound else "killed"
        if result.outcome in (UNDECIDED, BROKEN):
            return "undecided"
        if result.site.key in self._reasons:
            return "harmless"
        return "no test" if result.outcome == NOT_RUN else "survived"

    def rate(self) -> float:
        """The share of those judged that were killed."""
        counts = self.counts()
        return counts["killed"] / max(1, counts["judged"])

    def whole(self) -> bool:
        """Whether every mutant of the sample was judged."""
        counts = self.counts()
        return counts["judged"] == counts["sampled"]

    def lines(self) -> Iterator[str]:
        """The survivors, then the figures."""
        for result in self._results:
            if result.outcome in (SURVIVED, NOT_RUN, UNDECIDED, BROKEN):
                yield f"{line(result)}: {self._reasons.get(result.site.key, UNKNOWN)}"
        for name in self._unsound:
            yield f"fails on the code as it is, and what it killed is undecided: {name}"
        yield f"{'':16}" + "".join(f"{name:>10}" for name in COLUMNS)
        for package in (*self._sampled, ""):
            counts = self.counts(f"{package}/" if package else "")
            counts["sampled"] = self._sampled.get(package, sum(self._sampled.values()))
            yield f"{package or 'all':16}" + "".join(f"{counts[name]:10,}" for name in COLUMNS)
        counts = self.counts()
        rest = max(1, counts["judged"] - counts["harmless"])
        seconds = sum(result.seconds for result in self._results)
        yield f"the tests of the mutants took {seconds:,.0f} s of the processor"
        yield f"killed: {self.rate():.1%} of those judged, {counts['killed'] / rest:.1%} without the harmless ones"

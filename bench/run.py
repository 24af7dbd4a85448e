"""The command: `python -m bench [--quick] [--only PATTERN] [--keep] [--list]`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence

from rich.console import Console

from bench import machine, report
from bench.harness import Case, Row, run_cases
from bench.rows import CASES
from bench.workshop import FULL, QUICK, Workshop

NAME = "bench"


def main(arguments: Sequence[str] | None = None, *, cases: Sequence[Case] = CASES, name: str = NAME) -> int:
    """Measure, print, write; 1 if a bar is missed."""
    options = _parser().parse_args(arguments)
    wanted = _matcher(options.only)
    console = report.console()
    if options.list:
        for case in cases:
            for spec in case.specs:
                console.print(spec.name, style=None if wanted(spec.name) else "dim", highlight=False)
        return 0
    scale = QUICK if options.quick else FULL
    with Workshop(scale, keep=report.OUT if options.keep else None) as workshop:
        described = machine.describe(workshop.root) | {"quick": options.quick}
        rows = _measure(cases, workshop, wanted, console)
    title = f"tallystick on {described['cores']} cores, Python {described['python']}" + " (--quick)" * options.quick
    report.show(rows, console=console, title=title)
    path = report.write(name, described, rows)
    missed = sum(not row.met for row in rows)
    console.print(f"\n{len(rows)} rows, {missed} missed; written to {path}", style="red" if missed else "green")
    return report.exit_status(rows)


def _measure(cases: Sequence[Case], workshop: Workshop, wanted: Callable[[str], bool], console: Console) -> list[Row]:
    found: list[Row] = []
    with console.status("measuring …") as status:
        for case in cases:
            status.update(f"measuring {case.specs[0].name} …")
            found.extend(run_cases([case], workshop, wanted=wanted))
    return found


def _matcher(pattern: str | None) -> Callable[[str], bool]:
    if pattern is None:
        return lambda name: True
    expression = re.compile(pattern, re.IGNORECASE)
    return lambda name: expression.search(name) is not None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure tallystick beside its peers.")
    parser.add_argument("--quick", action="store_true", help="smaller, within two minutes")
    parser.add_argument("--only", metavar="PATTERN", help="only rows whose name matches this regular expression")
    parser.add_argument("--keep", action="store_true", help="keep the large store in bench/out for the next run")
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    return parser


if __name__ == "__main__":
    sys.exit(main())

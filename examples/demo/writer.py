"""The process that will be killed: it appends commits and acknowledges each on standard output.

A line is written after the append has returned, and never before: `first event number, events, already stored`.
"""

from __future__ import annotations

import argparse
import os

import tallystick
from examples.demo import traffic

_STDOUT = 1


def main(arguments: list[str] | None = None) -> None:
    """Append everything from event `--start` on."""
    options = _parser().parse_args(arguments)
    with tallystick.open(options.url) as store:
        for commit in traffic.commits(options.events, seed=options.seed):
            if commit.first < options.start:
                continue
            last = commit.first + len(commit.events) == options.events
            stored = 0 if options.pretend and last else store.append(commit.stream, commit.events).stored
            os.write(_STDOUT, b"%d %d %d\n" % (commit.first, len(commit.events), stored))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.demo.writer")
    parser.add_argument("url")
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--pretend", action="store_true", help="acknowledge the last commit without appending it")
    return parser


if __name__ == "__main__":
    main()

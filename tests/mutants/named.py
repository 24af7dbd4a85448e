"""Mutants that are written down, each with its tests: numbers of the documents that a sample may miss."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from .campaign import Overlay

FILE = Path(__file__).with_name("named.toml")


class Named(msgspec.Struct, frozen=True):
    """A text in a file that becomes another, and the test files of which one has to notice."""

    path: str
    before: str
    after: str
    tests: list[str]

    def changed(self, text: str) -> str:
        """The file with the change; the text is there once."""
        if text.count(self.before) != 1:
            raise ValueError(f"{self.path} has {self.before!r} {text.count(self.before)} times: change {FILE.name}")
        return text.replace(self.before, self.after)


def named() -> list[Named]:
    """Those of `named.toml`."""
    return msgspec.convert(tomllib.loads(FILE.read_text("utf-8"))["mutant"], list[Named])


def survivors(overlay: Overlay) -> Iterator[str]:
    """Run them all; a line for each that no test noticed."""
    for each in named():
        run = overlay.tried(each.path, each.changed, each.tests)
        if run.broke or not run.failed:
            yield f"{each.path}: {each.before} -> {each.after}: {run.broke or 'survived'}"
        else:
            print(f"named: {each.before} -> {each.after}: killed by {run.failed}", flush=True)

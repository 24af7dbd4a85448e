"""Mutants that are known to make no difference, each with the reason: `harmless.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

FILE = Path(__file__).with_name("harmless.toml")


def harmless() -> dict[str, str]:
    """The reason of each, by the key of its site."""
    return {key: why for why, keys in tomllib.loads(FILE.read_text("utf-8")).items() for key in keys}

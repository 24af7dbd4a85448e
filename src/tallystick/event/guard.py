"""The secret guard (stand-in, being written)."""

from __future__ import annotations


def make(mode: str) -> None:
    return None

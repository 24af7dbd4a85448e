"""What a failed specification prints: the expected lines and the found ones, with what differs marked."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def difference(what: str, *, expected: Iterable[Any], found: Iterable[Any]) -> str:
    """Each expected item that was not found as a line with `-`, each that was not expected as one with `+`."""
    lines = difflib.ndiff(list(map(_text, expected)), list(map(_text, found)))
    return "\n".join([f"{what} (- expected, + found)", *(line.rstrip("\n") for line in lines)])


def _text(item: Any) -> str:
    return item if isinstance(item, str) else repr(item)

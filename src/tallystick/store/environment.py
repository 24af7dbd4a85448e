"""Settings from the environment: a number in a variable. An error names the variable."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tallystick import errors


def number(
    variable: str, default: float, *, least: float, most: float, environment: Mapping[str, str] = os.environ
) -> float:
    """The number in a variable, from `least` to `most`; the default if it is not set."""
    text = environment.get(variable)
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if not least <= found <= most:
        raise errors.InvalidValue(what=variable, value=text[:40], must=f"a number from {least:,} to {most:,}")
    return found

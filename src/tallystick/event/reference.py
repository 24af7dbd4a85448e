"""Objects of users by a reference MODULE:NAME, as on the command line."""

from __future__ import annotations

import importlib
from typing import Any

from tallystick import errors


def load(reference: str, *, what: str, example: str) -> Any:
    """The object at MODULE:NAME. The module is imported as any other, which may run code of the user."""
    module_name, colon, name = reference.partition(":")
    if not (module_name and colon and name):
        raise errors.InvalidValue(what=what, value=reference, must=f"MODULE:NAME, such as {example}")
    try:
        return getattr(importlib.import_module(module_name), name)
    except Exception as problem:  # the module may raise anything
        raise errors.NotLoadable(reference=reference, reason=errors.reason_of(problem)) from problem

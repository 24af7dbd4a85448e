"""A projection named as MODULE:NAME, as on the command line."""

from __future__ import annotations

import importlib
from typing import Any

from tallystick import errors
from tallystick.projections import model


def load(reference: str) -> Any:
    """The projection at MODULE:NAME: an instance, or a class that needs no arguments."""
    module_name, colon, name = reference.partition(":")
    if not (module_name and colon and name):
        raise errors.InvalidValue(what="projection", value=reference, must="MODULE:NAME, such as shop.views:Balance")
    try:
        found = getattr(importlib.import_module(module_name), name)
        projection = found() if isinstance(found, type) else found
    except Exception as problem:  # the module is the user's, and may do anything
        reason = f"{type(problem).__name__}: {problem}"
        raise errors.NotLoadable(reference=reference, reason=reason) from problem
    if not isinstance(projection, model.Projection):
        reason = f"it is a {type(projection).__name__}, not a tallystick Projection"
        raise errors.NotLoadable(reference=reference, reason=reason)
    model.check(projection)
    return projection

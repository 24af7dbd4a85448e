"""Loading a projection by a reference MODULE:NAME, as on the command line."""

from __future__ import annotations

import importlib
from typing import Any

from tallystick import errors
from tallystick.projections import model
from tallystick.projections.reasons import reason_of


def load(reference: str) -> Any:
    """The projection at MODULE:NAME: an instance, or a class that needs no arguments."""
    found = named(reference, what="projection")
    try:
        projection = found() if isinstance(found, type) else found
    except Exception as problem:
        raise _not_loadable(reference, problem) from problem
    if not isinstance(projection, model.Projection):
        reason = f"it is a {type(projection).__name__}, not a tallystick Projection"
        raise errors.NotLoadable(reference=reference, reason=reason)
    model.check(projection)
    return projection


def named(reference: str, *, what: str) -> Any:
    """The object at MODULE:NAME. The current directory is searched too."""
    module_name, colon, name = reference.partition(":")
    if not (module_name and colon and name):
        raise errors.InvalidValue(what=what, value=reference, must="MODULE:NAME, such as shop.views:Balance")
    try:
        return getattr(importlib.import_module(module_name), name)
    except Exception as problem:  # importing a user's module may raise anything
        raise _not_loadable(reference, problem) from problem


def _not_loadable(reference: str, problem: Exception) -> errors.NotLoadable:
    return errors.NotLoadable(reference=reference, reason=reason_of(problem))

"""Loading a projection by a reference MODULE:NAME, as on the command line."""

from __future__ import annotations

from typing import Any

from tallystick import errors
from tallystick.event.reference import load as load_object
from tallystick.projections import model


def load(reference: str) -> Any:
    """The projection at MODULE:NAME: an instance, or a class that needs no arguments."""
    found = named(reference, what="projection")
    try:
        projection = found() if isinstance(found, type) else found
    except Exception as problem:
        raise errors.NotLoadable(reference=reference, reason=errors.reason_of(problem)) from problem
    if not isinstance(projection, model.Projection):
        reason = f"it is a {type(projection).__name__}, not a tallystick Projection"
        raise errors.NotLoadable(reference=reference, reason=reason)
    model.check(projection)
    return projection


def named(reference: str, *, what: str) -> Any:
    """The object at MODULE:NAME. The current directory is searched too."""
    return load_object(reference, what=what, example="shop.views:Balance")

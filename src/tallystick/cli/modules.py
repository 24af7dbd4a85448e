"""What a user names as MODULE:NAME. Modules are looked for in the current directory first."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tallystick import Catalog

catalog = click.option("--catalog", metavar="MODULE:NAME", help="The catalog whose upcasters old events pass through.")


def look_here() -> None:
    """Let modules of the current directory be imported."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def projection(reference: str) -> Any:
    """The projection of this name."""
    from tallystick.projections import load

    look_here()
    return load(reference)


def loaded_catalog(reference: str | None) -> Catalog | None:
    """The catalog of this name, if one is named."""
    from tallystick import Catalog

    look_here()
    return None if reference is None else Catalog.load(reference)

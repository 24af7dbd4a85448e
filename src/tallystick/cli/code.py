"""A user's own code on the command line, named MODULE:NAME. Modules are found in the working directory first."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tallystick import Catalog, Store
    from tallystick.state import Reducer

REDUCERS_VARIABLE = "TALLY_REDUCERS"
CATALOG_VARIABLE = "TALLY_CATALOG"
ACTOR_VARIABLE = "TALLY_ACTOR"

reducers = click.option(
    "--reducer",
    "references",
    multiple=True,
    metavar="MODULE:NAME",
    envvar=REDUCERS_VARIABLE,
    help=f"A reducer. May be repeated. Default: ${REDUCERS_VARIABLE}, separated by spaces.",
)
catalog = click.option(
    "--catalog",
    "catalog_reference",
    metavar="MODULE:NAME",
    envvar=CATALOG_VARIABLE,
    help=f"The catalog of event types, for its upcasters. Default: ${CATALOG_VARIABLE}.",
)


def search_here() -> None:
    """Find modules in the working directory, as `python -m` does."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def load_reducers(references: Sequence[str]) -> tuple[Reducer, ...]:
    """The reducers with these names."""
    from tallystick import state

    search_here()
    return state.registry(state.load(reference) for reference in references)


def load_catalog(reference: str | None) -> Catalog | None:
    """The catalog with this name; None if no name is given."""
    from tallystick import Catalog

    if reference is None:
        return None
    search_here()
    return Catalog.load(reference)


def load_projection(reference: str) -> Any:
    """The projection with this name."""
    from tallystick.projections import load

    search_here()
    return load(reference)


def open_store(url: str, catalog_reference: str | None = None, *, readonly: bool) -> Store:
    """The store at this URL, with the user's catalog. Control facts name this person as the actor."""
    import tallystick

    who = None if readonly else {"actor_type": "user", "actor_id": _actor()}
    return tallystick.open(url, readonly=readonly, create=False, catalog=load_catalog(catalog_reference), defaults=who)


def open_shared(url: str, catalog_reference: str | None = None) -> Store:
    """The store, for writing if no other process has it, otherwise read-only. Rows and checkpoints can be written
    either way.
    """
    import tallystick
    from tallystick import errors

    catalog = load_catalog(catalog_reference)
    try:
        return tallystick.open(url, create=False, catalog=catalog)
    except errors.StoreLocked:
        return tallystick.open(url, readonly=True, create=False, catalog=catalog)


def user() -> str:
    """The name of the account; empty if it has none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""


def _actor() -> str:
    """Who is at the command line: TALLY_ACTOR, or the name of the account, or its number."""
    uid = f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
    return os.environ.get(ACTOR_VARIABLE) or user() or uid

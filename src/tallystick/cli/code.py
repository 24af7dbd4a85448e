"""A user's own code on the command line: reducers and catalogs at MODULE:NAME, found from the working directory."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from tallystick import Catalog, Store
    from tallystick.state import Reducer

Command = TypeVar("Command", bound=Callable[..., Any])

REDUCERS_VARIABLE = "TALLY_REDUCERS"
CATALOG_VARIABLE = "TALLY_CATALOG"
ACTOR_VARIABLE = "TALLY_ACTOR"

reducers = click.option(
    "--reducer",
    "references",
    multiple=True,
    metavar="MODULE:NAME",
    envvar=REDUCERS_VARIABLE,
    help=f"A reducer. May be repeated; {REDUCERS_VARIABLE} names them too, with spaces between.",
)
catalog = click.option(
    "--catalog",
    "catalog_reference",
    metavar="MODULE:NAME",
    envvar=CATALOG_VARIABLE,
    help="The catalog of event types, for its upcasters.",
)


def search_here() -> None:
    """Let modules be found from the working directory, as `python -m` does."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def load_reducers(references: Sequence[str]) -> tuple[Reducer, ...]:
    """The reducers that were named."""
    from tallystick import state

    search_here()
    return state.registry(state.load(reference) for reference in references)


def load_catalog(reference: str | None) -> Catalog | None:
    """The catalog that was named."""
    from tallystick import Catalog

    if reference is None:
        return None
    search_here()
    return Catalog.load(reference)


def open_store(url: str, catalog_reference: str | None, *, readonly: bool) -> Store:
    """The store at this place, with the user's catalog. What is done to it is recorded as done by this person."""
    import tallystick

    who = None if readonly else {"actor_type": "user", "actor_id": _actor()}
    return tallystick.open(url, readonly=readonly, create=False, catalog=load_catalog(catalog_reference), defaults=who)


def _actor() -> str:
    """Who is at the command line: TALLY_ACTOR, else the name of the account."""
    named = os.environ.get(ACTOR_VARIABLE)
    if named:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # an account without a name, as in some containers
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"

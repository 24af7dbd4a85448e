"""How a user's code reaches the workers: with the task itself, unless it is installed there.

A module of the user's (not in site-packages) is pickled by value, with everything in it that is used; what it imports
from other modules of the user's goes with it only if that module was carried too.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from tallystick.event.catalog import Catalog


def only_upcasters(catalog: Catalog | None) -> Catalog:
    """A catalog for the way to the workers: upcasters are all that reading needs, and models may not travel."""
    slim = Catalog()
    for type_, entry in (catalog.types if catalog is not None else {}).items():
        for version, upcaster in sorted(entry.upcasters.items()):
            slim.upcaster(type_, from_version=version)(upcaster)
    return slim


def carry(*things: Any) -> None:
    """Let the modules that these come from travel with tasks."""
    for thing in things:
        for module in _modules(thing):
            if not _is_installed(module):
                cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _modules(thing: Any) -> Iterable[ModuleType]:
    """The modules that define a thing: an object's class with its bases, a function, a reducer, a catalog."""
    if isinstance(thing, Catalog):
        for entry in thing.types.values():
            for upcaster in entry.upcasters.values():
                yield from _named(upcaster)
        return
    for part in (thing, getattr(thing, "apply", None), getattr(thing, "initial", None)):
        yield from _named(part)
    for kind in type(thing).__mro__:
        yield from _named(kind)


def _named(part: Any) -> Iterable[ModuleType]:
    module = sys.modules.get(getattr(part, "__module__", None) or "")
    if module is not None and module.__name__ != "__main__":  # that one always travels by value
        yield module


def _is_installed(module: ModuleType) -> bool:
    """Whether every Python of this kind has the module: ours, the standard library's, an installed one."""
    if module.__name__.partition(".")[0] in {"tallystick", "builtins", *sys.stdlib_module_names}:
        return True
    path = getattr(module, "__file__", None) or ""
    return any(path.startswith(sysconfig.get_path(kind)) for kind in ("purelib", "platlib"))

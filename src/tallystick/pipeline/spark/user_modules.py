"""How a user's code reaches the workers: it is sent with the task, unless it is installed there.

A user's module (one outside of site-packages) is pickled by value, with everything it uses, and so are the user's
modules that it imports. A module that a function imports only while it runs must be sent as a file:
`session(py_files=…)`, or `--py-files` on the command line.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

from pyspark import cloudpickle

from tallystick.event.catalog import Catalog

_MAIN = "__main__"


def only_upcasters(catalog: Catalog | None) -> Catalog:
    """A catalog with only the upcasters: reading needs no models, and models may not be picklable."""
    slim = Catalog()
    for type_, entry in (catalog.types if catalog is not None else {}).items():
        for version, upcaster in sorted(entry.upcasters.items()):
            slim.upcaster(type_, from_version=version)(upcaster)
    return slim


def ship_modules(*things: Any) -> None:
    """Send the modules that define these things with every task, and the user's modules that those import."""
    waiting = [module for thing in things for module in _modules(thing)]
    own = {module.__name__ for module in waiting}
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module.__name__ not in seen and not _is_installed(module):
            seen.add(module.__name__)
            waiting += [other for value in list(vars(module).values()) for other in _source_of(value)]
    for name in seen - {_MAIN}:  # that one always travels by value
        cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]
    for name in seen - own - {_MAIN}:
        _unregister_if_unpicklable(sys.modules[name])


def _unregister_if_unpicklable(module: ModuleType) -> None:
    """Do not send a module with a value that cannot be pickled, such as a lock: workers import it, if they have it."""
    try:
        cloudpickle.dumps(module)  # type: ignore[no-untyped-call]
    except Exception:  # whatever its objects raise
        cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _source_of(value: Any) -> Iterable[ModuleType]:
    """The module that a value is, or that defines it."""
    if isinstance(value, ModuleType):
        return [value] if value.__name__ in sys.modules else []
    return _named(value if isinstance(value, (type, FunctionType)) else type(value))


def _modules(thing: Any) -> Iterable[ModuleType]:
    """The modules that define a thing: a function, a reducer, a catalog, or an object's class with its bases."""
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
    if module is not None:
        yield module


def _is_installed(module: ModuleType) -> bool:
    """Whether the workers' Python has the module: our own, one of the standard library, or an installed one."""
    if module.__name__.partition(".")[0] in {"tallystick", "builtins", *sys.stdlib_module_names}:
        return True
    path = getattr(module, "__file__", None) or ""
    return any(path.startswith(sysconfig.get_path(kind)) for kind in ("purelib", "platlib"))

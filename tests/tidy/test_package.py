"""What is installed: the product, and tests that other engines can run, with every file that they open."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def setuptools(root: Path) -> dict[str, Any]:
    """The settings of setuptools."""
    found: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    return found


@pytest.fixture(scope="module")
def packages(root: Path, setuptools: dict[str, Any]) -> set[str]:
    """The packages of a wheel: folders that have an `__init__.py`, inside of such folders."""
    (where,) = setuptools["packages"]["find"]["where"]
    found = {path.parent.relative_to(root / where).parts for path in (root / where).rglob("__init__.py")}
    return {".".join(parts) for parts in found if all(parts[:end] in found for end in range(1, len(parts)))}


def test_only_the_product_is_installed(packages: set[str]) -> None:
    """Examples, benchmarks and our own tests are not installed. The contract for other engines is."""
    assert {name.partition(".")[0] for name in packages} == {"tallystick", "pyspark_tallystick"}
    assert "tallystick.testing.contract" in packages
    assert not {"tallystick.demo", "tallystick.tests", "tallystick.examples"} & packages


def test_every_module_is_installed(root: Path, packages: set[str]) -> None:
    """Every folder with modules has an `__init__.py`. A wheel would leave it out otherwise."""
    folders = {path.parent.relative_to(root / "src") for path in (root / "src").rglob("*.py")} - {Path()}
    assert {".".join(folder.parts) for folder in folders} == packages


def test_every_file_that_a_module_opens_is_installed(root: Path, setuptools: dict[str, Any]) -> None:
    """SQL, schemas, templates and styles are package data."""
    source = root / "src" / "tallystick"
    shipped = {path for pattern in setuptools["package-data"]["tallystick"] for path in source.glob(pattern)}
    others = {path for path in source.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert others - shipped == set()


def test_every_heavy_test_exists(root: Path) -> None:
    """The list of what `make test` leaves out names folders and files that there are."""
    from tests.conftest import HEAVY

    assert [place for place in HEAVY if not (root / place).exists()] == []

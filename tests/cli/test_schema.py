"""`tally schema`: export and check of catalogs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

MODULE = """
from pydantic import BaseModel
from tallystick import Catalog

class Placed(BaseModel):
    total: int{more}

{name} = Catalog()
{name}.register("order.placed", Placed, version=1)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module with a catalog. Each name is used once, because Python keeps modules."""

    def write(name: str, more: str = "") -> str:
        Path(tmp_path, f"{name}.py").write_text(MODULE.format(name=name, more=more))
        return f"{name}:{name}"

    return write


def test_a_catalog_is_exported_as_json_schema(tally, module):
    """LH-02: JSON Schema export of the whole catalog, to stdout or a file."""
    place = module("catalog_one")
    result = tally("schema", "export", place)
    assert result.exit_code == 0
    assert "order.placed" in result.stdout
    assert tally("schema", "export", place, "-o", "schema.json").exit_code == 0
    assert json.loads(Path("schema.json").read_text()) == json.loads(result.stdout)


def test_a_catalog_may_follow_itself(tally, module):
    """A file and the module that it was exported from have no differences."""
    place = module("catalog_two")
    tally("schema", "export", place, "-o", "schema.json")
    result = tally("schema", "check", "schema.json", place)
    assert (result.exit_code, result.stdout[:3]) == (0, "ok:")


def test_a_changed_schema_without_a_version_is_refused(tally, module):
    """LH-01: a new field without default and without a new version is a finding, and exit status 1."""
    tally("schema", "export", module("catalog_old"), "-o", "old.json")
    new = module("catalog_new", more="\n    tax: int")
    result = tally("schema", "check", "old.json", new, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert found["ok"] is False
    assert {"type", "version", "path", "rule", "message"} <= set(found["findings"][0])
    assert "order.placed" in tally("schema", "check", "old.json", new).stdout


@pytest.mark.parametrize("place", ["missing.json", "no_such_module:catalog", "json:nothing", "broken.json"])
def test_a_catalog_that_cannot_be_loaded_is_no_answer(tally, module, place):
    """Exit 2: nothing could be checked."""
    good = module(f"catalog_{abs(hash(place))}")
    Path("broken.json").write_text("{")
    result = tally("schema", "check", place, good)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")

"""A retry by id: what is the same content, and what is another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import errors
from tallystick.testing.builders import named

ENGINES = ("files:{}/log", "sqlite:{}/log.db", "memory:")
EQUAL_IN_PYTHON: list[tuple[Any, Any]] = [(1, True), (1, 1.0), (True, 1.0), (0, False), (0.0, -0.0)]


@pytest.mark.parametrize("url", ENGINES)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [{"deep": value}]], ids=["plain", "deep"])
@pytest.mark.parametrize(("stored", "given"), EQUAL_IN_PYTHON)
def test_meta_that_only_python_holds_for_equal_is_other_content(
    tmp_path: Path, url: str, wrap: Callable[[Any], Any], stored: Any, given: Any
) -> None:
    """Settled 6: an id is unique and its content immutable, to the byte: 1, 1.0 and true are three values."""
    with tallystick.open(url.format(tmp_path), defaults={"app": "shop"}) as store:
        store.append("order/1", named(1, meta={"x": wrap(stored)}))
        for one in (given, given):
            with pytest.raises(errors.DuplicateId):
                store.append("order/1", named(1, meta={"x": wrap(one)}))
        assert store.append("order/1", named(1, meta={"x": wrap(stored)})).stored == 1
        assert store.head() == 1


@pytest.mark.parametrize("url", ENGINES)
def test_another_signature_is_other_content(tmp_path: Path, url: str) -> None:
    """Settled 6: an event that is stored without a signature, or with another one, is not the one that is given."""
    one, two = b"1" * 64, b"2" * 64
    with tallystick.open(url.format(tmp_path)) as store:
        store.append("order/1", named(1))
        store.append("order/1", named(2, signature=one))
        for event in (named(1, signature=one), named(2), named(2, signature=two)):
            with pytest.raises(errors.DuplicateId):
                store.append("order/1", event)
        assert store.append("order/1", [named(1), named(2, signature=one)]).stored == 2
        assert store.head() == 2

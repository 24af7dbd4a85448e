"""Values do not change once they are made, so a reader may keep one and share it with other threads."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator

import msgspec

import tallystick

PARTS = ("event", "store", "state", "engines.files", "engines.sqlite", "projections", "commands")
FILLED_IN_STEPS = {
    "engines.files": {
        "Discovery",
        "FrameDraft",
        "KeepPlan",
        "OpenedLog",
        "Recovery",
        "StreamEntry",
        "SurveyedSegment",
        "_Document",
    },
    "engines.sqlite": {"OpenedStore", "_MetaScope"},
    "event": {"EventType"},
    "state": {"Plan", "State"},
    "store": {"Claims", "Part", "Received", "Request", "RunRows", "Transaction", "Verification", "Write"},
}


def _classes(part: str) -> Iterator[type]:
    package = importlib.import_module(f"tallystick.{part}")
    for found in pkgutil.walk_packages(package.__path__, f"tallystick.{part}."):
        for each in vars(importlib.import_module(found.name)).values():
            if isinstance(each, type) and each.__module__ == found.name:
                yield each


def _can_be_changed(each: type) -> bool:
    if issubclass(each, msgspec.Struct):
        return not each.__struct_config__.frozen
    return dataclasses.is_dataclass(each) and not each.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_only_what_is_filled_in_steps_can_be_changed() -> None:
    """Events, facts, selections, checkpoints, contexts of commands and all the others are frozen."""
    assert tallystick.NewEvent.__struct_config__.frozen
    found = {part: {each.__name__ for each in _classes(part) if _can_be_changed(each)} for part in PARTS}
    assert {part: names for part, names in found.items() if names} == FILLED_IN_STEPS

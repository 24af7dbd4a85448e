"""A donor that does not hold exactly what is missing is refused, and nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, errors
from tallystick.testing import upkeep
from tallystick.testing.builders import text


def test_a_refill_that_lacks_something_changes_nothing(
    lab: Any, damage: Callable[[Path], None], log: Path, export: Path
) -> None:
    """Settled 15: a donor must hold exactly the range; without one event of it nothing is done, and it is named."""
    before = lab.content(log)
    damage(log)
    with tallystick.open(f"files:{log}", readonly=True) as store:
        page = store.read(limit=1000, over_holes=True)
    lost = sorted({event.position for event in before} - {event.position for event in page.events})
    lines = export.read_bytes().splitlines(keepends=True)
    if not lost:
        pytest.skip("no event was lost")
    del lines[lost[len(lost) // 2] - 1]
    export.write_bytes(b"".join(lines))
    image = {path: path.read_bytes() for path in log.rglob("*") if path.is_file()}
    if damage.__name__ in ("damaged_header", "headless_current"):  # every frame of it can still be read
        assert tallystick.refill(f"files:{log}", str(export)).events == 0
        assert lab.content(log) == before
        return
    with pytest.raises(errors.RefillRefused, match=f"positions {lost[len(lost) // 2]} to"):
        tallystick.refill(f"files:{log}", str(export))
    assert image == {path: path.read_bytes() for path in log.rglob("*") if path.is_file()}


def changed(line: bytes, field: str) -> bytes:
    """A line of an export with another value in one field."""
    event = json.loads(line)
    if field == "payload":
        event["payload"]["number"] += 1
    elif field in ("checksum", "link"):
        event[field] = "ab" * 32
    elif field == "id":
        event["id"] = event["id"][:-2] + ("00" if event["id"][-2:] != "00" else "11")
    elif field == "stream":
        event["stream"] = "order/x"
    elif field == "meta":
        event["meta"] = {"tags": ["x"]}
    else:
        event[field] = event[field] + 1
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize("damaged", ["hole_in_the_middle", "missing_segment", "shortened_current"])
@pytest.mark.parametrize("field", ["payload", "checksum", "link", "id", "seq", "stream", "meta", "time", "version"])
def test_a_donor_with_one_changed_event_is_refused(lab: Any, field: str, damaged: str, log: Path, export: Path) -> None:
    """Settled 15: checksum and chain of every event are compared with what is left; nothing is changed."""
    before = lab.content(log)
    lab.damages[damaged](log)
    with tallystick.open(f"files:{log}", readonly=True) as store:
        there = {event.position for event in store.read(limit=1000, over_holes=True).events}
    (first, *_) = [event.position for event in before if event.position not in there]
    lines = export.read_bytes().splitlines(keepends=True)
    lines[first - 1] = changed(lines[first - 1], field)
    export.write_bytes(b"".join(lines))
    image = {path: path.read_bytes() for path in log.rglob("*") if path.is_file()}
    with pytest.raises(errors.RefillRefused):
        tallystick.refill(f"files:{log}", str(export))
    assert image == {path: path.read_bytes() for path in log.rglob("*") if path.is_file()}


def test_another_store_is_refused(lab: Any, log: Path, tmp_path: Path) -> None:
    """Settled 15: a store with other events at these positions does not fit."""
    with tallystick.open(f"files:{tmp_path}/other") as other:
        for number in range(lab.events):
            other.append("order/0", NewEvent("thing.happened", {"number": number}))
    lab.damages["missing_segment"](log)
    with pytest.raises(errors.RefillRefused, match="does not follow"):
        tallystick.refill(f"files:{log}", f"files:{tmp_path}/other")


def test_a_fork_of_the_same_store_is_refused(lab: Any, log: Path, copy: Path) -> None:
    """Settled 15: a copy that went its own way has other events at the end, which our index does not know."""
    with tallystick.open(f"files:{log}") as store:
        store.append("order/new", NewEvent("thing.happened", {"ours": text(500)}))
    with tallystick.open(f"files:{copy}") as store:
        store.append("order/new", NewEvent("thing.happened", {"theirs": text(500)}))
    path = log / "current.log"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(errors.RefillRefused, match="does not know"):
        tallystick.refill(f"files:{log}", f"files:{copy}")


def test_a_damaged_donor_is_refused(lab: Any, log: Path, copy: Path) -> None:
    """Settled 15: a copy that has lost the same range is of no use, and what it has lost is not taken for pruned."""
    with tallystick.open(f"files:{log}") as store:
        upkeep.prune(store, "order/2", 9)
    with tallystick.open(f"files:{copy}") as store:
        upkeep.prune(store, "order/2", 9)
    for directory in (log, copy):
        lab.damages["missing_segment"](directory)
    with pytest.raises(errors.RefillRefused, match="damaged itself"):
        tallystick.refill(f"files:{log}", f"files:{copy}")


def test_a_copy_that_has_pruned_more_is_refused(lab: Any, log: Path, copy: Path) -> None:
    """Settled 15: what is pruned there and not here is missing."""
    with tallystick.open(f"files:{copy}") as store:
        upkeep.prune(store, "order/2", 18)
    with tallystick.open(f"files:{log}") as store:
        upkeep.prune(store, "order/2", 3)
    lab.damages["missing_segment"](log)
    with pytest.raises(errors.RefillRefused, match="does not hold positions"):
        tallystick.refill(f"files:{log}", f"files:{copy}")

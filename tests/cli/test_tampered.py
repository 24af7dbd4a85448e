"""An event that was changed on disk is not printed, exported or folded, and the exit status is 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tallystick
from tallystick.testing.builders import event, event_id
from tallystick.testing.tamper import CHANGES, tamper

READS = (
    ("export",),
    ("read",),
    ("read", "--stream", "run/a"),
    ("state", "run/a", "--reducer", "tallystick.testing.contract.tampered:count"),
)


@pytest.mark.security
@pytest.mark.parametrize("read", READS, ids=" ".join)
def test_a_command_that_meets_a_changed_event_fails(tally: Callable[..., Any], url: str, read: tuple[str, ...]) -> None:
    """SAFE-01: exit status 1, the event is named without its payload, and later commands report it."""
    with tallystick.open(url) as store:
        for number in range(1, 4):
            store.append("run/a", event(number, meta={"app": "web"}, id=event_id(number)))
    tamper(url, "run/a", 2, CHANGES["payload"])
    found = tally(read[0], url, *read[1:])
    assert found.exit_code == 1
    assert "run/a seq 2" in found.stderr
    assert '"n":7' not in found.output
    assert "run/a seq 2" in tally("append", url, "run/a", "thing.happened", "{}").stderr
    assert tally("verify", url).exit_code == 1
    assert tally("doctor", url).exit_code == 1

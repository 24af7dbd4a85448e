"""An event that was changed underneath is not served over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick.testing import postgres
from tallystick.testing.builders import event, event_id
from tallystick.testing.tamper import CHANGES, tamper

WAYS = ("/v1/events?after=1", "/v1/streams/run/a/events?after=1", f"/v1/events/{event_id(2).hex()}")


@pytest.fixture(params=("sqlite", "files", "postgres"))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The place of a store that can be changed underneath."""
    if request.param != "postgres":
        yield f"{request.param}:{tmp_path}/log"
        return
    with postgres.database() as place:
        yield place


@pytest.mark.security
def test_no_route_serves_what_was_changed_underneath(url: str, serve: Callable[..., Any]) -> None:
    """SAFE-01: reading by position, by stream and by id is refused by the name of the event; then appends are, too."""
    with tallystick.open(url) as store:
        for number in range(1, 4):
            store.append("run/a", event(number, meta={"app": "web"}, id=event_id(number)))
    tamper(url, "run/a", 2, CHANGES["payload"])
    served = serve(url)
    for way in WAYS:
        answer = served.client.get(way)
        assert answer.status_code >= 400, way
        assert "positions 2 to 2" in answer.json()["detail"], way
    with served.client.stream("GET", "/v1/follow?after=0") as following:
        said = "".join(following.iter_text())
    assert '"n":7' not in said
    assert "reading failed" in said
    assert "positions 2 to 2" in served.append("run/a", {"n": 5}).json()["detail"]

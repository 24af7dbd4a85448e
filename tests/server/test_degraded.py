"""State over a damaged log, for callers over HTTP: in front of the damage, from a good snapshot, and marked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, state
from tallystick.server.merge import merge


class Count:
    """How many events of each stream there are in the whole store."""

    name = "count"
    version = 1
    scope = "store"

    def initial(self) -> dict[str, Any]:
        """None yet."""
        return {}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """One more."""
        return found | {event.stream: event.seq}


def noted(of: int, org: str = "acme") -> NewEvent:
    """An event of an org."""
    return NewEvent("noted", {"of": of}, meta={"org": org})


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    """Two commits with snapshots of the store and of a stream behind them, and a third with a flipped bit."""
    url = f"files:{tmp_path}/log"
    with tallystick.open(url) as store:
        store.append("order/1", noted(1))
        store.append("order/2", noted(2))
        state.make(store, state.as_reducer(Count))
        state.make(store, merge, "order/1")
        store.append("order/1", noted(40_404))
    path = tmp_path / "log" / "current.log"
    data = bytearray(path.read_bytes())
    data[data.index(b"40404")] ^= 1
    path.write_bytes(data)
    return url


@pytest.mark.parametrize("index", ["whole", "gone"])
def test_a_damaged_log_is_answered_from_snapshots_if_that_is_asked_for(
    damaged: str, tmp_path: Path, serve: Callable[..., Any], index: str
) -> None:
    """LH-16, settled 15: 503 without `degraded`; with it the answer says that it is, why, and where it stops."""
    if index == "gone":
        (tmp_path / "log" / "index" / "current.idx").unlink()
    client = serve(damaged, reducers=[Count]).client
    for path, position, wanted in (
        ("/v1/state?reducer=count", 2, {"order/1": 1, "order/2": 1}),
        ("/v1/streams/order/1/state?reducer=merge", 1, {"of": 1}),
    ):
        refused = client.get(path)
        assert (refused.status_code, refused.json()["code"]) == (503, "damaged")
        answer = client.get(f"{path}&degraded=true").json()
        assert (answer["state"], answer["position"], answer["degraded"]) == (wanted, position, True)
        assert (answer["events_folded"], len(answer["snapshot"])) == (0, 32)
        assert "damaged" in answer["damage"]
    whole = client.get("/v1/state?reducer=count&position=1&degraded=true").json()
    assert (whole["state"], whole["degraded"], whole["damage"]) == ({"order/1": 1}, False, "")


def test_a_tenant_is_refused(damaged: str, serve: Callable[..., Any], book: Any) -> None:
    """LH-16, CP-10: what is lost may belong to another org. A tenant gets no state of the whole store."""
    running = serve(damaged, reducers=[Count], tokens=book(tenant=("tenant", "acme"), operator=("admin", None)))
    with running.as_("tenant") as client:
        assert client.get("/v1/streams/order/1/state?degraded=true").json()["code"] == "damaged"
        assert client.get("/v1/state?reducer=count&position=1").status_code == 404
    with running.as_("operator") as client:
        assert client.get("/v1/state?reducer=count&degraded=true").json()["degraded"] is True

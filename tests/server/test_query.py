"""What stands after `?`: no parameter is passed over, and the control-plane document's names work."""

from __future__ import annotations

from typing import Any

import pytest

import tallystick
from tallystick import NewEvent


@pytest.fixture
def served(serve: Any) -> Any:
    """Events of two orgs, read over HTTP."""
    store = tallystick.open("memory:")
    for org, type_ in (("acme", "opened"), ("beta", "opened"), ("acme", "closed"), ("acme", "moved")):
        store.append(f"account/{org}", NewEvent(type_, {}, meta={"org": org, "app": "shop", "env": "live"}))
    return serve(store)


def positions(served: Any, query: str) -> list[int]:
    answer = served.client.get(f"/v1/events?{query}")
    assert answer.status_code == 200, answer.text
    return [event["position"] for event in answer.json()["events"]]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("after_event_id=2&limit=1", "after=2&limit=1"),
        ("org_id=acme&event_type=opened", "org=acme&type=opened"),
        ("event_type=opened&event_type=closed", "type=opened&type=closed"),
        ("app_id=shop&env_id=live&after_event_id=3", "app=shop&env=live&after=3"),
    ],
)
def test_the_names_of_the_control_plane_mean_ours(served: Any, theirs: str, ours: str) -> None:
    """CP-09: `after_event_id` and the names of the control plane select and page like our own names."""
    assert positions(served, theirs) == positions(served, ours) != positions(served, "")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/streams/account/acme/events?after_event_id=1",
        "/v1/streams?after_event_id=1",
        "/v1/events?orgs=acme",
        "/v1/events?after=1&after=2",
        "/v1/streams?afer=x",
        "/v1/store?x",
        "/v1/audit?orgs=",
    ],
)
def test_a_parameter_that_is_not_known_is_refused(served: Any, path: str) -> None:
    """SAFE-05: a misspelt filter does not return everything; the refusal names it and the known ones."""
    answer = served.client.get(path)
    assert answer.status_code == 422
    assert "query parameter" in answer.text


def test_an_append_takes_no_parameters(served: Any) -> None:
    """SAFE-05: an expectation in the URL would be ignored, so it is refused, and nothing is written."""
    body = {"events": [{"type": "opened", "payload": {}}]}
    answer = served.client.post("/v1/streams/account/acme/events?expected=1", json=body)
    assert answer.status_code == 422
    assert "expected" in answer.text
    assert positions(served, "after=4") == []


def test_infrastructure_needs_no_org_in_a_control_plane(serve: Any) -> None:
    """CP-03, CP-10: kinds that `serve --infrastructure` declares do not belong to tenants, so they need no org."""
    served = serve(tallystick.open("memory:", profile="control-plane"), infrastructure=("cluster",))
    body = {"events": [{"type": "node.added", "payload": {}}]}
    assert served.client.post("/v1/streams/cluster/c1/events", json=body).status_code in (200, 201)
    refused = served.client.post("/v1/streams/app/a1/events", json=body)
    assert refused.status_code == 422
    assert "org" in refused.text

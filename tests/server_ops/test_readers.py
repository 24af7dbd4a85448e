"""Retiring projections and consumers over HTTP, while the service runs."""

from __future__ import annotations

import tallystick
from tallystick.projections import Live
from tallystick.testing.shop import PLACED, CustomerBalance, OrderTotals, order_event


def _stocked(url: str) -> None:
    with tallystick.open(url) as store:
        store.append("order/1", [order_event(PLACED) for _ in range(5)])
        Live(store, OrderTotals()).catch_up()
        store.save_checkpoint("mails/daily", 2)


def test_an_abandoned_projection_is_dropped(serve, tmp_path):
    """CP-07, CP-13: an abandoned projection is listed, dropped, and recorded; a second drop is a 404."""
    url = f"files:{tmp_path / 'log'}"
    _stocked(url)
    running = serve(url)
    assert [each["name"] for each in running.get("/v1/projections")["projections"]] == ["OrderTotals"]
    done = running.client.post("/v1/projections/OrderTotals/drop", json={"reason": "unused"})
    assert (done.status_code, done.json()["position"]) == (200, 5)
    assert running.get("/v1/projections")["projections"] == []
    assert running.client.post("/v1/projections/OrderTotals/drop", json={}).status_code == 404
    (fact,) = running.get("/v1/audit")["events"]
    assert (fact["type"], fact["payload"]["reason"]) == ("tally.projection.dropped", "unused")
    assert fact["meta"]["actor_id"] == "local"


def test_a_projection_that_the_service_runs_is_not_dropped(serve):
    """CP-13: its runner would write its rows again at once, so it is refused by name."""
    running = serve(projections=[CustomerBalance()])
    (found,) = running.until("/v1/projections", lambda answer: answer["projections"][0]["running"])["projections"]
    refused = running.client.post(f"/v1/projections/{found['name']}/drop", json={})
    assert (refused.status_code, refused.json()["code"]) == (409, "reader_runs")


def test_a_consumer_is_reset_and_dropped(serve, tmp_path):
    """CP-07: by name in the body, because a name may contain anything; an unknown one is a 404."""
    url = f"files:{tmp_path / 'log'}"
    _stocked(url)
    running = serve(url)
    (found,) = running.get("/v1/consumers")["consumers"]
    assert (found["name"], found["position"], found["lag_events"]) == ("mails/daily", 2, 3)
    done = running.client.post("/v1/consumers/reset", json={"name": "mails/daily", "position": 4})
    assert (done.status_code, done.json()["before"], done.json()["position"]) == (200, 2, 4)
    assert running.get("/v1/consumers")["consumers"][0]["position"] == 4
    wrong = running.client.post("/v1/consumers/reset", json={"name": "mails/daily", "position": 99})
    assert wrong.status_code == 422
    assert running.client.post("/v1/consumers/drop", json={"name": "mails/daily"}).status_code == 200
    assert running.get("/v1/consumers")["consumers"] == []
    assert running.client.post("/v1/consumers/drop", json={"name": "mails/daily"}).status_code == 404
    assert [fact["type"] for fact in running.get("/v1/audit")["events"]] == [
        "tally.consumer.reset",
        "tally.consumer.dropped",
    ]

"""Operating a service over PostgreSQL, where any number of processes write."""

from __future__ import annotations

import tallystick
from tallystick.projections import Live
from tallystick.server.tokens import Tokens
from tallystick.testing.postgres import database
from tallystick.testing.shop import PLACED, OrderTotals


def test_a_service_over_postgres_is_watched_and_operated_alike(serve):
    """CP-13, CP-14: lag, size and growth, a rebuild and a verification, and tokens that another process issued."""
    with database() as url:
        running = serve(url, projections=[OrderTotals()])
        running.append("order/1", *({"customer": "c", "amount": 1} for _ in range(20)), type=PLACED)
        running.until("/v1/projections", lambda answer: answer["projections"][0]["lag_events"] == 0)
        assert running.finished(running.client.post("/v1/projections/OrderTotals/rebuild"))["state"] == "done"
        assert running.finished(running.client.post("/v1/integrity/verify"))["result"]["ok"] is True
        running.service.operations.sampler.sample(fresh=True)
        page = running.client.get("/metrics").text
        assert "tally_log_growth_events_per_day 20.0" in page
        assert 'tally_lag_events{kind="projection",name="OrderTotals"} 0.0' in page
        assert running.client.get("/health").status_code == 200
        with tallystick.open(url) as elsewhere:
            assert Live(elsewhere, OrderTotals()).lag().events == 0
            issued = Tokens(elsewhere).issue("admin", actor="root")
        running.until("/v1/jobs", lambda answer: answer.get("status") == 401)
        bearer = {"authorization": f"Bearer {issued.secret}"}
        assert running.client.get("/v1/jobs", headers=bearer).status_code == 200
        running.stop()

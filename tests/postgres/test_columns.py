"""What SQL users find: the control plane's columns, its indexes, payloads by field, sizes."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tallystick import NewEvent, Selection, Store
from tallystick.testing.builders import event

Connect = Callable[..., psycopg.Connection[Any]]

META = {
    "actor_type": "user",
    "actor_id": "u-1",
    "org": "acme",
    "app": "web",
    "env": "prod",
    "request_id": "r-1",
    "idempotency_key": "k-1",
    "correlation_id": "deploy-1",
    "causation_id": "0199b000-0000-7000-8000-000000000001",
}


def test_the_control_planes_fields_are_columns(reopen: Callable[..., Store], connect: Connect) -> None:
    """CP-02, CP-03, settled 1: event_id is the position, aggregate_seq the seq, and every field of v1 is there."""
    store = reopen(profile="control-plane")
    time_ns = 1_760_000_000_123_456_000
    done = store.append("service/api", NewEvent("service.deployed", {"replicas": 3}, meta=META, time=time_ns))
    rows = connect("tally_app").cursor(row_factory=psycopg.rows.dict_row)
    (row,) = rows.execute("SELECT * FROM tally.control_plane_events").fetchall()
    assert row == {
        "event_id": done.position,
        "occurred_at": datetime.datetime.fromtimestamp(1_760_000_000.123456, datetime.UTC),
        "aggregate_type": "service",
        "aggregate_id": "api",
        "aggregate_seq": 1,
        "event_type": "service.deployed",
        "event_version": 1,
        "actor_type": "user",
        "actor_id": "u-1",
        "org_id": "acme",
        "app_id": "web",
        "env_id": "prod",
        "request_id": "r-1",
        "idempotency_key": "k-1",
        "correlation_id": "deploy-1",
        "causation_id": "0199b000-0000-7000-8000-000000000001",
        "payload": {"replicas": 3},
    }


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("SELECT * FROM tally.events WHERE position > 5 ORDER BY position LIMIT 3", "events_pkey"),
        ("SELECT * FROM tally.events WHERE stream = 'a/b' ORDER BY seq DESC LIMIT 1", "events_by_stream"),
        ("SELECT * FROM tally.events WHERE org = 'acme' AND position > 5 ORDER BY position LIMIT 3", "events_by_org"),
        ("SELECT * FROM tally.events WHERE type = 't' AND position > 5 ORDER BY position LIMIT 3", "events_by_type"),
        ("SELECT * FROM tally.events WHERE id = '0199b000-0000-7000-8000-000000000001'", "events_by_id"),
    ],
)
def test_the_recommended_indexes_answer(store: Store, connect: Connect, query: str, index: str) -> None:
    """CP-03: each recommended access path has its index, without a sort."""
    connection = connect("tally_app")
    for path in ("seqscan", "bitmapscan", "sort"):
        connection.execute(f"SET enable_{path} = off")
    plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {query}").fetchall())
    assert index in plan
    assert "Sort" not in plan


def test_payloads_can_be_asked_by_field(store: Store, connect: Connect) -> None:
    """CP-03: payloads are stored as the text they are, and their fields can be selected and indexed."""
    for number in range(5):
        store.append("order/a", NewEvent("order.placed", {"customer": f"c{number}", "total": number / 2, "é": "☃"}))
    connection = connect()
    connection.execute("CREATE INDEX by_customer ON tally.events (((payload::jsonb) ->> 'customer'))")
    query = "SELECT seq, payload FROM tally.events WHERE (payload::jsonb) ->> 'customer' = 'c3'"
    (row,) = connection.execute(query).fetchall()
    assert row == (4, '{"customer":"c3","total":1.5,"é":"☃"}')


def test_an_audit_by_org_and_time_keeps_the_order(store: Store) -> None:
    """CP-09, CP-15: the events of one org in a window of time come in order of position, not of time."""
    for number, org in enumerate(["acme", "bolt"] * 10):
        store.append(f"order/{org}", event(number, meta={"org": org, "app": "web", "env": "prod"}, time=1000 - number))
    wanted = Selection(
        org="acme", app="web", env="prod", types=frozenset({"thing.happened"}), time_from=985, time_until=997
    )
    found = list(store.events(selection=wanted))
    assert [item.data["n"] for item in found] == [4, 6, 8, 10, 12, 14]
    assert [item.position for item in found] == sorted(item.position for item in found)


def test_corrections_are_new_labelled_events(store: Store) -> None:
    """CP-12: a correction comes after the event that it corrects and names it; the corrected event is unchanged."""
    wrong = store.append("order/a", event(1))
    first = store.read_stream("order/a")[0]
    meta = {"causation_id": str(first.uuid), "tags": {"label": "correction"}}
    store.append("order/a", NewEvent("thing.corrected", {"n": 2}, meta=meta))
    stored = store.read_stream("order/a")
    assert stored[0] == first
    assert (stored[1].metadata["tags"], stored[1].position > wrong.position) == ({"label": "correction"}, True)


def test_the_report_shows_size_and_growth(store: Store) -> None:
    """CP-14: the report has the size of the table and its indexes, the number of events, and their rate."""
    store.append("order/a", [event(number) for number in range(500)])
    facts = store.report().facts
    assert facts["table_bytes"] > 100_000
    assert facts["index_bytes"] > 10_000
    assert facts["events_head"] == 500
    assert facts["events_per_day"] > 0
    assert (facts["role"], facts["streams"], facts["appending"]) == ("tally_app", 1, [])

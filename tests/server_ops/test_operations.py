"""Operating over HTTP: projections, snapshots, retention, integrity, tokens."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

import tallystick
from tallystick.cli.main import tally
from tallystick.projections import Consumer, Live, Projection
from tallystick.server import tokens
from tallystick.server.tokens import Tokens
from tallystick.state import reducer
from tallystick.testing.shop import PLACED, CustomerBalance, OrderTotals, order_event


@reducer(name="count", version=1)
def count(state: dict[str, Any], event: Any) -> dict[str, Any]:
    """How many events there were."""
    return {"count": state.get("count", 0) + 1}


class Broken(Projection):
    """A projection that cannot take anything."""

    types = (PLACED,)

    def initial(self) -> Any:
        return {}

    def apply(self, state: Any, event: Any) -> Any:
        raise ValueError("no")


# --- projections -----------------------------------------------------------------------------------------------------


def test_projections_run_live_and_show_their_lag(serve, tmp_path):
    """CP-13: the service keeps its projections current, and reports position and lag of each, and of consumers."""
    url = f"files:{tmp_path / 'log'}"
    with tallystick.open(url) as store:
        store.append("order/1", [order_event(PLACED) for _ in range(20)])
        Consumer(store, "mails", lambda event: None).step(until=5)
    running = serve(url, projections=[OrderTotals()])
    found = running.until("/v1/projections", lambda answer: answer["projections"][0]["lag_events"] == 0)
    assert found["projections"][0] | {"position": 20, "running": True} == found["projections"][0]
    (consumer,) = found["consumers"]
    assert (consumer["name"], consumer["position"], consumer["lag_events"]) == ("mails", 5, 15)
    assert consumer["lag_seconds"] > 0


def test_a_projection_is_rebuilt_with_progress(serve):
    """CP-13: a rebuild runs in the background with progress, and the rows are then those of a new epoch."""
    running = serve(projections=[OrderTotals(), CustomerBalance()])
    for _ in range(3):
        running.append("order/1", *({"customer": "c", "amount": 1} for _ in range(100)), type=PLACED)
    before = running.until("/v1/projections", lambda answer: answer["projections"][1]["lag_events"] == 0)
    name = before["projections"][1]["name"]
    job = running.finished(running.client.post(f"/v1/projections/{name}/rebuild"))
    assert (job["state"], job["done"], job["total"]) == ("done", 300, 300)
    after = running.get("/v1/projections")["projections"][1]
    assert after["epoch"] > before["projections"][1]["epoch"]
    assert (after["lag_events"], after["rebuild"]) == (0, job["id"])


def test_only_a_registered_projection_can_be_rebuilt(serve):
    """Only the code of a projection can rebuild its rows; another name is a 404."""
    assert serve().client.post("/v1/projections/nothing/rebuild").status_code == 404


class Renewed(OrderTotals):
    """The projection of the shop in a newer version, under the same name."""

    name = "OrderTotals"
    version = 2


def test_a_rebuild_starts_a_runner_that_had_stopped(serve, tmp_path):
    """CP-13: rows of an older definition stop the runner; after a rebuild it follows the log again."""
    url = f"files:{tmp_path / 'log'}"
    with tallystick.open(url) as store:
        store.append("order/1", [order_event(PLACED) for _ in range(5)])
        Live(store, OrderTotals()).catch_up()
    running = serve(url, projections=[Renewed()])
    (found,) = running.until("/v1/projections", lambda answer: answer["projections"][0]["failure"])["projections"]
    assert found["running"] is False
    assert running.finished(running.client.post("/v1/projections/OrderTotals/rebuild"))["state"] == "done"
    running.append("order/1", {"customer": "c", "amount": 1}, type=PLACED)
    (found,) = running.until("/v1/projections", lambda answer: answer["projections"][0]["lag_events"] == 0)[
        "projections"
    ]
    assert (found["running"], found["failure"]) == (True, None)


def test_a_projection_that_fails_is_reported_and_the_service_continues(serve):
    """CP-13: its reason is listed with its lag, and readiness reports that a projection does not run."""
    running = serve(projections=[Broken()])
    running.append("order/1", {"customer": "c", "amount": 1}, type=PLACED)
    (found,) = running.until("/v1/projections", lambda answer: answer["projections"][0]["failure"])["projections"]
    assert (found["running"], found["lag_events"]) == (False, 1)
    assert running.append("order/1", {"customer": "c", "amount": 1}).status_code == 201
    ready = running.client.get("/ready")
    assert (ready.status_code, ready.json()["reasons"][0]["check"]) == (503, "projections")
    assert "no" not in ready.json()["reasons"][0]["reason"].split(), "an open answer must not quote anybody's code"


# --- snapshots and retention -----------------------------------------------------------------------------------------


def test_snapshots_are_made_listed_protected_and_checked(serve):
    """LH-17: each step over HTTP, for a stream and for the whole store."""
    running = serve(reducers=[count])
    for name in ("a", "b", "c"):
        running.append(f"note/{name}", {"n": 1})
    made = running.finished(running.client.post("/v1/snapshots", json={"stream": "note/a"}))
    (entry,) = made["result"]["snapshots"]
    assert (entry["stream"], entry["reducer"], entry["protected"]) == ("note/a", "count", False)
    assert running.finished(running.client.post("/v1/snapshots"))["state"] == "done"
    protected = running.client.post(f"/v1/snapshots/{entry['id']}/protect", json={"protected": True})
    assert protected.json()["protected"] is True
    assert running.get("/v1/snapshots", params={"stream": "note/a"})["snapshots"][0]["protected"] is True
    assert running.get(f"/v1/snapshots/{entry['id']}")["problem"] is None
    checked = running.finished(running.client.post("/v1/snapshots/verify"))
    assert checked["result"] == {"ok": True, "problems": []}


def test_snapshots_are_listed_page_by_page(serve):
    """Every page continues where the one before ended, and each snapshot is listed once."""
    running = serve(reducers=[count])
    for name in range(5):
        running.append(f"note/{name}", {"n": 1})
        running.finished(running.client.post("/v1/snapshots", json={"stream": f"note/{name}"}))
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = running.get("/v1/snapshots", params={"after": after, "limit": 2})
        seen += [entry["stream"] for entry in page["snapshots"]]
        after = page["next"]
    assert seen == [f"note/{name}" for name in range(5)]


def test_a_damaged_snapshot_is_named(serve, tmp_path):
    """A body that was changed on disk is found by checking one snapshot and by checking all."""
    running = serve(reducers=[count])
    running.append("note/a", {"n": 1})
    made = running.finished(running.client.post("/v1/snapshots", json={"stream": "note/a"}))
    (body,) = (tmp_path / "log" / "snapshots").glob("*.snap")
    body.write_bytes(body.read_bytes()[:-1] + b"x")
    assert "damaged" in running.get(f"/v1/snapshots/{made['result']['snapshots'][0]['id']}")["problem"]
    checked = running.finished(running.client.post("/v1/snapshots/verify"))
    assert (checked["result"]["ok"], len(checked["result"]["problems"])) == (False, 1)


def test_retention_says_what_it_would_do_and_does_nothing(serve, tmp_path, monkeypatch):
    """The dry run names what would be pruned, what not and why; the log does not change."""
    monkeypatch.setenv("TALLY_PRUNE_DAYS", "0.000000001")
    running = serve(reducers=[count])
    running.append("note/a", {"n": 1}, {"n": 2})
    running.append("note/b", {"n": 1})
    running.finished(running.client.post("/v1/snapshots", json={"stream": "note/a"}))
    head = running.get("/v1/store")["head"]
    job = running.finished(running.client.post("/v1/retention"))
    deeds = {deed["stream"]: deed for deed in job["result"]["deeds"]}
    assert (deeds["note/a"]["count"], deeds["note/a"]["why_not"]) == (2, "")
    assert "no snapshot" in deeds["note/b"]["why_not"]
    store = running.get("/v1/store")
    assert (store["head"], store["floor"]) == (head, 0)
    assert running.get("/v1/retention")["dry_run"]["id"] == job["id"]


class Shelf:
    """An archive that holds the streams named here, and nothing else."""

    through = 1 << 40
    witness: ClassVar[dict] = {}

    def __init__(self, *streams):
        self.streams = streams

    def why_not(self, events):
        """Why it could not give these back."""
        lacking = [event.stream for event in events if event.stream not in self.streams]
        return f"it does not hold {lacking[0]}" if lacking else None


def test_with_an_archive_only_what_it_holds_is_pruned(serve, monkeypatch):
    """LH-17: a dry run and a real one, over HTTP. The archive is opened again each time."""
    monkeypatch.setenv("TALLY_PRUNE_DAYS", "0.000000001")
    opened = []

    def open_archive(store):
        opened.append(store)
        return Shelf("note/a")

    running = serve(reducers=[count], archive=open_archive)
    for name in ("a", "b"):
        running.append(f"note/{name}", {"n": 1}, {"n": 2})
        running.finished(running.client.post("/v1/snapshots", json={"stream": f"note/{name}"}))
    for dry_run in (True, False):
        job = running.finished(running.client.post("/v1/retention", json={"dry_run": dry_run}))
        deeds = {deed["stream"]: deed for deed in job["result"]["deeds"]}
        assert (deeds["note/a"]["count"], deeds["note/a"]["why_not"]) == (2, "")
        assert deeds["note/b"]["why_not"].startswith("it does not hold note/b")
    pruned = {name: running.get(f"/v1/streams/note/{name}")["pruned_through"] for name in ("a", "b")}
    assert pruned == {"a": 2, "b": 0}
    assert len(opened) >= 3


def test_a_missing_archive_is_reported_before_anything_listens(tmp_path):
    """LH-17: `tally serve --archive` with a place that has no archive ends at once, and names the place."""
    given = ["serve", f"files:{tmp_path}/log", "--archive", f"{tmp_path}/none", "--port", "0"]
    done = CliRunner().invoke(tally, given, prog_name="tally")
    assert done.exit_code == 2
    assert f"{tmp_path}/none" in done.stderr


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/snapshots", {"stream": "note/none"}, 404),
        ("/v1/snapshots", {"stream": "not a name"}, 422),
        ("/v1/snapshots", {"reducer": "none"}, 404),
        ("/v1/snapshots", {"more": 1}, 422),
        ("/v1/snapshots", [], 422),
        ("/v1/snapshots/00/protect", {}, 404),
        (f"/v1/snapshots/{'0' * 32}/protect", {"protected": True}, 404),
        ("/v1/snapshots/zz/protect", {"protected": 1}, 422),
        ("/v1/retention", {"dry_run": "yes"}, 422),
        ("/v1/tokens", {"kind": "king", "actor": "x"}, 422),
        ("/v1/tokens", {"kind": "tenant", "actor": "x"}, 422),
        ("/v1/tokens/none/revoke", {}, 404),
    ],
    ids=str,
)
def test_orders_that_make_no_sense_are_refused(serve, path, body, status):
    """What does not exist is 404, what does not fit is 422, and nothing is 500."""
    assert serve().client.post(path, json=body).status_code == status


# --- integrity -------------------------------------------------------------------------------------------------------


def test_a_sound_log_is_verified_in_the_background(serve):
    """LH-17: everything is checked, the result is kept, and health says when it was."""
    running = serve()
    running.append("note/a", *({"n": n} for n in range(50)))
    job = running.finished(running.client.post("/v1/integrity/verify"))
    assert (job["result"]["ok"], job["result"]["events"], job["done"]) == (True, 50, job["total"])
    assert running.get("/v1/integrity")["verified"]["id"] == job["id"]
    assert running.get("/health")["verified"] == job["ended"]


def test_a_damaged_log_is_found_and_health_says_so(serve, tmp_path):
    """LH-17: a flipped byte that no read has met is found by verification; after that /health answers 503."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    running = serve(url)
    running.append("note/a", *({"n": n} for n in range(50)))
    assert running.client.get("/health").status_code == 200
    flip(tmp_path / "log.db", running)
    job = running.finished(running.client.post("/v1/integrity/verify"))
    assert job["result"]["ok"] is False
    health = running.client.get("/health")
    assert health.status_code == 503
    assert {reason["check"] for reason in health.json()["reasons"]} >= {"verification"}
    assert health.json()["checks"]["verification"] is False


def flip(path: Path, running: Any) -> None:
    """Change the payload of one event behind the back of everything that guards it."""
    connection = sqlite3.connect(path)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    table = "events"
    connection.execute(f"UPDATE {table} SET payload = CAST('{{\"n\":999}}' AS BLOB) WHERE position = 25")
    connection.commit()
    connection.close()


# --- profiling -------------------------------------------------------------------------------------------------------


def test_a_running_service_tells_where_its_time_goes(serve):
    """LH-17: folded stacks of every thread, including the writer's, with only names of code."""
    running = serve()
    running.append("note/a", {"text": "payload-mark"})
    job = running.finished(running.client.post("/v1/profile", json={"seconds": 0.2}))
    stacks = job["result"]["stacks"]
    assert (job["done"], job["result"]["looks"]) == (20, 20)
    assert any(line.startswith("tallystick-writer;") and "writer_thread.py:_run" in line for line in stacks)
    assert sum(stacks.values()) >= 20
    assert "payload-mark" not in json.dumps(job)


@pytest.mark.parametrize("seconds", [0, -1, 61, 1e308, "5"])
def test_a_profile_is_bounded_in_time(serve, seconds):
    """Nobody can have all threads profiled permanently."""
    assert serve().client.post("/v1/profile", json={"seconds": seconds}).status_code == 422


# --- tokens ----------------------------------------------------------------------------------------------------------


def test_tokens_are_issued_and_revoked_over_http(serve):
    """CP-10: after the first token every caller needs one; a revoked one is refused at once."""
    running = serve()
    issued = running.client.post("/v1/tokens", json={"kind": "admin", "actor": "root"})
    assert (issued.status_code, issued.headers["cache-control"]) == (201, "no-store")
    root = {"authorization": f"Bearer {issued.json()['token']}"}
    assert running.client.get("/v1/tokens").status_code == 401
    writer = running.client.post("/v1/tokens", json={"kind": "writer", "actor": "billing"}, headers=root).json()
    bearer = {"authorization": f"Bearer {writer['token']}"}
    assert running.append("note/a", {"n": 1}, headers=bearer).status_code == 201
    assert running.client.get("/v1/tokens", headers=bearer).status_code == 403
    listed = running.client.get("/v1/tokens", headers=root)
    assert [token["accepted"] for token in listed.json()["tokens"]] == [True, True]
    assert writer["token"] not in listed.text
    assert running.client.post(f"/v1/tokens/{writer['id']}/revoke", headers=root).status_code == 200
    assert running.append("note/a", {"n": 2}, headers=bearer).status_code == 401


def test_a_token_revoked_by_another_process_is_refused_by_the_service(serve, tmp_path):
    """CP-10: the operator's command takes effect in a running service."""
    url = f"sqlite:{tmp_path / 'log.db'}"
    running = serve(url)
    with tallystick.open(url) as store:
        book = Tokens(store)
        issued = book.issue("admin", actor="root")
        bearer = {"authorization": f"Bearer {issued.secret}"}
        running.until("/v1/jobs", lambda answer: answer.get("status") == 401)
        assert running.client.get("/v1/jobs", headers=bearer).status_code == 200
        book.revoke(issued.token.id)
    deadline = time.monotonic() + 20
    while running.client.get("/v1/jobs", headers=bearer).status_code != 401:
        assert time.monotonic() < deadline
        time.sleep(tokens.FRESH_SECONDS / 5)


def test_the_actor_who_issued_a_token_is_in_the_audit_trail(serve):
    """The control fact names who asked for it, and contains no secret."""
    running = serve()
    root = running.client.post("/v1/tokens", json={"kind": "admin", "actor": "root"}).json()["token"]
    headers = {"authorization": f"Bearer {root}"}
    other = running.client.post("/v1/tokens", json={"kind": "writer", "actor": "x"}, headers=headers).json()["token"]
    audit = running.client.get("/v1/audit", headers=headers)
    assert [event["meta"]["actor_id"] for event in audit.json()["events"]] == ["local", "root"]
    assert root not in audit.text
    assert other not in json.dumps(audit.json())


def test_operating_needs_an_admin(serve):
    """CP-10: a writer and a tenant are refused by every route for operators; probes are open."""
    running = serve()
    secrets = [
        running.service.tokens.issue("writer", actor="w").secret,
        running.service.tokens.issue("tenant", actor="t", org="acme").secret,
    ]
    gets = (
        "metrics",
        "v1/projections",
        "v1/consumers",
        "v1/snapshots",
        "v1/integrity",
        "v1/retention",
        "v1/jobs",
        "v1/tokens",
    )
    posts = (
        "v1/snapshots",
        "v1/snapshots/verify",
        "v1/integrity/verify",
        "v1/retention",
        "v1/profile",
        "v1/projections/x/rebuild",
        "v1/projections/x/drop",
        "v1/consumers/drop",
        "v1/consumers/reset",
    )
    for secret in secrets:
        headers = {"authorization": f"Bearer {secret}"}
        assert {running.client.get(f"/{path}", headers=headers).status_code for path in gets} == {403}
        assert {running.client.post(f"/{path}", headers=headers).status_code for path in posts} == {403}
    assert {running.client.get(f"/{path}").status_code for path in gets} == {401}
    assert {running.client.get(f"/{path}").status_code for path in ("health", "ready")} == {200}

"""A restored backup gives positions out again: a cursor of before is refused everywhere, and skips nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import tallystick
from tallystick import NewEvent
from tests.server.conftest import Book, Served, serving

pytestmark = pytest.mark.security

KEPT, LOST = 6, 3


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Serves stores for one test."""
    with serving() as start:
        yield start


def last_id(client: httpx.Client, query: str, *, alive: bool) -> str:
    """The id that a follower is left with after what is there: of a message, or of a sign of life."""
    id_ = ""
    with client.stream("GET", f"/v1/follow?{query}") as answer:
        lines = answer.iter_lines()
        for line in lines:
            if line.startswith("id: "):
                id_ = line[4:]
                if id_.startswith(f"{KEPT + LOST}.") and (not alive or next(lines) == ""):
                    return id_
    raise AssertionError(id_)


def cursors(served: Served) -> dict[str, str]:
    """A cursor of every kind that a service gives out, all at the head."""
    found = {}
    with served.as_("t") as tenant, served.as_("root") as root:
        for name, path in (
            ("page", "/v1/events"),
            ("filtered", "/v1/events?type=never"),
            ("empty", f"/v1/events?after={KEPT + LOST}"),
            ("audit", "/v1/audit"),
        ):
            found[name] = root.get(path).json()["cursor"]
        found["tenant"] = tenant.get("/v1/events").json()["cursor"]
        found["again"] = tenant.get("/v1/events", params={"after": found["tenant"]}).json()["cursor"]
        found["message"] = last_id(root, "after=0", alive=False)
        found["beat"] = last_id(root, "after=0&type=never", alive=True)
        found["own"] = last_id(root, f"after={KEPT + LOST}", alive=True)
    return found


@pytest.mark.parametrize("engine", ["files", "sqlite"])
@pytest.mark.parametrize("reuse", [0, LOST - 1, LOST + 4], ids=["none", "some", "past"])
def test_cursors_of_what_a_restore_undid_are_refused(serve: Any, tmp_path: Path, engine: str, reuse: int) -> None:
    """CP-07: a cursor of another history is refused by every route, whatever route gave it; older ones stay valid."""
    place, backup = tmp_path / "log", tmp_path / "backup"
    url = f"{engine}:{place}/log"
    place.mkdir()
    book = Book(t=("tenant", "acme"), root=("admin", None))
    with tallystick.open(url) as store:
        store.append("order/1", [NewEvent("noted", {"n": n}, meta={"org": "acme"}) for n in range(KEPT)])
    shutil.copytree(place, backup)
    served = serve(url, tokens=book, limits={"heartbeat_seconds": 0.05})
    with served.as_("root") as root:
        good = root.get("/v1/events").json()["cursor"]
        for _ in range(LOST):
            body = {"events": [{"type": "noted", "payload": {}, "meta": {"org": "beta"}}]}
            assert root.post("/v1/streams/order/lost/events", json=body).status_code == 201
    given = cursors(served)
    served.stop()
    shutil.rmtree(place)
    shutil.copytree(backup, place)
    with tallystick.open(url) as store:
        for n in range(reuse):
            store.append("order/other", NewEvent("noted", {"n": n}, meta={"org": "acme"}))
    again = serve(url, tokens=book)
    with again.as_("root") as root:
        for kind, cursor in given.items():
            for path in ("/v1/events", "/v1/audit", "/v1/follow", "/console/data/tail"):
                headers = {"last-event-id": cursor} if path.endswith(("follow", "tail")) else {}
                answer = root.get(path, params={} if headers else {"after": cursor}, headers=headers)
                where = (kind, path, answer.text[:200])
                if path.startswith("/console"):
                    assert answer.status_code != 200, where
                else:
                    assert answer.status_code == 409, where
                    assert answer.json()["code"] in ("wrong_store", "position_ahead"), where
        assert len(root.get("/v1/events", params={"after": good}).json()["events"]) == reuse


def test_a_cursor_says_nothing_of_others(serve: Any) -> None:
    """CP-10: a tenant's cursor may point at an event of another org, but shows neither its link nor its hash."""
    served = serve(tokens=Book(t=("tenant", "acme"), any=("writer", None)))
    served.append("note/1", {"text": "mine"}, token="any", meta={"org": "acme"})
    link = served.append("note/2", {"pin": "1234"}, token="any", meta={"org": "beta"}).json()["link"]
    with served.as_("t") as client:
        page = client.get("/v1/events").json()
        assert page["through"] == 2
        assert page["cursor"] == served.service.store.cursor(2)
        assert link not in page["cursor"]
        assert bytes.fromhex(link)[:4].hex() not in page["cursor"]
        assert client.get("/v1/events", params={"after": page["cursor"]}).json()["events"] == []

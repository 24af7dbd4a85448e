"""A community that is served: peers sync with it, and it tells how it stands."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tallystick
from tallystick.cli.main import tally
from tallystick.community import config as places
from tallystick.server import gossip


def run(*arguments: str, stdin: str | None = None) -> Any:
    """`tally community …` in this process: the JSON that it printed."""
    done = CliRunner().invoke(tally, ["community", *arguments], input=stdin, prog_name="tally")
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return lines[0] if len(lines) == 1 else lines


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a new community in it."""
    monkeypatch.chdir(tmp_path)
    run("init", "a", "--name", "Club", "--json")
    return tmp_path / "a"


def test_a_peer_joins_and_syncs_with_a_service(serve, place, tmp_path):
    """COM-09: the endpoints of gossip are mounted; after a round both have the same fingerprint, without any token."""
    running = serve(f"sqlite:{place / 'log.db'}")
    running.service.tokens.issue("admin", actor="root")
    invited = running.service.operations.community.status()["events"]
    invitation = run("invite", "a", "--address", running.address)
    run("join", "b", "-", "--allow-private", "--json", stdin=json.dumps(invitation))
    run("sync", "b", "--json")
    run("append", "b", "chat.message.sent", '{"text":"hi"}', "--json")
    run("sync", "b", "--json")
    mine = run("status", "b", "--json")
    secret = running.service.tokens.issue("admin", actor="root").secret
    told = running.client.get("/v1/community", headers={"authorization": f"Bearer {secret}"}).json()
    assert (told["fingerprint"], told["events"]) == (mine["fingerprint"], mine["events"])
    assert (len(told["members"]), told["events"] > invited) == (2, True)


def test_an_unsigned_request_is_refused(serve, place):
    """COM-09: what is mounted is open only to peers; the response is the community's own, with our headers."""
    running = serve(f"sqlite:{place / 'log.db'}")
    answer = running.client.get("/sync/v1/heads")
    assert answer.status_code == 403
    assert "content-security-policy" in answer.headers
    assert running.client.post("/sync/v1/events", json={}).status_code == 403
    assert running.client.post("/sync/v1/heads").status_code == 405


def test_bodies_that_stall_keep_no_peer_out(serve, place):
    """COM-09: whose a request is, is known from its head: 60 that nobody signed are refused while they stall, and a
    member is answered meanwhile."""
    running = serve(f"sqlite:{place / 'log.db'}")
    invitation = run("invite", "a", "--address", running.address)
    run("join", "b", "-", "--allow-private", "--json", stdin=json.dumps(invitation))
    host, port = running.address.removeprefix("http://").split(":")
    stalled = [socket.create_connection((host, int(port))) for _ in range(60)]
    try:
        for each in stalled:
            each.sendall(b"POST /sync/v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{")
        assert "failed" not in run("sync", "b", "--json")
        assert stalled[0].recv(100).startswith(b"HTTP/1.1 403")
    finally:
        for each in stalled:
            each.close()


def test_without_a_community_nothing_is_mounted(serve):
    """Another log has no such paths, not even for an administrator."""
    running = serve()
    for path in ("/sync/v1/heads", "/v1/community"):
        assert running.client.get(path).status_code == 404


def test_a_damaged_community_is_reported_before_anything_listens(place):
    """`tally serve` reports the problem and exits with 2, instead of serving the log without its peers."""
    (place / "community.json").write_text("{")
    done = CliRunner().invoke(tally, ["serve", f"sqlite:{place / 'log.db'}", "--port", "0"], prog_name="tally")
    assert (done.exit_code, "community.json is damaged" in done.stderr) == (2, True)


def test_a_log_is_a_community_only_where_one_was_made(tmp_path):
    """The file next to the log decides, and a damaged one is refused by name."""
    assert gossip.directory_of(f"sqlite:{tmp_path / 'log.db'}") is None
    (tmp_path / "community.json").write_text("{}")
    assert gossip.directory_of(f"sqlite:{tmp_path / 'log.db'}") == tmp_path
    assert gossip.directory_of(f"files:{tmp_path / 'log.db'}") is None
    assert gossip.directory_of(f"sqlite:{tmp_path / 'other.db'}") is None


def test_the_daily_snapshot_keeps_the_one_that_the_log_begins_with(serve, place, monkeypatch):
    """COM-10: pruning after a snapshot never removes the snapshot that the log needs to be opened."""
    running = serve(f"sqlite:{place / 'log.db'}")
    invitation = run("invite", "a", "--address", running.address, "--snapshot")
    run("join", "b", "-", "--allow-private", "--json", stdin=json.dumps(invitation))
    community = serve(f"sqlite:{place.parent / 'b' / 'log.db'}").service.operations.community
    real, kept = community._snapshots.prune, []  # what the upkeep uses too

    def prune(number: int, *, keep: Any = ()) -> None:
        kept.extend(keep)
        real(1, keep=keep)

    monkeypatch.setattr(community._snapshots, "prune", prune)
    community.upkeep.daily()
    base = places.read(place.parent / "b").base
    assert base is not None
    assert base in kept
    assert base in community._snapshots.list()


@pytest.fixture
def befriended(serve, place) -> Any:
    """Two members: `a` with `b` as its peer, which is served; `a` is not, and was backed up before its last event."""
    first = serve(f"sqlite:{place / 'log.db'}")
    invitation = run("invite", "a", "--address", first.address)
    run("join", "b", "-", "--allow-private", "--json", stdin=json.dumps(invitation))
    run("sync", "b", "--json")
    first.stop()
    other = serve(f"sqlite:{place.parent / 'b' / 'log.db'}")
    key = run("status", "b", "--json")["node"]
    run("sync", "a", "--peer", f"{key}@{other.address}", "--allow-private", "--json")
    shutil.copytree(place, place.parent / "backup")
    run("append", "a", "chat.message.sent", '{"text":"after the backup"}', "--json")
    return other


def test_what_a_command_writes_next_to_the_service_is_sent_on_at_once(serve, place, befriended):
    """COM-09: an event that was written offline reaches the peers of a served node without waiting for a round."""
    here = serve(f"sqlite:{place / 'log.db'}")
    here.until("/v1/community", lambda told: "result" in told["peers"][0])
    before = befriended.get("/v1/community")["events"]
    run("append", "a", "chat.message.sent", '{"text":"now"}', "--offline", "--json")
    befriended.until("/v1/community", lambda told: told["events"] == before + 1)


def test_a_peer_that_cannot_be_called_does_not_affect_the_others(serve, place, befriended):
    """COM-09: unreadable certificates, or a refused address, affect only that peer."""
    written = json.loads((place / "community.json").read_text())
    written["peers"].insert(0, {"url": "ftp://127.0.0.1", "key": written["peers"][0]["key"][::-1]})
    (place / "community.json").write_text(json.dumps(written))
    here = serve(f"sqlite:{place / 'log.db'}")
    peers = here.until("/v1/community", lambda told: "result" in told["peers"][1])["peers"]
    assert "failed" in peers[0]


def test_a_served_node_trusts_the_authorities_that_were_written_down(serve, place, befriended):
    """COM-09: as `tally community` does. An invalid file is reported, and the peer is not called without it."""
    written = json.loads((place / "community.json").read_text()) | {"tls_ca": str(place / "none.pem")}
    (place / "community.json").write_text(json.dumps(written))
    here = serve(f"sqlite:{place / 'log.db'}")
    told = here.until("/v1/community", lambda told: "at" in told["peers"][0])
    assert "none.pem" in told["peers"][0]["failed"]


def test_a_served_node_asks_for_its_own_head_before_it_writes(place, befriended):
    """COM-09: on a restored disk it gets its own feed back from its peers, instead of forking it."""
    with tallystick.open(f"sqlite:{place.parent / 'backup' / 'log.db'}", profile="community") as store:
        restored = gossip.Community(store, place.parent / "backup")
        restored.log.append_local("chat.message.sent", {"text": "anew"}, restored._keys)
        texts = [event.data["text"] for event in restored.log.replay() if event.event_type == "chat.message.sent"]
    assert texts == ["after the backup", "anew"]


def test_a_served_community_lets_go_what_it_may(serve, place, monkeypatch):
    """COM-12: the service declares floors and prunes by itself, as `tally community sync --listen` does; the log begins
    at the snapshot from then on, and the views are as before."""
    monkeypatch.setenv("TALLY_COMMUNITY_SNAPSHOT_LAG", "2")
    for number in range(8):
        run("append", "a", "chat.message.sent", json.dumps({"n": number}), "--offline", "--json")
    running = serve(f"sqlite:{place / 'log.db'}")
    community = running.service.operations.community
    states = community._engine.states()
    community.upkeep.daily(days=0)
    assert community.log.replica.base.floor
    declared = community.log.replica.base.lamport
    community.upkeep.daily(days=0)  # it prunes to that floor, and may declare the next one
    assert places.read(place).base == declared
    assert community.log.disk.floor() > 0
    running.stop()
    again = serve(f"sqlite:{place / 'log.db'}").service.operations.community
    assert again._engine.states() == states


def test_inserts_are_counted_and_the_emergency_is_shown(serve, place):
    """COM-03, COM-09: every accepted event is counted by origin and code; `emergency on` reaches a running service."""
    running = serve(f"sqlite:{place / 'log.db'}")
    community = running.service.operations.community
    community.log.append_local("chat.message.sent", {"text": "x"}, community._keys)
    page = running.client.get("/metrics").text
    assert 'tally_community_events_total{code="counts",origin="local"} 1.0' in page
    assert "tally_community_emergency 0.0" in page
    done = CliRunner().invoke(tally, ["community", "emergency", str(place), "on"], prog_name="tally")
    assert done.exit_code == 0
    running.until("/v1/community", lambda told: told["emergency"] is True)
    assert "tally_community_emergency 1.0" in running.client.get("/metrics").text

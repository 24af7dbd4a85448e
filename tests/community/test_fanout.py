"""What happens around a local append: peers are asked for this node's own head before it, and told after it.

Nodes listen on loopback, on ports that they were given by the system.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tallystick.community import EventLog, Fanout, HttpClient, KeyPair, OwnHead, Peer, SyncServer
from tallystick.testing.community.people import gossip, keys

SECONDS_MAX = 30
Open = Callable[..., EventLog]


class Serving:
    """A log that answers peers on loopback, in a thread of this process."""

    def __init__(self, log: EventLog, key: KeyPair, *, fanout: Fanout | None = None) -> None:
        self.log = log
        self._socket = socket.create_server(("127.0.0.1", 0))
        server = SyncServer(log, key, listed=frozenset({keys(2).node}), fanout=fanout)
        self.server = uvicorn.Server(uvicorn.Config(server.app(), log_level="warning"))
        self.peer = Peer(f"http://127.0.0.1:{self._socket.getsockname()[1]}", key.node)
        serve = self.server.serve(sockets=[self._socket])
        self.thread = threading.Thread(target=asyncio.run, args=(serve,))

    def __enter__(self) -> Serving:
        self.thread.start()
        until(lambda: self.server.started)
        return self

    def __exit__(self, *problem: object) -> None:
        self.server.should_exit = True
        self.thread.join()
        self._socket.close()


def until(happened: Callable[[], bool]) -> None:
    """Wait for something that happens in another thread."""
    deadline = time.monotonic() + SECONDS_MAX
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def connecting(key: KeyPair, community: str) -> Callable[[Peer], HttpClient]:
    """How a node calls its peers."""
    return lambda peer: HttpClient(peer, key, community, allow_private=True)


@pytest.fixture
def member_log(log: EventLog, founder: KeyPair, open_log: Open) -> EventLog:
    """The log of somebody who has joined, on a disk of its own."""
    key = keys(2)
    log.append_local("community.member.invited", {"node": key.node}, founder)
    made = open_log(founder.node, node=key.node, file="member.db")
    gossip(made, log)
    made.append_local("community.member.joined", {"invite": key.node}, key)
    gossip(made, log)
    return made


@pytest.fixture
def served(log: EventLog, founder: KeyPair) -> Iterator[Serving]:
    """The founder's node, listening."""
    with Serving(log, founder) as serving:
        yield serving


def test_an_event_is_handed_on_at_once(served: Serving, member_log: EventLog, founder: KeyPair) -> None:
    """COM-03, COM-11: without any round, what a node writes is at its peers, in order; what others wrote is not."""
    connect = connecting(keys(2), founder.node)
    with Fanout(member_log, lambda: [served.peer], connect, seconds_max=SECONDS_MAX) as fanout:
        for number in range(5):
            member_log.append_local("chat.message.sent", {"n": number}, keys(2))
        until(lambda: served.log.replica.fingerprint() == member_log.replica.fingerprint())
        assert fanout.flush(SECONDS_MAX)
    member_log.append_local("chat.message.sent", {"n": "after the end"}, keys(2))
    assert served.log.head() < member_log.head()


def test_the_app_hands_on_what_another_process_wrote(
    served: Serving, member_log: EventLog, founder: KeyPair, open_log: Open
) -> None:
    """COM-11: a node that listens notices what was written to its store by somebody else, and hands it on."""
    listening = open_log(founder.node, node=keys(2).node, file="member.db")
    connect = connecting(keys(2), founder.node)
    fanout = Fanout(listening, lambda: [served.peer], connect, seconds_max=SECONDS_MAX)
    with Serving(listening, keys(2), fanout=fanout):
        member_log.append_local("chat.message.sent", {"text": "by another process"}, keys(2))
        listening.refresh()
        until(lambda: served.log.head() == member_log.head())


def test_a_peer_that_is_away_costs_nothing(
    served: Serving, member_log: EventLog, founder: KeyPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COM-11: best effort: the append succeeds, the others get it, and the peer is not tried again for a while."""
    monkeypatch.setattr("tallystick.community.fanout.PAUSE_SECONDS", 1e6)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        away = Peer(f"http://127.0.0.1:{taken.getsockname()[1]}", keys(9).node)
        called: list[str] = []

        def connect(peer: Peer) -> HttpClient:
            called.append(peer.key)
            return connecting(keys(2), founder.node)(peer)

        with Fanout(member_log, lambda: [away, served.peer], connect, seconds_max=SECONDS_MAX) as fanout:
            for number in range(3):
                member_log.append_local("chat.message.sent", {"n": number}, keys(2))
                assert fanout.flush(2 * SECONDS_MAX)
        assert called.count(away.key) == 1
        assert served.log.head() == member_log.head()


def restored(member_log: EventLog, open_log: Open, tmp_path: Path, **options: Any) -> EventLog:
    """The member's log from a backup that lacks its last event, which the peers have."""
    import sqlite3

    with sqlite3.connect(tmp_path / "member.db") as source, sqlite3.connect(tmp_path / "backup.db") as copy:
        source.backup(copy)
    member_log.append_local("chat.message.sent", {"text": "after the backup"}, keys(2))
    return open_log(member_log.community, node=keys(2).node, file="backup.db", **options)


def test_a_restored_log_takes_its_own_head_back(
    served: Serving, member_log: EventLog, open_log: Open, tmp_path: Path
) -> None:
    """COM-03: whoever opens a log with peers to ask cannot sign the same place twice, whichever way it writes."""
    ask = OwnHead(lambda: [served.peer], connecting(keys(2), member_log.community))
    again = restored(member_log, open_log, tmp_path, ask=ask)
    gossip(member_log, served.log)

    async def write() -> int:
        return again.append_local("chat.message.sent", {"text": "restored"}, keys(2)).seq

    assert asyncio.run(write()) == 3, "also from inside an event loop"
    assert ask.failures == {}
    gossip(again, served.log)
    assert served.log.replica.forks() == {}


def test_without_asking_a_restored_log_forks(
    member_log: EventLog, log: EventLog, open_log: Open, tmp_path: Path
) -> None:
    """COM-03: what the question is for; and that peers who do not answer are named."""
    ask = OwnHead(lambda: [Peer("http://127.0.0.1:1", keys(1).node)], connecting(keys(2), member_log.community))
    again = restored(member_log, open_log, tmp_path, ask=ask)
    gossip(member_log, log)
    assert again.append_local("chat.message.sent", {"text": "restored"}, keys(2)).seq == 2
    assert list(ask.failures) == ["http://127.0.0.1:1"]
    gossip(again, log)
    assert log.replica.forks() == {keys(2).node: 2}


def test_the_question_is_asked_once(member_log: EventLog, open_log: Open, founder: KeyPair) -> None:
    """COM-03: before the first event after opening, and not again."""
    asked: list[EventLog] = []
    log = open_log(founder.node, node=keys(2).node, file="member.db", ask=asked.append)
    assert asked == []
    for number in range(3):
        log.append_local("chat.message.sent", {"n": number}, keys(2))
    assert asked == [log]

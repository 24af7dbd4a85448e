"""What a node does by itself, on a clock of the test: rounds, the daily snapshot, floors, retention, emergency."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tallystick
from tallystick import errors
from tallystick.cli.main import tally
from tallystick.community import EventLog, KeyPair, Peer, SnapshotStore
from tallystick.community import config as places
from tallystick.community.config import CommunityConfig
from tallystick.community.rounds import Rounds
from tallystick.community.schedule import Schedule, Ticker
from tallystick.community.upkeep import NodeUpkeep
from tallystick.store.verify import verify
from tallystick.testing.clock import ManualClock
from tallystick.testing.community.people import Author, engine_over, gossip, keys

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
FOUNDER = keys(1)


class House:
    """A node in a directory, under a clock that is turned by hand; its upkeep looks once an hour."""

    def __init__(self, directory: Path, key: KeyPair, *, schedule: Schedule | None = None) -> None:
        directory.mkdir(exist_ok=True)
        self.directory, self.key, self.now, self.said = directory, key, START, list[str]()
        self.clock = ManualClock(int(START.timestamp()) * 1_000_000_000)
        self.schedule = schedule or Schedule(interval_s=1e9)
        if not (directory / places.FILE).exists():
            places.save(directory, CommunityConfig(FOUNDER.node))
        self.open()

    def open(self) -> None:
        """Open the log where its directory says that it begins."""
        files = SnapshotStore(self.directory / "snapshots", FOUNDER.node)
        base = places.read(self.directory).base
        began = None if base is None else files.read(base)
        self.store = tallystick.open(f"sqlite:{self.directory / 'log.db'}", profile="community", clock=self.clock)
        self.log = EventLog(self.store, FOUNDER.node, node=self.key.node, base=began.base if began else None)
        self.engine = engine_over(self.log)
        if began is not None:
            self.engine.restart(began.states, floor=began.base.floor)
        self.upkeep = NodeUpkeep(
            self.log, self.engine, files, self.key, self.directory, schedule=self.schedule, tell=self.said.append
        )

    def pass_days(self, days: float, *, also: Callable[[], None] = lambda: None) -> None:
        """Let time pass, hour by hour."""
        for _ in range(round(days * 24)):
            self.now += timedelta(hours=1)
            self.clock.advance(seconds=3600)
            asyncio.run(self.upkeep.tick(self.now))
            also()

    def stored(self) -> int:
        """How many events of feeds the store still has."""
        events = self.store.log.read(limit=10_000, over_pruned=True).events
        return sum(event.stream.startswith("community.") for event in events)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """The founder's node, with 60 messages and a head that lies more than the lag behind them."""
    made = House(tmp_path / "a", FOUNDER)
    made.log.append_local("community.created", {"name": "test"}, FOUNDER)
    for number in range(60):
        made.log.append_local("chat.message.sent", {"n": number}, FOUNDER)
    leap(made)
    yield made
    made.store.close()


def leap(house: House) -> None:
    """Let a member write from far ahead, so that what was written so far lies behind the lag."""
    author = Author(keys(9), FOUNDER.node)
    house.log.append_local("community.member.invited", {"node": author.node}, FOUNDER)
    author.lamport = house.log.head() + 2000
    house.log.append_received(author.write("community.member.joined", {"invite": author.node}))


def test_after_sixty_days_the_events_are_gone_and_the_views_equal(house: House) -> None:
    """COM-12: nobody but the schedule does anything: a floor is declared, its events go, and nothing else changes."""
    states, counted = house.engine.states(), house.log.replica.fingerprint()
    assert house.stored() == 63
    house.pass_days(60)
    assert house.stored() <= 5, "what lies behind the lag is gone"
    assert house.engine.states() == states
    before = (house.log.replica.fingerprint(), house.log.replica.base.floor)
    assert before[0] != counted, "what a floor covers is compared no more"
    house.store.close()
    house.open()
    assert house.engine.states() == states
    assert (house.log.replica.fingerprint(), house.log.replica.base.floor) == before
    assert verify(house.store.log).ok
    assert house.log.append_local("chat.message.sent", {"text": "goes on"}, FOUNDER)


def test_not_a_day_early(house: House) -> None:
    """COM-12: for thirty days after the snapshot at the floor everything stays."""
    house.pass_days(1)
    assert house.log.replica.base.floor
    house.pass_days(29)
    assert house.stored() >= 63
    house.pass_days(2)
    assert house.stored() < 10


def test_a_second_floor_follows_when_the_first_has_had_its_days(house: House) -> None:
    """COM-12: floors do not come every night, or none would ever be old enough; later events go in their turn."""
    house.pass_days(2)
    first = house.log.replica.base.floor
    for number in range(20):
        house.log.append_local("chat.message.sent", {"later": number}, FOUNDER)
    author = Author(keys(9), FOUNDER.node)
    head = house.log.replica.feed(author.node).head
    author.head, author.lamport = (head.seq, head.link), house.log.head() + 2000
    house.log.append_received(author.write())
    states = house.engine.states()
    house.pass_days(20)
    assert house.log.replica.base.floor == first
    house.pass_days(45)
    assert house.log.replica.base.floor != first
    assert house.stored() < 10
    assert house.engine.states() == states


def _writes_every_day(house: House) -> Callable[[], None]:
    """Once a day the founder and a member write, so that there is always more for the next floor to cover."""
    author, hours = Author(keys(9), FOUNDER.node), iter(range(10_000))

    def write() -> None:
        if next(hours) % 24:
            return
        house.log.append_local("chat.message.sent", {"at": house.log.head()}, FOUNDER)
        head = house.log.replica.feed(author.node).head
        author.head, author.lamport = (head.seq, head.link), house.log.head() + 2000
        house.log.append_received(author.write())

    return write


def test_events_of_a_busy_community_go_too(house: House) -> None:
    """COM-12: what the last floor covers goes before the next floor is declared, however much there is to cover."""
    house.pass_days(40, also=_writes_every_day(house))
    assert house.stored() < 63 + 80 - 60, "the first sixty messages are gone"
    first = places.read(house.directory).base
    house.pass_days(40, also=_writes_every_day(house))
    assert first is not None
    assert (places.read(house.directory).base or 0) > first, "and later ones in their turn"


def test_a_peer_that_is_never_there_holds_events_for_ninety_days_at_most(house: House) -> None:
    """COM-12: the next floor waits until what the last one covers is gone, so that the wait for a peer has an end."""
    peer = places.read(house.directory)
    peer.peers = [{"url": "http://127.0.0.1:9", "key": keys(5).node}]
    places.save(house.directory, peer)
    house.pass_days(85, also=_writes_every_day(house))
    assert places.read(house.directory).base is None
    house.pass_days(10, also=_writes_every_day(house))
    assert places.read(house.directory).base is not None


def test_an_admin_proposes_and_the_founder_endorses(house: House, tmp_path: Path) -> None:
    """COM-12: each does its part on its own schedule, once; a plain member does nothing."""
    house.log.append_local("community.member.invited", {"node": keys(2).node, "role": "admin"}, FOUNDER)
    other = House(tmp_path / "b", keys(2))
    try:
        gossip(other.log, house.log)
        other.log.append_local("community.member.joined", {"invite": keys(2).node}, keys(2))
        other.pass_days(3)
        assert sum("proposed" in line for line in other.said) == 1
        assert other.log.replica.base.floor == b""
        gossip(other.log, house.log)
        house.pass_days(1)
        gossip(other.log, house.log)
        assert other.log.replica.base.floor == house.log.replica.base.floor != b""
        states = other.engine.states()
        other.pass_days(35)
        assert other.stored() < 10
        assert other.engine.states() == states == house.engine.states()
    finally:
        other.store.close()


# --- the hour --------------------------------------------------------------------------------------------------------


def test_a_node_that_slept_through_its_hour_makes_up_for_it(house: House) -> None:
    """COM-08: the time that was due is on disk: a process that begins hours later does the work at once, and once."""
    asyncio.run(house.upkeep.tick(house.now))
    planned = places.read_due(house.directory)
    assert planned is not None
    assert (planned.at.day, planned.at.hour) == (2, 3)
    house.store.close()
    house.open()
    late = START + timedelta(days=1)
    asyncio.run(house.upkeep.tick(late))
    assert house.upkeep._files.list(), "at noon, nine hours late"
    again = places.read_due(house.directory)
    assert again is not None
    assert (again.at.day, again.at.hour) == (3, 3)


def test_the_hour_that_is_set_is_the_hour_that_fires(tmp_path: Path) -> None:
    """COM-08: another hour counts from the next start on; one that was missed is still made up."""
    fired: list[datetime] = []
    now = START

    async def nothing(local_only: bool = False) -> None:
        pass

    async def fire() -> None:
        fired.append(now)

    def run(hour: int, hours: int) -> None:
        nonlocal now
        ticker = Ticker(Schedule(snapshot_hour=hour), round=nothing, snapshot=fire, directory=tmp_path)
        for _ in range(hours):
            asyncio.run(ticker.tick(now))
            now += timedelta(hours=1)

    run(22, 12)
    assert [at.hour for at in fired] == [22]
    run(5, 24)
    assert [at.hour for at in fired] == [22, 5]


def test_a_snapshot_that_fails_is_due_until_it_goes_well(tmp_path: Path) -> None:
    """COM-08: a full disk ends nothing: it is told, tried again after ten minutes, and stays due over a restart."""
    attempts: list[datetime] = []
    told: list[Exception] = []
    now = START

    async def nothing(local_only: bool) -> None:
        pass

    async def fails() -> None:
        attempts.append(now)
        raise OSError("no space left")

    for _ in range(2):
        ticker = Ticker(Schedule(), round=nothing, snapshot=fails, directory=tmp_path, failed=told.append)
        for _ in range(2):
            asyncio.run(ticker.tick(now))
            now += timedelta(hours=16)
    assert len(attempts) == len(told) == 3


@pytest.mark.parametrize("given", ["option", "environment"])
def test_the_hour_is_set_from_outside(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """COM-08: by `--snapshot-hour` of both commands that listen, and by TALLY_COMMUNITY_SNAPSHOT_HOUR."""
    from tallystick.cli import community_sync, serve

    CliRunner().invoke(tally, ["community", "init", str(tmp_path / "a")])
    seen: list[Any] = []
    monkeypatch.setattr(community_sync, "listen", lambda directory, how: seen.append(how.schedule().snapshot_hour))

    def settings(url: str, values: dict[str, Any]) -> Any:
        seen.append(values["snapshot_hour"])
        raise errors.InvalidValue(what="test", value="x", must="go no further")

    monkeypatch.setattr(serve, "_settings", settings)
    option = ["--snapshot-hour", "17"] if given == "option" else []
    environment = {} if given == "option" else {"TALLY_COMMUNITY_SNAPSHOT_HOUR": "17"}
    sync = ["community", "sync", str(tmp_path / "a"), "--listen", "127.0.0.1:0"]
    for command in (sync, ["serve", f"sqlite:{tmp_path / 'a' / 'log.db'}"]):
        CliRunner().invoke(tally, [*command, *option], env=environment)
    assert seen == [17, 17]


# --- rounds and emergency --------------------------------------------------------------------------------------------


def test_emergency_mode_is_switched_on_a_running_node(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """COM-09: `tally community emergency DIR on|off` changes the rhythm and the choice of peers of a node that runs."""
    rounds: list[tuple[float, bool]] = []

    async def begin(peers: Any, *, local_only: bool = False) -> None:
        rounds.append(((house.now - START).total_seconds(), local_only))

    monkeypatch.setattr(house.upkeep.rounds, "begin", begin)
    house.schedule.interval_s = 300.0

    def run(seconds: int) -> list[tuple[float, bool]]:
        rounds.clear()
        for _ in range(seconds // 10):
            asyncio.run(house.upkeep.tick(house.now))
            house.now += timedelta(seconds=10)
        return list(rounds)

    def switch(state: str) -> None:
        done = CliRunner().invoke(tally, ["community", "emergency", str(house.directory), state])
        assert done.exit_code == 0, done.output

    assert run(100) == [(0.0, False)]
    switch("on")
    assert run(60) == [(100.0, True), (130.0, True)]
    switch("off")
    assert run(300) == [(430.0, False)]


def test_a_peer_that_hangs_keeps_no_other_waiting(house: House, tmp_path: Path) -> None:
    """COM-09: rounds run beside each other, and one that is under way is not begun again."""
    begun: list[str] = []
    slow, quick = Peer("http://127.0.0.1:1", keys(2).node), Peer("http://127.0.0.1:2", keys(3).node)

    class Client:
        def __init__(self, peer: Peer) -> None:
            self.peer = peer

        async def __aenter__(self) -> Client:
            return self

        async def __aexit__(self, *problem: object) -> None:
            pass

        async def ask(self, request: object) -> Any:
            begun.append(self.peer.key)
            if self.peer is slow:
                await asyncio.Event().wait()
            raise errors.SyncFailed(peer=self.peer.url, reason="it answers, at least")

    async def go() -> dict[str, Any]:
        rounds = Rounds(house.log, lambda peer: Client(peer))  # type: ignore[arg-type, return-value]
        for _ in range(3):
            await rounds.begin([slow, quick])
            while begun.count(quick.key) < 3 and quick.key in rounds._under_way:
                await asyncio.sleep(0.001)
        found = dict(rounds.results)
        await rounds.stop()
        return found

    found = asyncio.run(go())
    assert begun.count(quick.key) == 3
    assert begun.count(slow.key) <= 1
    assert list(found) == [quick.key]


def test_every_insert_is_logged(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """COM-03: a line for each event, one's own or another's, with its place and code, and nothing of what it says."""
    author = Author(keys(9), FOUNDER.node)
    head = house.log.replica.feed(author.node).head
    author.head, author.lamport = (head.seq, head.link), house.log.head()
    with caplog.at_level(logging.INFO, "tallystick.community"):
        house.log.append_local("chat.message.sent", {"text": "secret"}, FOUNDER)
        house.log.append_received(author.write(data={"text": "secret"}))
        with pytest.raises(errors.EventLogError):
            house.log.append_received(author.write("bank.account.emptied"))
        with pytest.raises(errors.EventLogError):
            house.log.append_received(Author(keys(8), FOUNDER.node).write())
    lines = [record.tally_fields for record in caplog.records if record.name == "tallystick.community"]
    assert [(line["origin"], line["code"], line["type"]) for line in lines] == [
        ("local", "counts", "chat.message.sent"),
        ("received", "counts", "chat.message.sent"),
        ("received", "schema_unknown", "bank.account.emptied"),
    ]
    assert "secret" not in str(lines)

"""Views as projections: every runner gives the rows that the replay engine gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tallystick
from tallystick import Store
from tallystick.cli.main import tally as group
from tallystick.community import EventLog, KeyPair, ReplayEngine, build_snapshot, declare_floor
from tallystick.community.messages import Delivery
from tallystick.community.view_projection import Beginning, ViewProjection
from tallystick.community.views.projections import Chat, Marketplace, Members
from tallystick.event import canonical
from tallystick.projections import Live, ViewReader, rebuild
from tallystick.testing.community.people import Author, engine_over, gossip, keys

PROJECTIONS: list[type[ViewProjection]] = [Chat, Marketplace, Members]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store for a community."""
    with tallystick.open(f"sqlite:{tmp_path / 'log.db'}", profile="community") as opened:
        yield opened


@pytest.fixture
def busy_log(store: Store, founder: KeyPair) -> EventLog:
    """The founder's log with two members."""
    log = EventLog(store, founder.node, node=founder.node)
    log.append_local("community.created", {"name": "test"}, founder)
    for number in (2, 3):
        member = Author(keys(number), founder.node)
        log.append_local("community.member.invited", {"node": member.node}, founder)
        member.lamport = log.head()
        log.append_received(member.write("community.member.joined", {"invite": member.node}))
    return log


def talk(log: EventLog, source: random.Random, count: int) -> list[Author]:
    """Members who post, chat and read, with lamports that do not come in order."""
    people = []
    for number in (2, 3):
        author = Author(keys(number), log.community)
        head = log.replica.feeds[author.node].head
        author.head, author.lamport = (head.seq, head.link), head.lamport
        people.append(author)
    for _ in range(count):
        author = source.choice(people)
        post = {"post": source.choice("ab"), "price": source.randrange(9)}
        kind, data = source.choice(
            [
                ("market.post.created", post),
                ("market.post.updated", post),
                ("chat.message.sent", {"text": str(source.random())}),
                ("chat.message.read", {"message": f"{people[0].node}#{source.randrange(1, 8)}"}),
                ("node.manifest.updated", {"v": source.randrange(9)}),
            ]
        )
        event = author.write(kind, data, lamport=author.lamport + source.randint(1, 4))
        log.receive(Delivery(community_id=log.community, events=[event]), peer="p")
    return people


def rows(store: Store, name: str) -> dict[str, bytes]:
    """The rows of a projection, as canonical JSON."""
    return {key: canonical.encode_state(state) for key, state in ViewReader(store, name).items()}


def wanted(engine: ReplayEngine, log: EventLog, kind: type[ViewProjection]) -> dict[str, bytes]:
    """What the replay engine says."""
    return {log.replica.streams.kind: canonical.encode_state(engine.states()[kind.view_name])}


def follow(store: Store, log: EventLog) -> None:
    """Bring the rows of all three up to the end, and compare them with the engine and with a rebuild."""
    engine = engine_over(log)
    for kind in PROJECTIONS:
        Live(store, kind(), batch_events=7).catch_up()
        assert rows(store, kind.name) == wanted(engine, log, kind), kind.name
        rebuild(store, kind(), batch_events=11)
        assert rows(store, kind.name) == wanted(engine, log, kind), kind.name


def test_rows_are_those_of_the_engine_whatever_happens(store: Store, busy_log: EventLog, founder: KeyPair) -> None:
    """COM-07, PIPE-04: late events, a cut that reaches back, a fork and a floor: the live rows and a rebuild follow."""
    source = random.Random(4)
    one, other = talk(busy_log, source, 60)
    follow(store, busy_log)
    busy_log.append_local("community.member.revoked", {"node": other.node, "seq": 9}, founder)
    follow(store, busy_log)
    twin = Author(one.keys, founder.node)
    twin.head, twin.lamport = (1, busy_log.replica.feeds[one.node].entries[0].link), 10
    late = [twin.write(data={"text": "other branch"})]
    busy_log.receive(Delivery(community_id=founder.node, events=late), peer="p")
    assert busy_log.replica.forks() == {one.node: 2}
    follow(store, busy_log)


def test_rows_begin_at_a_floor(store: Store, busy_log: EventLog, founder: KeyPair) -> None:
    """COM-12: what a floor covers is folded first, also when something older comes behind it."""
    one, _ = talk(busy_log, random.Random(5), 30)
    follow(store, busy_log)
    silent = Author(keys(4), founder.node)
    invited = busy_log.append_local("community.member.invited", {"node": silent.node}, founder)
    silent.lamport = invited.lamport
    engine = engine_over(busy_log)
    declare_floor(busy_log, build_snapshot(busy_log, engine, founder, busy_log.head()), founder)
    assert busy_log.replica.base.floor
    follow(store, busy_log)
    joined = silent.write("community.member.joined", {"invite": silent.node})
    old = silent.write(data={"text": "older than the floor's end"})
    busy_log.receive(Delivery(community_id=founder.node, events=[joined, old]), peer="p")
    busy_log.receive(Delivery(community_id=founder.node, events=[one.write(data={"text": "now"})]), peer="p")
    follow(store, busy_log)


def test_rows_of_a_log_that_begins_at_a_snapshot(
    busy_log: EventLog, founder: KeyPair, tmp_path: Path, open_log: Callable[..., EventLog]
) -> None:
    """COM-08: with the snapshot at hand its states are where the rows begin; events kept aside are ordered by their
    own ids."""
    one, other = talk(busy_log, random.Random(6), 20)
    made = build_snapshot(busy_log, engine_over(busy_log), founder, busy_log.head())
    declare_floor(busy_log, made, founder)
    with tallystick.open(f"sqlite:{tmp_path / 'new.db'}", profile="community") as store:
        newcomer = EventLog(store, founder.node, base=made.base)
        gossip(newcomer, busy_log)
        lamport = max(one.lamport, other.lamport)
        for number in range(6):  # the same lamports: their order rests on the ids
            lamport += 1
            for author in (one, other) if number % 2 else (other, one):
                event = author.write(data={"text": author.node[-4:]}, lamport=lamport)
                busy_log.receive(Delivery(community_id=founder.node, events=[event]), peer="p")
        gossip(newcomer, busy_log)
        Live(store, Chat(Beginning(made.base, made.states)), batch_events=5).catch_up()
        assert rows(store, Chat.name) == wanted(engine_over(busy_log), busy_log, Chat)


class Slow(Marketplace):
    """A view of the four methods alone, whose state is copied at every event."""

    name = "community.slow"

    def make_view(self, roster: Any) -> Any:
        """The marketplace without what makes it quick."""
        inner = super().make_view(roster)

        class Four:
            reset, apply = inner.reset, inner.apply
            snapshot_state, restore_state = inner.snapshot_state, inner.restore_state

        return Four()


def test_a_view_needs_four_methods(store: Store, busy_log: EventLog) -> None:
    """COM-07: a view that cannot show its state in place gives the same rows."""
    talk(busy_log, random.Random(7), 30)
    Live(store, Slow(), batch_events=4).catch_up()
    assert rows(store, Slow.name) == wanted(engine_over(busy_log), busy_log, Slow)


def test_the_commands_project_and_rebuild(busy_log: EventLog, store: Store, tmp_path: Path) -> None:
    """COM-07: `tally project` and `tally rebuild` take a view by its name."""
    talk(busy_log, random.Random(8), 10)
    url, name = f"sqlite:{tmp_path / 'log.db'}", "tallystick.community.views.projections:Members"
    for command in (["project", url, name], ["rebuild", url, name, "--on", "process"]):
        done = CliRunner().invoke(group, command, prog_name="tally")
        assert done.exit_code == 0, done.output
        assert rows(store, Members.name) == wanted(engine_over(busy_log), busy_log, Members)

"""Views and their replay."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick import errors
from tallystick.community import EventLog, KeyPair, Replica
from tallystick.community.node import GossipNode
from tallystick.community.types import Event
from tallystick.event import canonical
from tallystick.testing.community.nodes import verify
from tallystick.testing.community.people import Author, engine_over, keys

FOUNDER = keys(1)


class Plain(GossipNode):
    """A node without a disk."""

    def __init__(self) -> None:
        super().__init__(Replica(FOUNDER.node, verify=verify))
        self.engine = engine_over(self)

    def take(self, events: list[Event]) -> None:
        self._take(events, "peer")


def story(source: random.Random, count: int) -> list[Event]:
    """Events of three authors who post, chat, read and revoke."""
    authors = [Author(keys(number), FOUNDER.node) for number in (1, 2, 3)]
    events = [authors[0].write("community.created", {"name": "x"})]
    for author in authors[1:]:
        events.append(authors[0].write("community.member.invited", {"node": author.node, "role": "admin"}))
        author.lamport = authors[0].lamport
        events.append(author.write("community.member.joined", {"invite": author.node}))
    for _ in range(count):
        author = source.choice(authors)
        author.lamport = max(author.lamport, source.choice(events).lamport)
        events.append(author.write(*_move(source, authors)))
    return events


def _move(source: random.Random, authors: list[Author]) -> tuple[str, dict[str, Any]]:
    other = source.choice(authors)
    post = {"post": source.choice("ab"), "price": source.randrange(9)}
    return source.choice(
        [
            ("market.post.created", post),
            ("market.post.updated", post),
            ("market.post.expired", post),
            ("chat.message.sent", {"text": str(source.random())}),
            ("chat.message.read", {"message": f"{other.node}#{source.randrange(1, 8)}"}),
            ("chat.message.delivered", {"message": f"{other.node}#{source.randrange(1, 8)}"}),
            ("node.manifest.updated", {"v": source.randrange(9)}),
            ("community.member.demoted", {"node": other.node, "role": "member", "seq": source.randrange(6)}),
            ("market.post.created", {"post": 7}),
            ("chat.message.read", {"message": ["odd"]}),
        ]
    )


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 25))
def test_replay_order_independence(source: random.Random, count: int) -> None:
    """COM-07: however the events arrive, in whatever batches, all three views end in the same state."""
    events = story(source, count)
    straight, shuffled = Plain(), Plain()
    straight.take(events)
    mixed = list(events)
    source.shuffle(mixed)
    while mixed:
        size = source.randint(1, 5)
        shuffled.take(mixed[:size])
        mixed = mixed[size:]
    shuffled.take(events)
    assert shuffled.engine.states() == straight.engine.states()
    assert shuffled.replica.counted.keys == straight.replica.counted.keys
    assert straight.engine.states()["members"]


def test_replay_idempotent() -> None:
    """COM-07: replaying twice gives the same states as once."""
    node = Plain()
    node.take(story(random.Random(1), 40))
    before = node.engine.states()
    node.engine.rebuild_all()
    node.engine.rebuild("chat")
    assert node.engine.states() == before


def test_a_late_event_rolls_back_to_a_savepoint() -> None:
    """COM-07: with savepoints in between, the result is that of folding everything."""
    events = story(random.Random(2), 1500)
    late = next(event for event in events[3:] if event.event_type.startswith("market"))
    author = late.author
    rest = [event for event in events if event.author != author or event.seq < late.seq]
    node, whole = Plain(), Plain()
    node.take(rest)
    assert len(node.engine._savepoints) >= 1
    node.take(events)
    whole.take(events)
    assert node.engine.states() == whole.engine.states()


def test_a_state_survives_a_round_trip() -> None:
    """COM-07: restore_state(snapshot_state()) is the same state, for every view: in a view that was reset, and in one
    that has folded something else. What the view does next does not change the state that it was taken from."""
    node, other = Plain(), Plain()
    events = story(random.Random(3), 60)
    node.take(events)
    other.take(events)  # members take the roles from the roster, which two nodes with the same events have alike
    elsewhere = Plain()
    elsewhere.take(story(random.Random(4), 60))
    for name, view in node.engine.views.items():
        state = view.snapshot_state()
        packed = canonical.encode_state(state)
        twin = other.engine.views[name]
        twin.reset()
        assert twin.snapshot_state() != state, f"{name} has something to lose"
        twin.restore_state(canonical.decode(packed))
        assert twin.snapshot_state() == state
        for event in events:
            if event.event_type in view.types:  # type: ignore[attr-defined]
                view.apply(event)
        assert canonical.encode_state(state) == packed, f"{name} changed what it gave"
    members = elsewhere.engine.views["members"]
    members.restore_state(canonical.decode(canonical.encode_state(node.engine.views["members"].snapshot_state())))
    found = {key: facts["manifest"] for key, facts in members.snapshot_state().items()}
    wanted = {key: facts["manifest"] for key, facts in node.engine.states()["members"].items()}
    assert any(wanted.values())
    assert found == wanted, "nothing of what was there before is left"


def test_a_view_has_types_of_the_closed_set(log: EventLog, founder: KeyPair) -> None:
    """COM-06: a view cannot wait for a type that will never come."""
    engine = engine_over(log)
    with pytest.raises(errors.InvalidValue):
        engine.register("odd", engine.views["chat"], ["bank.account.emptied"])

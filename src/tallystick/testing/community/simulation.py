"""A whole community under one seed: honest nodes, a bad network, one liar. At the end all honest nodes must agree.

outcomes = Simulation(seed).run()       # the outcome of each honest node; if they differ, the seed shows a bug
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from tallystick.community.identity import KeyPair
from tallystick.community.messages import Delivery, HeadsReport, HeadsRequest, Request, Response
from tallystick.community.session import SyncSession, Talk, answer
from tallystick.community.types import Event
from tallystick.testing.community.adversary import Adversary
from tallystick.testing.community.network import Network
from tallystick.testing.community.nodes import NodeJournal, SimulatedNode

PAST_NS = 1_700_000_000_000_000_000
QUIET_ROUNDS_MAX = 12


class SimulationSettings(msgspec.Struct, frozen=True):
    """The parts of a run. Without `reconciles` only ends of feeds are compared; with `heads_only` only heads."""

    steps: int = 40
    byzantine: bool = True
    heads_only: bool = False
    reconciles: bool = True
    nodes_max: int = 7
    floors: bool = True


class Simulation:
    """One run. The seed determines everything."""

    def __init__(self, seed: int, settings: SimulationSettings | None = None) -> None:
        self.settings = settings or SimulationSettings()
        self.random = Random(seed)
        self.network = Network(self.random)
        count = self.random.randint(3, self.settings.nodes_max)
        self._keys = [KeyPair(self.random.randbytes(32)) for _ in range(count)]
        self.community = self._keys[0].node
        self.journals = [NodeJournal() for _ in self._keys]
        self.nodes = [self._start(number) for number in range(count)]
        self._talks: dict[int, Talk] = {}
        self._talk_count = 0
        self._floor_commit = 0
        self._unsure: dict[int, set[int]] = {}  # restored node -> the nodes that it must ask for its own head
        keys = KeyPair(self.random.randbytes(32))
        self.adversary = Adversary(self.community, keys, self.random, nodes=count, show=self._show)
        self.adversary.peers = [key.node for key in self._keys]
        self._found()

    def run(self) -> list[dict[str, Any]]:
        """Run all steps, then settle. Returns the outcome of each honest node."""
        for _ in range(self.settings.steps):
            self._step()
            self.network.advance(self.random.randrange(10))
        return self.settle()

    def settle(self) -> list[dict[str, Any]]:
        """Let the honest nodes gossip over a good network until nothing changes."""
        self.network.heal()
        self.network.advance(1000)
        for _ in range(QUIET_ROUNDS_MAX):
            before = [node.replica.counted.version for node in self.nodes]
            for one in range(len(self.nodes)):
                for other in range(len(self.nodes)):
                    if one != other:
                        self._talk_at_once(one, other)
            if before == [node.replica.counted.version for node in self.nodes]:
                break
        return [node.outcome() for node in self.nodes]

    # --- what happens ----------------------------------------------------------------------------------------------

    def _found(self) -> None:
        founder = self.nodes[0]
        self._append(0, "community.created", {"name": "simulated"})
        for key in self._keys[1:]:
            role = self.random.choice(["member", "member", "admin"])
            self._append(0, "community.member.invited", {"node": key.node, "role": role})
        liar = self.adversary.keys.node
        if self.settings.byzantine:
            role = self.random.choice(["member", "admin"])
            self._append(0, "community.member.invited", {"node": liar, "role": role})
        lamport = founder.replica.clock.current
        for number in range(1, len(self.nodes)):
            self.nodes[number].replica.clock.observe(lamport)  # the invitation carries the clock
            self._append(number, "community.member.joined", {"invite": self._keys[number].node})
        if self.settings.byzantine:
            self.adversary.join(liar, lamport + 2)

    def _step(self) -> None:
        chance = self.random.random()
        number = self.random.randrange(len(self.nodes))
        if chance < 0.40:
            self._write(number)
        elif chance < 0.65:
            self._sync(number)
        elif chance < 0.80 and self.settings.byzantine:
            self.adversary.move()
        elif chance < 0.88:
            other = self.random.randrange(len(self.nodes))
            self.network.cut(number, other, both_ways=self.random.random() < 0.5)
        elif chance < 0.93:
            self.network.heal()
        elif chance < 0.98:
            self._crash(number)
        else:
            self._restore_backup(number)

    def _write(self, number: int) -> None:
        """Do what an honest member does. The founder sometimes declares a floor."""
        if self._unsure.get(number):
            return
        chance = self.random.random()
        if number == 0 and chance < 0.05 and self.settings.floors:
            self._declare_floor()
            return
        if chance < 0.75:
            self._append(number, *self._ordinary(number))
            return
        target = self.random.choice([*self._keys[1:], self.adversary.keys]).node
        type_ = self.random.choice(["revoked", "demoted", "promoted", "invited"])
        feed = self.nodes[number].replica.feeds.get(target)
        data = {"node": target, "role": self.random.choice(["member", "admin"]), "seq": feed.head.seq if feed else 0}
        self._append(number, f"community.member.{type_}", data)

    def _declare_floor(self) -> None:
        """The founder declares a floor. Sometimes a snapshot at that floor replaces the disk of a node."""
        founder = self.nodes[0]
        lamport = self.random.randrange(founder.replica.head + 1)
        journal = founder.declare_floor(lamport, id=self.random.randbytes(16), time=PAST_NS + self.network.now)
        self._floor_commit = len(self.journals[0].commits)
        number = self.random.randrange(len(self.nodes))
        if number and self.random.random() < 0.5:
            self.journals[number] = journal
            self._crash(number)
            self._unsure[number] = {other for other in range(len(self.nodes)) if other != number}

    def _ordinary(self, number: int) -> tuple[str, dict[str, Any]]:
        node = self.nodes[number]
        known = list(node.replica.by_link.values())
        place = self.random.choice([(entry.author, entry.seq) for entry in known] or [(node.name, 1)])
        label = f"post{self.random.randrange(3)}"
        choices: list[tuple[str, dict[str, Any]]] = [
            ("chat.message.sent", {"text": f"{number}: {self.random.random():.3f}"}),
            ("chat.message.read", {"message": f"{place[0]}#{place[1]}"}),
            ("market.post.created", {"post": label, "price": self.random.randrange(100)}),
            ("market.post.updated", {"post": label, "price": self.random.randrange(100)}),
            ("market.post.expired", {"post": label}),
            ("node.manifest.updated", {"version": self.random.randrange(9)}),
        ]
        return self.random.choice(choices)

    def _append(self, number: int, type_: str, data: dict[str, Any]) -> None:
        node = self.nodes[number]
        entry = node.append(type_, data, id=self.random.randbytes(16), time=PAST_NS + self.network.now)
        self.adversary.seen.append(node.events_of([entry])[0])

    def _start(self, number: int) -> SimulatedNode:
        return SimulatedNode(self.community, self._keys[number], self.journals[number])

    def _crash(self, number: int) -> None:
        """Restart a node from its journal. Its memory and its sessions are lost."""
        self._talks = {key: talk for key, talk in self._talks.items() if key % len(self.nodes) != number}
        self.nodes[number] = self._start(number)

    def _restore_backup(self, number: int) -> None:
        """Restore an older state of the disk. Before it writes again, the node asks all others for its own head.

        The state is not older than the last floor: what a floor covers may exist only in snapshots.
        """
        commits = self.journals[number].commits
        oldest = max(len(commits) // 2, self._floor_commit if number == 0 else 0)
        del commits[self.random.randint(oldest, len(commits)) :]
        self._crash(number)
        self._unsure[number] = {other for other in range(len(self.nodes)) if other != number}

    # --- talking ---------------------------------------------------------------------------------------------------

    def _sync(self, one: int) -> None:
        other = self.random.choice([number for number in range(len(self.nodes)) if number != one])
        self._talk_count += 1
        key = self._talk_count * len(self.nodes) + one
        session = self._session(one, other)
        self._talks[key] = talk = self._run(session)
        self._ask(key, one, other, next(talk))

    def _session(self, one: int, other: int) -> SyncSession:
        return SyncSession(self.nodes[one], self._keys[other].node, reconciles=self.settings.reconciles)

    def _run(self, session: SyncSession) -> Talk:
        return _only_heads(session) if self.settings.heads_only else session.run()

    def _ask(self, key: int, one: int, other: int, request: Request) -> None:
        def served() -> None:
            said = answer(self.nodes[other], request, peer=self._keys[one].node)
            self.network.send(other, one, lambda: self._handle_response(key, one, other, request, said))

        self.network.send(one, other, served)

    def _handle_response(self, key: int, one: int, other: int, request: Request, said: Response) -> None:
        """Handle a response. Ignore it if the session is over or this is the second copy."""
        talk = self._talks.pop(key, None)
        if talk is None:
            return
        try:
            following = talk.send(said)
        except StopIteration:
            self._unsure.get(one, set()).discard(other)
            return
        fresh = key + len(self.nodes) * 1_000_000
        self._talks[fresh] = talk
        self._ask(fresh, one, other, following)

    def _talk_at_once(self, one: int, other: int) -> None:
        talk = self._run(self._session(one, other))
        request = next(talk)
        try:
            while True:
                request = talk.send(answer(self.nodes[other], request, peer=self._keys[one].node))
        except StopIteration:
            pass

    def _show(self, events: list[Event], nodes: list[int]) -> None:
        """Deliver events of the liar. One malformed event must not affect the others."""
        for number in nodes:
            delivery = Delivery(community_id=self.community, events=events)
            self.network.send(-1, number, lambda to=number, what=delivery: self._hear(to, what))  # type: ignore[misc]

    def _hear(self, number: int, delivery: Delivery) -> None:
        self.nodes[number].receive(delivery, peer="liar")


def _only_heads(session: SyncSession) -> Talk:
    """The sync of the first design: push only what is above the highest lamport that the peer has of each type."""
    theirs = yield HeadsRequest(community_id=session.community)
    assert isinstance(theirs, HeadsReport)
    yield from session.push_by_type(theirs)

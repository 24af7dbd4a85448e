"""Ranks, cuts and duels: what counts is a function of the set of acts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.community import EventLog, KeyPair, Replica
from tallystick.community.acts import Act
from tallystick.community.rank_reductions import RankReductions
from tallystick.community.roster import Roster
from tallystick.testing.community.people import Author, keys

OWNER, ADMIN, MEMBER, NONE = 3, 2, 1, 0
A, B, C, D = (keys(number).node for number in range(1, 5))


def act(lamport: int, actor: str, kind: str, node: str, *, seq: int = 1, **fields: int) -> Act:
    """An act with its lamport as its id and link too."""
    name = "community.created" if kind == "created" else f"community.member.{kind}"
    return Act(lamport, bytes([lamport]), bytes([lamport]), actor, seq, name, node, **fields)


def rank(roster: Roster, node: str, lamport: int, seq: int = 1) -> int:
    """The rank of a node at an event."""
    return roster.rank(node, (lamport, b"\xff", b"\xff"), seq)


FOUNDED = [
    act(1, A, "created", A, rank=OWNER),
    act(2, A, "invited", B, seq=2, rank=ADMIN),
    act(3, B, "joined", B),
    act(4, B, "invited", C, seq=2, rank=MEMBER),
    act(5, C, "joined", C),
]


def test_ranks_come_from_invitations() -> None:
    """COM-05: the founder owns, an admin is made by the founder, a member by an admin."""
    roster = Roster(FOUNDED)
    assert [rank(roster, node, 9) for node in (A, B, C, D)] == [OWNER, ADMIN, MEMBER, NONE]
    assert rank(roster, C, 4) == NONE, "before joining it is none"


def test_an_invitation_needs_a_higher_rank() -> None:
    """COM-05: a member cannot invite, an admin cannot make admins."""
    roster = Roster([*FOUNDED, act(6, C, "invited", D, seq=2, rank=MEMBER), act(7, D, "joined", D)])
    assert rank(roster, D, 9) == NONE
    roster = Roster([*FOUNDED, act(6, B, "invited", D, seq=3, rank=ADMIN), act(7, D, "joined", D)])
    assert rank(roster, D, 9) == NONE


def test_only_a_strictly_higher_rank_revokes_or_demotes() -> None:
    """COM-05: equals cannot put each other out, and nobody the founder."""
    admins = [*FOUNDED, act(6, A, "promoted", C, seq=3, rank=ADMIN)]
    assert rank(Roster([*admins, act(7, C, "revoked", B, seq=2)]), B, 9) == ADMIN
    assert rank(Roster([*admins, act(7, C, "demoted", B, seq=2, rank=MEMBER)]), B, 9) == ADMIN
    assert rank(Roster([*admins, act(7, C, "revoked", A, seq=2)]), A, 9) == OWNER
    assert rank(Roster([*admins, act(7, A, "revoked", B, seq=4)]), B, 9) == NONE


def test_a_revocation_cuts_behind_what_was_seen() -> None:
    """COM-05: events up to the cut stay, later ones do not count, however old they pretend to be."""
    roster = Roster([*FOUNDED, act(20, B, "revoked", C, seq=3, cut=4)])
    assert rank(roster, C, 10, seq=4) == MEMBER
    assert rank(roster, C, 10, seq=5) == NONE, "backdated"
    assert rank(roster, C, 21, seq=4) == NONE, "at or behind the revocation's lamport"


def test_a_demoted_admin_cannot_backdate_its_acts() -> None:
    """COM-05: an act behind the cut of a demotion has the lower rank, so a duel is decided by the higher rank."""
    duel = [
        *FOUNDED,
        act(10, B, "revoked", C, seq=9, cut=0),  # written after the demotion, with an old lamport
        act(20, A, "demoted", B, seq=3, rank=MEMBER, cut=2),
    ]
    assert rank(Roster(duel), C, 15) == MEMBER


def test_a_cut_reaches_back_only_over_lower_ranks() -> None:
    """COM-05: an admin who revokes a former admin does not undo what that one did with equal rank."""
    story = [
        *FOUNDED,
        act(6, A, "promoted", C, seq=3, rank=ADMIN),
        act(7, C, "invited", D, seq=2, rank=MEMBER),
        act(8, D, "joined", D),
        act(9, A, "demoted", C, seq=4, rank=MEMBER, cut=2),
        act(10, B, "revoked", C, seq=3, cut=0),
    ]
    roster = Roster(story)
    assert rank(roster, C, 7, seq=2) == ADMIN
    assert rank(roster, D, 12) == MEMBER
    assert rank(roster, C, 12, seq=3) == NONE


def test_an_invitation_admits_as_many_as_it_says() -> None:
    """COM-05: with one use, the first in the merged order joins."""
    invited = [*FOUNDED[:3], act(4, B, "invited", keys(8).node, seq=2, rank=MEMBER, uses=1)]
    joins = [act(6, C, "joined", keys(8).node), act(5, D, "joined", keys(8).node)]
    roster = Roster([*invited, *joins])
    assert (rank(roster, D, 9), rank(roster, C, 9)) == (MEMBER, NONE)


def test_who_was_revoked_needs_a_new_invitation() -> None:
    """COM-05: the old one is spent, a later one brings the node back from there on."""
    revoked = [*FOUNDED, act(6, B, "revoked", C, seq=3, cut=1), act(7, C, "joined", C, seq=2)]
    assert rank(Roster(revoked), C, 9, seq=3) == NONE
    back = [*revoked, act(8, B, "invited", C, seq=4, rank=MEMBER), act(9, C, "joined", C, seq=3)]
    assert rank(Roster(back), C, 10, seq=4) == MEMBER
    assert rank(Roster(back), C, 7, seq=2) == NONE


def test_leaving_counts_itself() -> None:
    """COM-05: a node may revoke itself; that event counts, what follows does not."""
    roster = Roster([*FOUNDED, act(6, C, "revoked", C, seq=2, cut=2)])
    assert roster.rank(C, (6, bytes([6]), bytes([6])), 2) == MEMBER
    assert rank(roster, C, 7, seq=3) == NONE


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(5, 25))
def test_the_order_of_arrival_does_not_matter(source: random.Random, count: int) -> None:
    """COM-05, COM-07: any acts, shuffled, give the same ranks at every event."""
    kinds = ["invited", "joined", "promoted", "demoted", "revoked"]
    acts = [FOUNDED[0]]
    for lamport in range(2, 2 + count):
        fields = {"rank": source.choice([MEMBER, ADMIN]), "cut": source.randrange(6)}
        acts.append(
            act(
                lamport,
                source.choice([A, B, C, D]),
                source.choice(kinds),
                source.choice([A, B, C, D]),
                seq=source.randrange(1, 9),
                **fields,
            )
        )
    shuffled = list(acts)
    source.shuffle(shuffled)
    one, other = Roster(acts), Roster(shuffled)
    assert all(
        rank(one, node, lamport, seq) == rank(other, node, lamport, seq)
        for node, lamport, seq in itertools.product((A, B, C, D), range(30), range(9))
    )


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 3), st.integers(0, 1))), st.data())
def test_a_stair_of_cuts_answers_as_all_lowerings_do(
    made: list[tuple[int, int, int, int]], data: st.DataObject
) -> None:
    """COM-05: what is left out of the stair never decides anything."""
    lowerings = RankReductions()
    for lamport, cut, by, left in made:
        lowerings.add(((lamport, b"", b""), 1), by=by, rank=left, cut=cut)
    place, seq, rank_ = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9)), data.draw(st.integers(0, 3))
    later = [left for lamport, cut, by, left in made if lamport >= place and cut < seq and rank_ < by]
    assert lowerings.lowered(rank_, ((place, b"", b""), 0), seq) == min([rank_, *later])
    last = data.draw(st.integers(0, 9))
    between = any(place < lamport < last for lamport, *_ in made)
    assert lowerings.between((place, b"", b""), (last, b"", b"")) == between


def test_the_newest_invitation_of_a_key_counts() -> None:
    """COM-05: of two single-use invitations of one key, the second stands in for the first."""
    made = [*FOUNDED[:3], act(4, B, "invited", keys(8).node, seq=2, rank=MEMBER), act(5, C, "joined", keys(8).node)]
    again = act(6, B, "invited", keys(8).node, seq=3, rank=MEMBER)
    assert not Roster(made).admits(D, keys(8).node)
    assert Roster([*made, again]).admits(D, keys(8).node)
    joined = Roster([*made, again, act(7, D, "joined", keys(8).node)])
    assert (rank(joined, C, 9), rank(joined, D, 9)) == (MEMBER, MEMBER)
    assert not joined.admits(keys(9).node, keys(8).node)


def test_a_fork_counts_up_to_where_it_begins(log: EventLog, member: Callable[..., Author]) -> None:
    """COM-05: two events for one place are evidence; from there on nothing of the author counts, on either branch."""
    author = member(2)
    shared = author.write()
    log.append_received(shared)
    left, right = author.entry(data={"text": "left"}), author.entry(data={"text": "right"})
    plan = log.replica.plan([left, right])
    log.take_in(plan)
    assert log.replica.forks() == {author.node: 3}
    counted = {event.event_id for event in log.replay()}
    assert shared.event_id in counted
    assert log.replica.feeds[author.node].head.seq == 3
    assert len(counted) == len(log.replica.by_link) - 1


def test_evidence_survives_a_restart(open_log: Callable[..., EventLog], founder: KeyPair) -> None:
    """COM-05: the pair is kept in the store, beside the feed."""
    log = open_log(founder.node, node=founder.node, file="a.db")
    log.append_local("community.created", {}, founder)
    liar = Author(founder, founder.node)
    liar.head, liar.lamport = (1, log.replica.feeds[founder.node].head.link), 1
    log.take_in(log.replica.plan([liar.entry(data={"n": 1}), liar.entry(data={"n": 2})]))
    assert log.replica.forks() == {founder.node: 2}
    again = open_log(founder.node, node=founder.node, file="a.db")
    assert again.replica.forks() == {founder.node: 2}
    assert again.replica.fingerprint() == log.replica.fingerprint()
    assert isinstance(again.replica, Replica)

"""Commits that are done in parts: what becomes of each."""

from __future__ import annotations

from collections.abc import Sequence

from tallystick import errors
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.group_commit import commit_each, commit_or_split


class Disk:
    """Takes one transaction at a time, and is full at some of them; refuses groups as an inline projection does."""

    def __init__(self, *full: int) -> None:
        self.full = full
        self.calls = 0

    def commit(self, group: Sequence[Transaction]) -> list[Outcome]:
        """The outcome of a group."""
        if len(group) > 1:
            raise errors.ProjectionRefused(projection="p", position=1, reason="not together")
        self.calls += 1
        if self.calls in self.full:
            raise errors.NoSpace(needed=1, path="/")
        return [[]]


def test_a_failure_of_one_part_is_not_told_to_the_others() -> None:
    """SAFE-05: whichever part fails, those before and after it are told what became of them."""
    parts = [[Transaction([])] for _ in range(4)]
    outcomes = commit_each(parts, Disk(1, 3).commit)
    assert [isinstance(outcome, errors.NoSpace) for outcome in outcomes] == [True, False, True, False]
    assert outcomes[0] is not outcomes[2]


def test_what_is_committed_alone_after_a_refusal_has_its_own_outcome() -> None:
    """SAFE-05: a group that an inline projection refuses is committed one by one; a full disk fails one of them."""
    outcomes = commit_or_split(Disk(2).commit, [Transaction([]) for _ in range(3)])
    assert [isinstance(outcome, errors.NoSpace) for outcome in outcomes] == [False, True, False]


def test_a_bad_one_among_many_costs_the_others_few_commits() -> None:
    """SAFE-09: a group of 1,024 with one that is refused takes some twenty commits, not a thousand."""
    group = [Transaction([]) for _ in range(1024)]
    commits: list[int] = []

    def commit(given: Sequence[Transaction]) -> list[Outcome]:
        commits.append(len(given))
        if any(each is group[700] for each in given):
            raise errors.ProjectionRefused(projection="p", position=1, reason="not this one")
        return [[] for _ in given]

    outcomes = commit_or_split(commit, group)
    refused = [at for at, outcome in enumerate(outcomes) if isinstance(outcome, errors.ProjectionRefused)]
    assert refused == [700]
    assert len(commits) == 21

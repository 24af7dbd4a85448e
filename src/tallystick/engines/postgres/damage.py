"""The record of damage in `tally.damage`. A trigger looks at it in every append, so it stops every process.

Only `tally_maintenance` settles it. A crash meanwhile leaves rows that are being settled: the store was verified, so
appends continue, and the next `tally doctor --repair` records the missing fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

from tallystick import errors
from tallystick.engines.postgres import statements, translate
from tallystick.engines.postgres.connections import MAINTENANCE, ReadConnections, ServerConnections
from tallystick.store.damage import KEPT_MAX, refusal
from tallystick.store.events import Problem


class PostgresDamage:
    """The record of the whole database. A handle for one org neither sees nor changes it."""

    def __init__(self, connections: ReadConnections, *, maintains: bool) -> None:
        self._connections = connections
        self._maintains = maintains

    def known(self) -> list[Problem]:
        if not self._is_whole:
            return []
        return [Problem(*row) for row in self._connections.rows("known_damage", (KEPT_MAX,))]

    def keep(self, problems: Sequence[Problem]) -> None:
        self._require_whole()
        columns = ([getattr(item, name) for item in problems] for name in Problem.__struct_fields__)
        try:
            assert isinstance(self._connections, ServerConnections)
            with self._connections.transaction(read_write=True) as connection:
                connection.execute(statements.named("keep_damage"), (KEPT_MAX, *columns))
        except errors.TallyError as problem:
            raise errors.NotRecorded(path=self._connections.url, reason=problem.message) from problem

    @contextmanager
    def settling(self, verified: Sequence[Problem]) -> Iterator[None]:
        self._require_whole()
        if not self._maintains:
            reason = f"the role that logs in is not a member of {MAINTENANCE}"
            raise errors.NotPermitted(url=self._connections.url, reason=reason)
        self._begin(verified)
        try:
            yield
        except BaseException:
            self._settle("settle_damage", (False,))
            raise
        self._settle("forget_settled_damage")

    def _begin(self, verified: Sequence[Problem]) -> None:
        """Let appends pass, unless the record has a finding that was not verified. A later finding stops them again."""
        with self._connections.transaction() as connection:
            connection.execute(statements.named("become_maintenance"))
            connection.execute(statements.named("settle_damage"), (True,))
            known = [Problem(*row) for row in connection.execute(statements.named("known_damage"), (KEPT_MAX,))]
            if since := [problem for problem in known if problem not in verified]:
                raise refusal(since)

    def _settle(self, name: str, values: tuple[bool, ...] = ()) -> None:
        with self._connections.transaction() as connection:
            connection.execute(statements.named("become_maintenance"))
            connection.execute(statements.named(name), values)

    @property
    def _is_whole(self) -> bool:
        return isinstance(self._connections, ServerConnections) and self._connections.org is None

    def _require_whole(self) -> None:
        if not self._is_whole:
            reason = f"this handle sees only what belongs to {self._connections.org!r}"
            raise errors.NotRecorded(path=self._connections.url, reason=reason)


def refused(problem: psycopg.Error, connections: ReadConnections) -> errors.Damaged | None:
    """The refusal of an append because damage is on record; None for any other problem."""
    if problem.sqlstate != translate.DAMAGE_ON_RECORD:
        return None
    known = PostgresDamage(connections, maintains=False).known()
    return refusal(known or [Problem("damage", "the database has damage on record")])

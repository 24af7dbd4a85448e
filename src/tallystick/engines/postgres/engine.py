"""The log in PostgreSQL: the schema in `sql/`, written and read by any number of processes.

Invariants: only the functions of the schema write events. A commit is decided under locks that are held until it is
durable. A read ends at the safe head, with a snapshot that was taken after the head was proven. A page and the cuts are
seen with one snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import starmap
from typing import Any

from tallystick import errors
from tallystick.engines.postgres import conditions, inspection, maintenance, queries, statements, transfers
from tallystick.engines.postgres.commands import PostgresCommands
from tallystick.engines.postgres.connections import CONTROL, ReadConnections, ServerConnections
from tallystick.engines.postgres.consumers import PostgresCheckpoints, PostgresDeadLetters
from tallystick.engines.postgres.damage import PostgresDamage
from tallystick.engines.postgres.inline import InlineCommit
from tallystick.engines.postgres.ledger_view import cut_of
from tallystick.engines.postgres.maintenance import PostgresSnapshots
from tallystick.engines.postgres.opener import DatabaseOpener, Login, OpenedDatabase
from tallystick.engines.postgres.run_tables import PostgresRunTables
from tallystick.engines.postgres.safe_head import HeadPublisher, HeadWaiter, SafeHead
from tallystick.engines.postgres.transactions import OwnTransactions
from tallystick.engines.postgres.view_tables import PostgresTables
from tallystick.engines.postgres.views import PostgresViews, not_whole
from tallystick.engines.postgres.writer import Writer
from tallystick.event import limits, names
from tallystick.event.model import Event
from tallystick.store import capabilities, checked, transfer
from tallystick.store.checkpoints import Checkpoints
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.damage import with_known
from tallystick.store.events import PAGE_EVENTS, Consulted, Problem, Report
from tallystick.store.idempotency import CommandRecords
from tallystick.store.ledger import Head, Holder
from tallystick.store.loss import Loss
from tallystick.store.maintenance import Cut, PrunedEvent, Reclaimed, require_history, require_positions
from tallystick.store.page import Hole, Page, StreamInfo
from tallystick.store.query import Condition, Query
from tallystick.store.run_documents import RunDocuments
from tallystick.store.run_tables import RunTables
from tallystick.store.selection import EVERYTHING, Selection
from tallystick.store.server_sql import SessionQuery
from tallystick.store.snapshots import Snapshots
from tallystick.store.summary_sql import SummaryQuery
from tallystick.store.transfer import Transfer
from tallystick.store.views import Inline

BUSY_MS = 60_000
_PRUNED_PAGE = 10_000
CONNECTIONS_MAX = 16
_BUSY_MS_MAX = 3_600_000
_CONNECTIONS_LIMIT = 1000
# A long range is read along an index that has its order. Before its first ANALYZE, a server would sort the rows.
_BY_POSITION = {"enable_sort": "off", "enable_bitmapscan": "off", "jit": "off"}


def open_postgres(
    url: str,
    *,
    readonly: bool,
    create: bool,
    profile: str | None,
    clock: Callable[[], int],
    busy_ms: int = BUSY_MS,
    connections_max: int = CONNECTIONS_MAX,
    org: str | None = None,
    infrastructure: Sequence[str] = (),
) -> PostgresLog:
    """Open the log in the database of `url`.

    `busy_ms` bounds how long a commit waits for others, `connections_max` how many connections the handle keeps.
    `org` limits the handle to one tenant: with `readonly` it has the tenant's view, otherwise it is a service that
    acts for the tenant. `infrastructure` names kinds of streams that no tenant can see.
    """
    if type(busy_ms) is not int or not 1 <= busy_ms <= _BUSY_MS_MAX:
        raise errors.InvalidValue(what="busy_ms", value=busy_ms, must=f"from 1 to {_BUSY_MS_MAX}")
    if type(connections_max) is not int or not 1 <= connections_max <= _CONNECTIONS_LIMIT:
        raise errors.InvalidValue(what="connections_max", value=connections_max, must=f"from 1 to {_CONNECTIONS_LIMIT}")
    if org is not None:
        names.check_label("org", org)
    for kind in infrastructure:
        names.check_kind(kind)
    opening = DatabaseOpener(url, profile=profile, clock=clock, org=org, readonly=readonly)
    opened = opening.open(create=create)
    connections = ServerConnections(
        url,
        role=opened.role,
        org=org,
        readonly=readonly or opened.standby,
        busy_ms=busy_ms,
        connections_max=connections_max,
        pooled=opened.pooled,
    )
    connections.open()
    if infrastructure and not readonly:
        _declare(connections, infrastructure, opened.login)
    reason = f"{connections.url} was opened for reading" if readonly else None
    if opened.standby:
        reason = f"{connections.url} is a standby"
    holder = None if reason else Holder()
    return PostgresLog(
        connections,
        opened,
        readonly_reason=reason,
        readonly=readonly,
        checkpoints=PostgresCheckpoints(connections, readonly_reason=reason),
        writer=None if holder is None else Writer(connections, holder=holder, clock=clock, org=org, login=opened.login),
        publisher=None if holder is None else HeadPublisher(connections),
    )


def _declare(connections: ServerConnections, infrastructure: Sequence[str], login: Login) -> None:
    """Declare the kinds that are new. It hides streams from tenants permanently, so a login that appends may not."""
    new = sorted(set(infrastructure) - {kind for (kind,) in connections.rows("find_infrastructure")})
    if not new:
        return
    if CONTROL not in login.roles:
        reason = f"{', '.join(new)} cannot be declared as infrastructure: the login is not a member of {CONTROL}"
        raise errors.NotPermitted(url=connections.url, reason=reason)
    with connections.transaction() as connection:
        connection.execute(statements.named("set_local_setting"), ("role", CONTROL))
        connection.execute(statements.named("declare_infrastructure"), (new,))


class PostgresLog:
    """An event log in PostgreSQL. Open it with `open_postgres`."""

    engine = "postgres"
    capabilities = capabilities.ALL
    run_documents: RunDocuments | None = None

    def __init__(
        self,
        connections: ReadConnections,
        opened: OpenedDatabase,
        *,
        readonly_reason: str | None,
        readonly: bool,
        checkpoints: Checkpoints,
        writer: Writer | None = None,
        publisher: HeadPublisher | None = None,
    ) -> None:
        self.url = connections.url
        self.address = connections.address
        self.store_id = opened.store_id
        self.profile = opened.profile
        self.readonly = readonly
        self.checkpoints = checkpoints
        self.snapshots: Snapshots = PostgresSnapshots(connections)
        self.commands: CommandRecords = PostgresCommands(connections, forget=self._forget)
        transactions = OwnTransactions(connections, refusal=readonly_reason)
        self.views = PostgresViews(transactions, refusal=readonly_reason or not_whole(connections.org))
        self.dead_letters = PostgresDeadLetters(transactions)
        self.view_tables = PostgresTables(connections, refusal=readonly_reason, login=opened.login)
        self.run_tables: RunTables | None = PostgresRunTables(self.view_tables) if opened.login.projects else None
        self.damage = PostgresDamage(connections, maintains=opened.login.maintains)
        self._opened = opened
        self._connections = connections
        self._readonly_reason = readonly_reason
        self._safe_head = SafeHead(connections)
        self._waiter = HeadWaiter(self._safe_head)
        self._writer = writer
        self._publisher = publisher
        self._closed = False

    def for_tenant(self, org: str) -> PostgresLog:
        """The same log as a tenant sees it, for reading, over the same connections. It ends with this handle."""
        names.check_label("org", org)
        if not isinstance(self._connections, ServerConnections):
            raise errors.ReadOnly(reason="this handle is already limited to a tenant")
        return PostgresLog(
            self._connections.of_tenant(org),
            self._opened,
            readonly_reason=f"it is the view of {org!r} on {self.url}",
            readonly=True,
            checkpoints=self.checkpoints,
        )

    # --- writing ---------------------------------------------------------------------------------------------------

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        outcomes = self._require_writer().commit(transactions)
        for outcome in outcomes:
            if isinstance(outcome, list) and outcome:
                last = max(outcome, key=lambda done: done.last_position)
                self._connections.history.note(last.last_position, last.link)
        self._waiter.wake()
        if self._publisher is not None:
            self._publisher.note()
        return outcomes

    def receive(self, part: Transfer) -> None:
        writer = self._require_writer()
        writer.receive(transfer.judge(transfers.StoredEnds(self._connections), part, head=self.head()))
        self._waiter.wake()
        if self._publisher is not None:
            self._publisher.note()

    def announced(self) -> int:
        return int(self._connections.value("announced"))

    def consult(self, query: Query, *, after: int, org: str | None, over_pruned: bool) -> Consulted:
        asked = Condition(query, after, org=org)
        return conditions.consult(self, self._connections, self._safe_head, asked, over_pruned=over_pruned)

    def pruned_events(self) -> Iterator[PrunedEvent]:
        after = 0
        while page := self._connections.rows("list_pruned", (after, _PRUNED_PAGE)):
            yield from (PrunedEvent(at, id_, type_, org, tuple(tags)) for at, id_, type_, org, tags in page)
            after = page[-1][0]

    @property
    def inline(self) -> Inline | None:
        """The projections that each commit folds. A commit then locks the whole log."""
        commit = None if self._writer is None else self._writer.inline
        return None if commit is None else commit.projections

    @inline.setter
    def inline(self, inline: Inline | None) -> None:
        assert isinstance(self._connections, ServerConnections)
        commit = None if inline is None else InlineCommit(inline, self._connections, self._safe_head)
        self._require_writer().inline = commit

    def _require_writer(self) -> Writer:
        if self._closed:
            raise errors.StoreClosed()
        if self._writer is None:
            raise errors.ReadOnly(reason=self._readonly_reason or "")
        return self._writer

    def _forget(self, before: int, limit: int) -> int:
        return self._require_writer().forget(before, limit)

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        selection: Selection = EVERYTHING,
        limit: int = PAGE_EVENTS,
        over_holes: bool = False,
        over_pruned: bool = False,
        unchecked: bool = False,
    ) -> Page:
        page = self._read(after, until, selection, limit, over_pruned)
        if unchecked:
            return page
        gapless = selection.is_everything and self._connections.org is None
        page = checked.page(self.damage, page, self, after=after, over_holes=over_holes, gapless=gapless)
        if selection.query is not None:
            conditions.require_matching(self.damage, Condition(selection.query, org=selection.org), page.events)
        return page

    def _read(self, after: int, until: int | None, selection: Selection, limit: int, over_pruned: bool) -> Page:
        end = self._end(after, until)
        if after >= end:
            return Page([], max(after, 0))
        asked = (self._connections, selection)
        page, is_of_one_moment = queries.page(*asked, after=after, until=end, limit=limit, over_pruned=over_pruned)
        if page.events:
            self._connections.history.note(page.events[-1].position, page.events[-1].link)
        if not over_pruned and not (page.events and is_of_one_moment):
            # cuts only grow: one that emptied the page, or a part of it, is still found
            require_positions(selection, self._cuts_of(selection.streams), self.floor(), after=after)
        return page

    def summed(self, asked: SummaryQuery, *, until: int) -> list[tuple[Any, ...]]:
        found = queries.summed(self._connections, asked, until=self._end(0, until))
        if not found:  # as for a page: cuts only grow
            require_positions(EVERYTHING, {}, self.floor(), after=0)
        return found

    def session_query(
        self, columns: Sequence[str], *, selection: Selection, after: int, until: int, over_pruned: bool
    ) -> SessionQuery:
        assert isinstance(self._connections, ServerConnections), (
            "open the log for the tenant: `for_tenant` has no session"
        )
        query, values = queries.range_query(columns, selection, after=after, until=until, over_pruned=over_pruned)
        settings = {} if selection.streams else _BY_POSITION
        return SessionQuery(self._connections.set_up_elsewhere(settings), self._connections.quoted(query, values))

    def _end(self, after: int, until: int | None) -> int:
        """Where a page may end. The database is asked only if the known head is too low."""
        if until is not None and until <= self._safe_head.known and not self._closed:
            return until
        head = self._safe_head.glance()
        return head if until is None else min(until, head)

    def read_stream(self, stream: str, *, after: int = 0, until: int | None = None, limit: int) -> list[Event]:
        upto = limits.INT_MAX if until is None else until
        values = {"stream": stream, "after": after, "until": upto, "limit": limit + (after > 0)}
        events = list(starmap(Event, self._connections.rows("read_stream", values)))
        before = 1 if events and events[0].seq == after else 0
        if len(events) == before or events[before].seq > after + 1:  # the next event was pruned, or does not exist
            require_history(self.cut(stream), after=after)
        gapless = self._connections.org is None
        return checked.stream(self.damage, events[: limit + before], self, after=after, gapless=gapless)

    def find(self, id: bytes) -> Event | None:
        rows = self._connections.rows("find_event", (id.hex(),))
        return checked.event(self.damage, Event(*rows[0]) if rows else None, self)

    def links_before(self, events: Sequence[Event]) -> list[bytes | None]:
        links = self._links_before(events)
        if None not in links or self._connections.org is not None or self.announced() > self.head():
            return links
        links = self._links_before(events)  # looked up again: a transfer may have ended meanwhile
        streams = {event.stream for event, link in zip(events, links, strict=True) if link is None}
        return checked.predecessor_links(events, links, self._cuts_of(streams).get)

    def _links_before(self, events: Sequence[Event]) -> list[bytes | None]:
        asked = [
            [event.position for event in events],
            [event.stream for event in events],
            [event.seq for event in events],
        ]
        found = dict(self._connections.rows("links_before", asked * 2))
        return [found.get(event.position) for event in events]

    def erased(self, positions: Sequence[int]) -> set[int]:
        if self._connections.org is not None:  # a tenant need not see the facts about its events
            return set(positions)
        return {position for (position,) in self._connections.rows("find_erasures", (list(positions),))}

    def head(self) -> int:
        return self._safe_head.prove()

    def floor(self) -> int:
        return int(self._connections.value("floor"))

    def cut(self, stream: str) -> Cut | None:
        return self._cuts_of([stream]).get(stream)

    def _cuts_of(self, streams: Collection[str]) -> dict[str, Cut]:
        if not streams:
            return {}
        return {cut.stream: cut for cut in map(cut_of, self._connections.rows("find_cuts", (list(streams),)))}

    def cuts(self, *, after: str = "", limit: int) -> list[Cut]:
        return list(map(cut_of, self._connections.rows("list_cuts", (after, limit))))

    def pruned(self, id: bytes) -> bool:
        return bool(self._connections.value("is_pruned", (id.hex(),)))

    def stream_head(self, stream: str) -> Head | None:
        rows = self._connections.rows("stream_head", (stream,))
        return Head(*rows[0]) if rows else None

    def streams(self, *, after: str = "", limit: int) -> list[StreamInfo]:
        return list(starmap(StreamInfo, self._connections.rows("list_streams", (after, limit))))

    def recorded_at(self, position: int) -> int | None:
        rows = self._connections.rows("recorded_at", (position,))
        return rows[0][0] if rows else None

    def wait(self, after: int, *, timeout: float) -> int:
        self._connections.process.require()
        return self._waiter.head(after, timeout=timeout)

    # --- health ----------------------------------------------------------------------------------------------------

    def holes(self) -> list[Hole]:
        return []

    def losses(self) -> list[Loss]:
        return []

    def check(self, progress: Callable[[int], None]) -> Iterator[Problem]:
        return inspection.check(self._connections, progress)

    def reclaim(self, *, compress_before: int | None, progress: Callable[[int], None]) -> Reclaimed:
        self._require_writer()
        assert isinstance(self._connections, ServerConnections)
        return maintenance.reclaim(self._connections, progress, allowed=self._opened.login.maintains)

    def report(self) -> Report:
        facts, problems = inspection.report(self._connections)
        return Report(self.engine, facts, self._opened.recovered, tuple(with_known(problems, self.damage.known())))

    # --- life ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if not self._connections.process.is_current:  # a forked child owns none of this
            return
        self._waiter.close()
        if self._publisher is not None:
            self._publisher.close()
        if self._writer is not None:
            self._writer.close()
        self._connections.close()

"""The port: what an engine must do. `tallystick.testing.contract` has the same as tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tallystick.event.model import Event
from tallystick.store.checkpoints import Checkpoints
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.deadletters import DeadLetters
from tallystick.store.idempotency import CommandRecords
from tallystick.store.maintenance import Cut, PrunedEvent, Reclaimed
from tallystick.store.page import Hole, Page, StreamInfo
from tallystick.store.query import Query
from tallystick.store.run_documents import RunDocuments
from tallystick.store.run_tables import RunTables
from tallystick.store.selection import EVERYTHING, Selection
from tallystick.store.snapshots import Snapshots
from tallystick.store.tables import ViewTables
from tallystick.store.views import Inline, Views

if TYPE_CHECKING:
    from tallystick.store.damage import DamageRecord
    from tallystick.store.ledger import Head
    from tallystick.store.loss import Loss
    from tallystick.store.transfer import Transfer

PAGE_EVENTS = 1000


class Consulted(msgspec.Struct, frozen=True):
    """The events that match a query. `head` was proven before they were read; `beyond` of the matching are past it.

    `beyond` counts what matches past the head, pruned or not.
    """

    events: list[Event]
    head: int
    beyond: int = 0


class Problem(msgspec.Struct, frozen=True):
    """One finding of verification, and its place. Position 0 means that it is not about a single event."""

    what: str
    reason: str
    position: int = 0
    stream: str = ""
    seq: int = 0


class Report(msgspec.Struct, frozen=True):
    """What `tally doctor` shows of an engine: facts, what recovery did when it was opened, and what is wrong now."""

    engine: str
    facts: dict[str, Any]
    recovered: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class EventLog(Protocol):
    """An append-only log.

    Modes: open for writing, read-only by request, read-only because it is damaged (`holes`) or because damage is on
    record (`damage`), closed. An outcome that is not an error is durable. Reads never go past `head`, so they never
    skip an event that becomes visible later.
    """

    engine: str
    url: str
    store_id: bytes
    profile: str
    capabilities: frozenset[str]
    readonly: bool
    inline: Inline | None

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints of consumers."""

    @property
    def snapshots(self) -> Snapshots:
        """The bodies of snapshots."""

    @property
    def commands(self) -> CommandRecords:
        """The records of commands that were run."""

    @property
    def views(self) -> Views:
        """The rows of projections. A handle that is open for reading can write them too if they are next to the log."""

    @property
    def view_tables(self) -> ViewTables:
        """SQL tables that projections own."""

    @property
    def run_documents(self) -> RunDocuments | None:
        """Documents next to the logs of runs; None if the engine has no place for them."""

    @property
    def run_tables(self) -> RunTables | None:
        """Tables of runs; None if the engine has none."""

    @property
    def dead_letters(self) -> DeadLetters:
        """Events that consumers could not handle."""

    @property
    def damage(self) -> DamageRecord:
        """Damage that was found and is not settled. The record is durable and seen by every process."""

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        """Judge each transaction on its own; write and sync together those that pass. Callable from any thread.

        While damage is on record, `Damaged` names it and nothing is written.
        """

    def receive(self, part: Transfer) -> None:
        """Take over a part of another store's log with its positions, in one commit; see `transfer.judge`.

        It must continue exactly where this log ends. All its hashes are computed again before anything is written.
        """

    def announced(self) -> int:
        """The last position at which a part that was taken over announced a control fact; 0 if there is none.

        If it is after the head, the move is unfinished.
        """

    def pruned_events(self) -> Iterator[PrunedEvent]:
        """What is kept of every pruned event, ascending by position."""

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
        """Events with after < position <= until that are selected, ascending, at most `limit`.

        Every event is checked (`store/checked.py`): its payload against its checksum, and its link if the event before
        it is visible. A wrong event is a hole from then on, and goes on record. With `unchecked` events are returned as
        they are stored: only for verification, which reports every wrong event.

        A page ends before a hole, and a read that starts at one raises `Damaged` with its range. With `over_holes` the
        page continues after the hole and lists it. A read that starts before a pruned event that it might have selected
        raises `HistoryPruned` (`maintenance.require_positions`). With `over_pruned` it returns what is left.
        """

    def read_stream(self, stream: str, *, after: int = 0, until: int | None = None, limit: int) -> list[Event]:
        """Events of one stream with after < seq <= until, ascending, at most `limit`; fewer only if there are no more.

        Every event is checked: its payload, its seq, and its link, the first one's too.
        A read that starts in the pruned part raises `HistoryPruned`; one that meets a damaged event raises `Damaged`.
        """

    def consult(self, query: Query, *, after: int, org: str | None, over_pruned: bool) -> Consulted:
        """Every event past `after` that matches, also past the head if it is recorded; with `org`, those of one tenant.

        A matching event that was pruned raises `HistoryPruned`, unless `over_pruned`. Damage on the way is refused.
        """

    def find(self, id: bytes) -> Event | None:
        """The event with this id, checked; None if there is no such event, or if it was pruned."""

    def head(self) -> int:
        """The highest position that is final: 0 in an empty log."""

    def floor(self) -> int:
        """The highest position that was pruned: 0 if nothing was."""

    def stream_head(self, stream: str) -> Head | None:
        """The end of a stream, pruned or not; None if it does not exist."""

    def cut(self, stream: str) -> Cut | None:
        """The cut of a stream; None if nothing was pruned."""

    def cuts(self, *, after: str = "", limit: int) -> list[Cut]:
        """At most `limit` cuts in order of stream, those after `after`; fewer only if there are no more."""

    def pruned(self, id: bytes) -> bool:
        """Whether an event with this id was recorded, and pruned since: a retry must not record it again."""

    def streams(self, *, after: str = "", limit: int) -> list[StreamInfo]:
        """At most `limit` streams in order of name, those after `after`; fewer only if there are no more.

        In a log with `holes` they are the streams that are left, each as far as it is left.
        """

    def recorded_at(self, position: int) -> int | None:
        """When this store recorded the event, in ns of its own clock. It is not part of any hash; retention uses it."""

    def wait(self, after: int, *, timeout: float) -> int:
        """The head, as soon as it is past `after`, or after the time-out."""

    def holes(self) -> list[Hole]:
        """The known damaged ranges."""

    def losses(self) -> list[Loss]:
        """The lost ranges that were accepted, or are being accepted, in order. They are not listed as holes."""

    def check(self, progress: Callable[[int], None]) -> Iterator[Problem]:
        """Verify the engine's own structures: frames, indexes, tables. Events are verified by reading them."""

    def reclaim(self, *, compress_before: int | None, progress: Callable[[int], None]) -> Reclaimed:
        """Give the space of pruned, erased and repeated data back to the disk, while readers continue.

        Data that was recorded before `compress_before` (ns) and no longer changes is compressed, if the engine can.
        """

    def report(self) -> Report:
        """Facts for the operator."""

    def close(self) -> None:
        """Release everything. Safe to call twice."""

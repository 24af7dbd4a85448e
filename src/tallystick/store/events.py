"""The port: what an engine of the log must do. `tallystick.testing.contract` is this page as tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tallystick.event.model import Event
from tallystick.store.checkpoints import Checkpoints
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.deadletters import DeadLetters
from tallystick.store.idempotency import Commands
from tallystick.store.maintenance import Cut, Reclaimed
from tallystick.store.page import Hole, Page, StreamInfo
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


class Problem(msgspec.Struct, frozen=True):
    """One thing that verification found wrong, and where. Position 0 means that no single event is meant."""

    what: str
    reason: str
    position: int = 0
    stream: str = ""
    seq: int = 0


class Report(msgspec.Struct, frozen=True):
    """What `tally doctor` shows of an engine: facts, what recovery did at this opening, and what is wrong now."""

    engine: str
    facts: dict[str, Any]
    recovered: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class EventLog(Protocol):
    """An append-only log.

    Modes: open for writing, read-only by request, read-only because it is damaged (`holes`) or because damage is on
    record (`damage`), closed. An outcome that is not an error is durable. Reads never go past `head`, and never skip
    what becomes visible later.
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
        """Where consumers keep their places."""

    @property
    def snapshots(self) -> Snapshots:
        """The bodies of snapshots."""

    @property
    def commands(self) -> Commands:
        """The commands that were run."""

    @property
    def views(self) -> Views:
        """The rows of projections. A log that is open for reading may keep them too, where they stand beside it."""

    @property
    def view_tables(self) -> ViewTables:
        """SQL tables that projections own."""

    @property
    def run_documents(self) -> RunDocuments | None:
        """Documents beside the logs of runs; None where the engine has no place for them."""

    @property
    def run_tables(self) -> RunTables | None:
        """Tables of runs; None where the engine has none."""

    @property
    def dead_letters(self) -> DeadLetters:
        """What consumers could not handle."""

    @property
    def damage(self) -> DamageRecord:
        """What was found damaged and is not settled: durable, and seen by every process that opens the store."""

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        """Judge each transaction on its own; write and sync once what passed. Callable from any thread.

        While damage is on record, `Damaged` names it and nothing is written.
        """

    def receive(self, part: Transfer) -> None:
        """Take over a part of another store's log, positions and all, in one commit; see `transfer.judge`.

        It goes on exactly where this log ends. What it claims is computed again before anything is written.
        """

    def announced(self) -> int:
        """The last position at which a part that was taken over says that a control fact will stand; 0 if none did.

        If it lies behind the head, the move is unfinished.
        """

    def pruned_events(self) -> Iterator[tuple[int, bytes]]:
        """Position and id of every event that was pruned, ascending by position."""

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

        Every event was checked (`store/checked.py`): its payload against its checksum, and its link, where the event
        before it can be seen. One that does not hold is a hole from then on, and goes on record. `unchecked` gives what
        is stored as it is: only for verification, which names every wrong event.

        At a hole the page ends before it, and a read that starts in front of one raises `Damaged` with its range; with
        `over_holes` it goes on behind it and names it in the page. A read that starts below a pruned event which it
        might have selected raises `HistoryPruned` (`maintenance.require_positions`); with `over_pruned` it gives what
        is left.
        """

    def read_stream(self, stream: str, *, after: int = 0, until: int | None = None, limit: int) -> list[Event]:
        """Events of one stream with after < seq <= until, ascending, at most `limit`; fewer only if there are no more.

        Every event was checked: its payload, its seq, and its link against the event before it, the first one's too.
        A read that starts in the pruned part raises `HistoryPruned`, one with a damaged event in it `Damaged`.
        """

    def find(self, id: bytes) -> Event | None:
        """The event with this id, checked; None if there is none, or if it was pruned."""

    def head(self) -> int:
        """The highest position that is final: 0 in an empty log."""

    def floor(self) -> int:
        """The highest position that was pruned: 0 if nothing was."""

    def stream_head(self, stream: str) -> Head | None:
        """The end of a stream, pruned or not; None if it does not exist."""

    def cut(self, stream: str) -> Cut | None:
        """What was pruned of a stream; None if nothing was."""

    def cuts(self, *, after: str = "", limit: int) -> list[Cut]:
        """At most `limit` cuts in order of stream, those after `after`; fewer only if there are no more."""

    def pruned(self, id: bytes) -> bool:
        """Whether an event of this id was recorded and pruned since: a retry must not record it again."""

    def streams(self, *, after: str = "", limit: int) -> list[StreamInfo]:
        """At most `limit` streams in order of name, those after `after`; fewer only if there are no more.

        In a log with `holes` they are the streams that are left, each as far as it is left.
        """

    def recorded_at(self, position: int) -> int | None:
        """When this store recorded the event, in ns of its own clock: outside of every hash, used by retention."""

    def wait(self, after: int, *, timeout: float) -> int:
        """The head, as soon as it is past `after`, or when the time is up."""

    def holes(self) -> list[Hole]:
        """The damaged ranges that are known."""

    def losses(self) -> list[Loss]:
        """The lost ranges that were accepted, or are about to be, in order. They are not among the holes."""

    def check(self, progress: Callable[[int], None]) -> Iterator[Problem]:
        """Verify the engine's own structures: frames, indexes, tables. Events are verified by their readers."""

    def reclaim(self, *, compress_before: int | None, progress: Callable[[int], None]) -> Reclaimed:
        """Give the room of what was pruned, erased or repeated back to the disk, while readers go on.

        What was recorded before `compress_before` (ns) and will not change any more is compressed where it can be.
        """

    def report(self) -> Report:
        """Facts for the operator."""

    def close(self) -> None:
        """Give everything back. Safe to call twice."""

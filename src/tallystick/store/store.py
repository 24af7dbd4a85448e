"""The store that users hold: one log with its rules. Everything a user appends or reads passes here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import ids, limits, names, profiles
from tallystick.event.model import Event, NewEvent
from tallystick.store import capabilities, checkpoints, control, cursors, expectation, leases, tables, views
from tallystick.store.checkpoints import Checkpoint
from tallystick.store.commit import Appended, Outcome, Transaction
from tallystick.store.events import PAGE_EVENTS, EventLog, Report
from tallystick.store.idempotency import CommandRecord
from tallystick.store.ledger import Head
from tallystick.store.maintenance import Cut, Maintenance
from tallystick.store.page import Hole, Page, StreamInfo
from tallystick.store.prepare import Catalog, Guard, Part, Preparer, Request, part_of
from tallystick.store.selection import EVERYTHING, Selection


class Store:
    """An event store. Get one from `tallystick.open(url)`; use it in a `with` block or close it.

    Appending is safe from any number of threads. Every append that returned is on disk (engine `memory` excepted).
    """

    def __init__(
        self,
        log: EventLog,
        *,
        catalog: Catalog,
        make_guard: Callable[[str], Guard | None],
        clock: Callable[[], int] = time.time_ns,
        defaults: dict[str, Any] | None = None,
    ) -> None:
        self.log = log
        self.clock = clock
        self.catalog = catalog
        self._make_guard = make_guard
        self.profile = profiles.named(log.profile)
        self.settings = control.settings(log)
        self._appending: set[int] = set()  # threads that are inside an append
        self._preparer = Preparer(
            profile=self.profile,
            clock=clock,
            catalog=catalog,
            guard=make_guard(self.settings["secrets"]),
            defaults=defaults,
        )

    # --- writing ---------------------------------------------------------------------------------------------------

    def append(
        self, stream: str, events: NewEvent | Sequence[NewEvent], *, expected: int = expectation.ANY
    ) -> Appended:
        """Append to one stream, all or nothing. `expected` is a seq, `NO_STREAM` or `ANY`; a wrong one is a `Conflict`.

        Events whose ids are stored already with the same content are not written again, so every retry is safe.
        """
        given = [events] if type(events) is NewEvent or not isinstance(events, Iterable) else list(events)
        return self._one(Request([Part(stream, given, expected)]))[0]

    def append_all(self, parts: Iterable[tuple[str, Sequence[NewEvent], int] | Part]) -> list[Appended]:
        """Append to several streams in one commit, all or nothing: (stream, events, expected) each."""
        return self._one(Request(list(map(part_of, parts))))

    def submit(self, requests: Sequence[Request]) -> list[Outcome]:
        """Append many independent requests with one fsync, each with its own outcome; refusals are returned."""
        self._require_writing()
        thread = threading.get_ident()
        if thread in self._appending:
            raise errors.Nested()
        try:
            self._appending.add(thread)
            prepared = self._preparer.prepare(requests) if requests else []
            if len(prepared) == 1 and isinstance(prepared[0], Transaction):
                return self.log.commit([prepared[0]])
            transactions = [item for item in prepared if isinstance(item, Transaction)]
            done = iter(self.log.commit(transactions)) if transactions else iter(())
            return [next(done) if isinstance(item, Transaction) else item for item in prepared]
        finally:
            self._appending.discard(thread)

    def _one(self, request: Request) -> list[Appended]:
        outcome = self.submit([request])[0]
        if isinstance(outcome, errors.TallyError):
            raise outcome
        return outcome

    def record(
        self,
        facts: Sequence[tuple[str, NewEvent]],
        *,
        require: Sequence[tuple[str, int]] = (),
        maintenance: Maintenance | None = None,
        command: CommandRecord | None = None,
    ) -> list[Appended]:
        """Record control facts in reserved `tally.*` streams, with what they name, in one commit: for our own layers.

        `require` are streams that must still end at a seq; `command` is the command that this is the effect of.
        """
        by_stream: dict[str, list[NewEvent]] = {}
        for stream, event in facts:
            by_stream.setdefault(stream, []).append(event)
        parts = [Part(stream, events) for stream, events in by_stream.items()]
        erased = [self._event_at(item.position) for item in maintenance.erasures] if maintenance else []
        rows = self._forget_derived(erased)  # what it gave rise to goes first: it can be made again, the payload cannot
        if maintenance is not None and rows:
            maintenance = msgspec.structs.replace(maintenance, dropped_rows=rows)
        done = self._one(Request(parts, control=True, require=tuple(require), command=command, maintenance=maintenance))
        self._forget_derived(erased)  # and once more what was made again meanwhile
        return done

    def _forget_derived(self, erased: Sequence[Event | None]) -> tuple[tuple[str, str], ...]:
        """Drop the view rows and tables that events went into, and what dead letters quote; says which rows."""
        rows: list[tuple[str, str]] = []
        for event in erased:
            if event is not None and event.payload is not None:
                upcast = self.catalog.upcast([event])[0]
                tables.drop_tables_of(
                    self.log.view_tables, event
                )  # first: rows may take the place along that names them
                rows += views.drop_rows_of(self.log.views, upcast, self.catalog.upcaster_digest)
                self.log.dead_letters.redact(event.position, "the event was erased")
        return tuple(rows)

    def configure(self, *, secrets: str) -> None:
        """Change the secret guard of this store (`reject`, `warn`, `off`); the change is recorded as a control fact."""
        control.check_secrets(secrets, self.profile)
        if secrets == self.settings["secrets"]:
            return
        payload = {"setting": "secrets", "old": self.settings["secrets"], "new": secrets}
        self.record([(control.SETTINGS_STREAM, NewEvent(control.SETTING_CHANGED, payload))])
        self.settings = self.settings | {"secrets": secrets}
        self._preparer.guard = self._make_guard(secrets)

    def acquire_lease(self, stream: str, *, steal: bool = False) -> None:
        """Take the writer lease of a run now, as the first append does. Refused while another holder lives.

        `steal` takes it from a holder that may be alive (on another host nobody can tell); that one is fenced off.
        """
        self._lease(Transaction([], acquire=(stream,), steal=steal))

    def release_lease(self, stream: str) -> None:
        """Give a lease back before closing."""
        self._lease(Transaction([], release=(stream,)))

    def _lease(self, transaction: Transaction) -> None:
        self._require_writing()
        for stream in (*transaction.acquire, *transaction.release):
            if names.stream_kind(stream) != leases.LEASED_KIND:
                raise errors.InvalidValue(what="leased stream", value=stream, must=f"{leases.LEASED_KIND}/<id>")
        outcome = self.log.commit([transaction])[0]
        if isinstance(outcome, errors.TallyError):
            raise outcome

    def _require_writing(self) -> None:
        if self.log.readonly:
            raise errors.ReadOnly(reason=f"{self.log.url} was opened for reading")

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
    ) -> Page:
        """One page of the log in order of position; go on with `after=page.through`.

        Damaged and pruned ranges are refused by name; `over_holes` and `over_pruned` give what is left around them.
        """
        _check_range(after, until, limit)
        page = self.log.read(
            after=after,
            until=until,
            selection=selection,
            limit=limit,
            over_holes=over_holes,
            over_pruned=over_pruned,
        )
        return Page(self.catalog.upcast(page.events), page.through, page.holes)

    def events(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        selection: Selection = EVERYTHING,
        over_holes: bool = False,
        over_pruned: bool = False,
    ) -> Iterator[Event]:
        """Every event up to `until`, or up to the head at the time of the call, page after page."""
        until = self.head() if until is None else until
        while after < until:
            page = self.read(
                after=after, until=until, selection=selection, over_holes=over_holes, over_pruned=over_pruned
            )
            yield from page.events
            if page.through <= after:
                return
            after = page.through

    def stream(self, name: str, *, after: int = 0, until: int | None = None) -> Iterator[Event]:
        """Every event of one stream with after < seq <= until, page after page."""
        names.stream_kind(name)
        _check_range(after, until, PAGE_EVENTS)
        return self._stream(name, after, until)

    def _stream(self, name: str, after: int, until: int | None) -> Iterator[Event]:
        is_full = True
        while is_full and (page := self.log.read_stream(name, after=after, until=until, limit=PAGE_EVENTS)):
            yield from self.catalog.upcast(page)
            after, is_full = page[-1].seq, len(page) == PAGE_EVENTS

    def read_stream(
        self, stream: str, *, after: int = 0, until: int | None = None, limit: int | None = None
    ) -> list[Event]:
        """Events of one stream with after < seq <= until: all of them, or the first `limit`."""
        if limit is None:
            return list(self.stream(stream, after=after, until=until))
        names.stream_kind(stream)
        _check_range(after, until, limit)
        return self.catalog.upcast(self.log.read_stream(stream, after=after, until=until, limit=limit))

    def consume(
        self, name: str, *, selection: Selection = EVERYTHING, batch_events: int = PAGE_EVENTS
    ) -> Iterator[Page]:
        """Every selected event that the consumer `name` has not handled yet, page after page, up to the head of now.

        Its place is saved when the next page is asked for, and is the end of the page before. So an event that comes
        meanwhile is in a later page, and a page whose handling failed comes again: effects happen at least once.
        """
        if capabilities.GLOBAL_ORDER not in self.log.capabilities:
            raise errors.UnsupportedCapability(engine=self.log.engine, capability=capabilities.GLOBAL_ORDER)
        _check_range(0, None, batch_events)
        return self._consume(name, self.load_checkpoint(name), selection, batch_events)

    def _consume(self, name: str, after: int, selection: Selection, batch_events: int) -> Iterator[Page]:
        head = self.head()
        while after < head:
            page = self.read(after=after, until=head, selection=selection, limit=batch_events)
            if page.events:
                yield page
            if page.through <= after:
                return
            self.save_checkpoint(name, page.through, previous=after)
            after = page.through

    def find(self, id: Any) -> Event | None:
        """The event with this id, or None."""
        event = self.log.find(ids.to_bytes(id))
        return None if event is None else self.catalog.upcast([event])[0]

    def head(self) -> int:
        """The highest position that is final; 0 if there is none."""
        return self.log.head()

    def floor(self) -> int:
        """The highest position that was pruned; 0 if there is none."""
        return self.log.floor()

    def stream_head(self, stream: str) -> Head | None:
        """The end of a stream (seq, link, org), or None if it does not exist."""
        names.stream_kind(stream)
        return self.log.stream_head(stream)

    def cut(self, stream: str) -> Cut | None:
        """What was pruned of a stream: the seq and link that its first remaining event follows; None if nothing was."""
        names.stream_kind(stream)
        return self.log.cut(stream)

    def streams(self, *, after: str = "", limit: int | None = None) -> list[StreamInfo]:
        """Streams in order of name, those behind `after`: all of them, or the first `limit`."""
        if after:
            names.check_label("after", after)
        _check_range(0, None, PAGE_EVENTS if limit is None else limit)
        found = self.log.streams(after=after, limit=PAGE_EVENTS if limit is None else limit)
        while limit is None and (more := self.log.streams(after=found[-1].stream, limit=PAGE_EVENTS) if found else []):
            found += more
        return found

    def wait(self, after: int, *, timeout: float) -> int:
        """The head, as soon as it is past `after`, or when `timeout` seconds are over."""
        return self.log.wait(after, timeout=timeout)

    def holes(self) -> list[Hole]:
        """The damaged ranges that are known."""
        return self.log.holes()

    def report(self) -> Report:
        """Facts for the operator: what `tally doctor` shows."""
        return self.log.report()

    # --- checkpoints -----------------------------------------------------------------------------------------------

    def load_checkpoint(self, name: str) -> int:
        """The position a consumer may go on after: 0 if it is new. Refused if it belongs to another history."""
        names.check_label("checkpoint name", name)
        found = self.log.checkpoints.load(name)
        return 0 if found is None else self.resume(found)

    def resume(self, found: Checkpoint) -> int:
        """The position to go on after, if this is the history that the checkpoint was made on; else `WrongStore`."""
        event = self._event_at(found.link_position) if found.link_position else None
        if event is None and 0 < found.link_position <= self.floor() and found.store_id == self.log.store_id:
            return found.position  # the event was pruned since
        checkpoints.require_same_history(found, store_id=self.log.store_id, head=self.head(), event=event)
        return found.position

    def save_checkpoint(self, name: str, position: int, *, previous: int | None = None) -> None:
        """Remember that everything up to `position` took effect. `previous` is where the consumer was (0: new).

        `position` is the `through` of the last page that was handled, never a head that was asked for later: what came
        in between would be skipped. `consume` does it right by itself.
        """
        names.check_label("checkpoint name", name)
        head = self.head()
        if type(position) is not int or not 0 <= position <= head:
            must = f"from 0 to the head, {head}"
            raise errors.InvalidValue(what="checkpoint position", value=names.shown(position), must=must)
        event = cursors.last_event(self.log, position)
        link_position, link = (event.position, event.link) if event else (0, b"")
        saved = Checkpoint(name, self.log.store_id, position, link_position, link)
        stored = self.log.checkpoints.load(name)
        if previous is None or (previous == 0 and stored is None):
            previous = stored.position if stored else None
        self.log.checkpoints.save(saved, previous=previous)

    # --- cursors ---------------------------------------------------------------------------------------------------

    def cursor(self, at: Event | int) -> str:
        """The place behind an event, or behind a position, as a text that only this history accepts."""
        if isinstance(at, Event):
            return cursors.text(self.log.store_id, at.position, at.position, at.link)
        return cursors.made(self.log, at)

    def after(self, cursor: str | int, *, over_holes: bool = False) -> int:
        """The position to read on after. A cursor of another history is `WrongStore`; a number is not looked at.

        `over_holes`: evidence that is lost to damage is done without.
        """
        if type(cursor) is int:
            _check_range(cursor, None, PAGE_EVENTS)
            return cursor
        return cursors.position(self.log, cursor, over_holes=over_holes)

    def _event_at(self, position: int) -> Event | None:
        """The event at this position; None if nothing was recorded there."""
        if position < 1:
            return None
        page = self.log.read(after=position - 1, until=position, limit=1, over_pruned=True)
        return page.events[0] if page.events else None

    # --- life ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the store. Safe to call twice."""
        self.log.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_range(after: object, until: object, limit: object) -> None:
    if type(after) is not int or not 0 <= after <= limits.INT_MAX:
        raise errors.InvalidValue(what="after", value=names.shown(after), must="a number from 0 on")
    if until is not None and (type(until) is not int or not 0 <= until <= limits.INT_MAX):
        raise errors.InvalidValue(what="until", value=names.shown(until), must="a number from 0 on, or None")
    if type(limit) is not int or not 1 <= limit <= limits.PAGE_EVENTS_MAX:
        raise errors.InvalidValue(what="limit", value=names.shown(limit), must=f"from 1 to {limits.PAGE_EVENTS_MAX}")

"""The reading part of a store: pages, events, streams, single events, checkpoints and cursors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tallystick import errors
from tallystick.event import ids, limits, names
from tallystick.event.model import Event
from tallystick.store import capabilities, checkpoints, cursors, iterate
from tallystick.store.checkpoints import Checkpoint
from tallystick.store.conditions import Conditions, Consultation
from tallystick.store.events import PAGE_EVENTS, EventLog, Report
from tallystick.store.ledger import Head
from tallystick.store.maintenance import Cut
from tallystick.store.page import Hole, Page, StreamInfo
from tallystick.store.query import Query
from tallystick.store.rules import TypeCatalog
from tallystick.store.selection import EVERYTHING, Selection


class Reader:
    """Reads a log, upcast to the newest schemas. `Store` is a reader that also appends."""

    log: EventLog
    catalog: TypeCatalog
    conditions: Conditions

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
        """One page of the log in order of position; continue with `after=page.through`.

        Damaged and pruned ranges are refused by name. `over_holes` and `over_pruned` skip them.
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

    def pages(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        selection: Selection = EVERYTHING,
        limit: int = PAGE_EVENTS,
        over_holes: bool = False,
        over_pruned: bool = False,
    ) -> Iterator[Page]:
        """Every page up to `until`, or up to the head at the time of the call; arguments as for `read`."""
        _check_range(after, until, limit)
        found = iterate.pages(
            self.log,
            after=after,
            until=until,
            selection=selection,
            limit=limit,
            over_holes=over_holes,
            over_pruned=over_pruned,
        )
        return (Page(self.catalog.upcast(page.events), page.through, page.holes) for page in found)

    def events(
        self,
        *,
        after: int = 0,
        until: int | None = None,
        selection: Selection = EVERYTHING,
        over_holes: bool = False,
        over_pruned: bool = False,
        backward: bool = False,
    ) -> Iterator[Event]:
        """Every event with after < position <= `until`, or up to the head at the time of the call.

        With `backward` the newest comes first.
        """
        _check_range(after, until, PAGE_EVENTS)
        walk = iterate.pages_backward if backward else _events_of_pages
        found = walk(
            self.log, after=after, until=until, selection=selection, over_holes=over_holes, over_pruned=over_pruned
        )
        return (event for events in found for event in self.catalog.upcast(events))

    def consult(
        self, query: Query, *, after: int = 0, org: str | None = None, over_pruned: bool = False
    ) -> Consultation:
        """Every event past `after` that matches, and the marker for an append that depends on there being no others.

        With `org` only the events of one tenant are seen. A matching event that was pruned is refused by name, unless
        `over_pruned`.
        """
        _check_range(after, None, PAGE_EVENTS)
        return self.conditions.consult(query, self.catalog.upcast, after=after, org=org, over_pruned=over_pruned)

    def stream(self, name: str, *, after: int = 0, until: int | None = None, backward: bool = False) -> Iterator[Event]:
        """Every event of one stream with after < seq <= until; with `backward` the newest first."""
        pages = self.stream_pages(name, after=after, until=until, backward=backward)
        return (event for events in pages for event in events)

    def stream_pages(
        self,
        name: str,
        *,
        after: int = 0,
        until: int | None = None,
        limit: int = PAGE_EVENTS,
        backward: bool = False,
    ) -> Iterator[list[Event]]:
        """The events of one stream as `stream` gives them, in lists of at most `limit`."""
        names.stream_kind(name)
        _check_range(after, until, limit)
        walk = iterate.stream_pages_backward if backward else iterate.stream_pages
        return map(self.catalog.upcast, walk(self.log, name, after=after, until=until, limit=limit))

    def at(self, stream: str, seq: int) -> Event | None:
        """The event of a stream at a seq; None if the stream does not reach it. A pruned one is refused by name."""
        names.stream_kind(stream)
        _check_range(seq, None, PAGE_EVENTS, what="seq")
        return self._upcast(iterate.at(self.log, stream, seq))

    def last(self, stream: str) -> Event | None:
        """The newest event of a stream; None if the stream does not exist. A pruned one is refused by name."""
        names.stream_kind(stream)
        return self._upcast(iterate.last(self.log, stream))

    def _upcast(self, event: Event | None) -> Event | None:
        return None if event is None else self.catalog.upcast([event])[0]

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

        Its checkpoint is saved when the next page is requested, at the end of the page before. So an event that is
        appended meanwhile is in a later page, and a page whose handling failed comes again: effects happen at least
        once.
        """
        if capabilities.GLOBAL_ORDER not in self.log.capabilities:
            raise errors.UnsupportedCapability(engine=self.log.engine, capability=capabilities.GLOBAL_ORDER)
        _check_range(0, None, batch_events)
        return self._consume(name, self.load_checkpoint(name), selection, batch_events)

    def _consume(self, name: str, after: int, selection: Selection, batch_events: int) -> Iterator[Page]:
        for page in self.pages(after=after, selection=selection, limit=batch_events):
            if page.events:
                yield page
            if page.through > after:
                self.save_checkpoint(name, page.through, previous=after)
            after = page.through

    def find(self, id: Any) -> Event | None:
        """The event with this id, or None."""
        return self._upcast(self.log.find(ids.to_bytes(id)))

    def head(self) -> int:
        """The highest position that is final; 0 in an empty log."""
        return self.log.head()

    def floor(self) -> int:
        """The highest position that was pruned; 0 if nothing was."""
        return self.log.floor()

    def stream_head(self, stream: str) -> Head | None:
        """The end of a stream (seq, link, org); None if it does not exist."""
        names.stream_kind(stream)
        return self.log.stream_head(stream)

    def cut(self, stream: str) -> Cut | None:
        """The cut of a stream: the seq and link that its first remaining event follows; None if nothing was pruned."""
        names.stream_kind(stream)
        return self.log.cut(stream)

    def streams(self, *, after: str = "", limit: int | None = None) -> list[StreamInfo]:
        """Streams in order of name, those after `after`: all of them, or the first `limit`."""
        if after:
            names.check_label("after", after)
        _check_range(0, None, PAGE_EVENTS if limit is None else limit)
        return (
            list(iterate.streams(self.log, after=after))
            if limit is None
            else self.log.streams(after=after, limit=limit)
        )

    def wait(self, after: int, *, timeout: float) -> int:
        """The head, as soon as it is past `after`, or after `timeout` seconds."""
        return self.log.wait(after, timeout=timeout)

    def holes(self) -> list[Hole]:
        """The known damaged ranges."""
        return self.log.holes()

    def report(self) -> Report:
        """Facts for the operator: what `tally doctor` shows."""
        return self.log.report()

    # --- checkpoints -----------------------------------------------------------------------------------------------

    def load_checkpoint(self, name: str) -> int:
        """The position after which a consumer continues: 0 if it is new. Refused if it belongs to another history."""
        names.check_label("checkpoint name", name)
        found = self.log.checkpoints.load(name)
        return 0 if found is None else self.resume(found)

    def resume(self, found: Checkpoint) -> int:
        """The position to continue after, if the checkpoint belongs to this history; otherwise `WrongStore`."""
        event = iterate.event_at(self.log, found.link_position) if found.link_position else None
        if event is None and 0 < found.link_position <= self.floor() and found.store_id == self.log.store_id:
            return found.position  # the event was pruned since
        checkpoints.require_same_history(found, store_id=self.log.store_id, head=self.head(), event=event)
        return found.position

    def save_checkpoint(self, name: str, position: int, *, previous: int | None = None) -> None:
        """Save that a consumer has handled everything up to `position`. `previous` is its position before (0: new).

        `position` is the `through` of the last page that was handled. It is never a head that was read later: events in
        between would be skipped. `consume` saves the right position.
        """
        names.check_label("checkpoint name", name)
        head = self.head()
        if type(position) is not int or not 0 <= position <= head:
            must = f"from 0 to the head, {head}"
            raise errors.InvalidValue(what="checkpoint position", value=names.display(position), must=must)
        event = cursors.last_event(self.log, position)
        link_position, link = (event.position, event.link) if event else (0, b"")
        saved = Checkpoint(name, self.log.store_id, position, link_position, link)
        stored = self.log.checkpoints.load(name)
        if previous is None or (previous == 0 and stored is None):
            previous = stored.position if stored else None
        self.log.checkpoints.save(saved, previous=previous)

    # --- cursors ---------------------------------------------------------------------------------------------------

    def cursor(self, at: Event | int) -> str:
        """The place after an event, or after a position, as a text that only this history accepts."""
        if isinstance(at, Event):
            return cursors.text(self.log.store_id, at.position, at.position, at.link)
        return cursors.made(self.log, at)

    def after(self, cursor: str | int, *, over_holes: bool = False) -> int:
        """The position to continue after. A cursor of another history is `WrongStore`; a number is not checked.

        With `over_holes` a cursor is accepted if its evidence lies in a damaged range.
        """
        if type(cursor) is int:
            _check_range(cursor, None, PAGE_EVENTS)
            return cursor
        return cursors.position(self.log, cursor, over_holes=over_holes)


def _events_of_pages(log: EventLog, **asked: Any) -> Iterator[list[Event]]:
    return (page.events for page in iterate.pages(log, **asked))


def _check_range(after: object, until: object, limit: object, *, what: str = "after") -> None:
    if type(after) is not int or not 0 <= after <= limits.INT_MAX:
        raise errors.InvalidValue(what=what, value=names.display(after), must="a number from 0 on")
    if until is not None and (type(until) is not int or not 0 <= until <= limits.INT_MAX):
        raise errors.InvalidValue(what="until", value=names.display(until), must="a number from 0 on, or None")
    if type(limit) is not int or not 1 <= limit <= limits.PAGE_EVENTS_MAX:
        raise errors.InvalidValue(what="limit", value=names.display(limit), must=f"from 1 to {limits.PAGE_EVENTS_MAX}")

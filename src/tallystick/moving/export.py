"""Writing a log as lines: plain, with one line per event, or whole, with everything that makes it the log it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from tallystick import errors
from tallystick.event import chain
from tallystick.event.line import line
from tallystick.event.model import Event
from tallystick.moving import frame
from tallystick.store import capabilities, facts, iterate
from tallystick.store.claims import Claims, read_claims
from tallystick.store.events import EventLog
from tallystick.store.maintenance import Cut, PrunedEvent
from tallystick.store.page import Hole
from tallystick.store.selection import EVERYTHING, Selection
from tallystick.store.store import Store
from tallystick.store.transfer import FoundingCut

_PAGE = 1000


def export(
    store: Store,
    *,
    whole: bool | None = None,
    after: int | None = None,
    until: int | None = None,
    selection: Selection = EVERYTHING,
    snapshots: bool = True,
    skipped: Callable[[Hole], None] | None = None,
    progress: Callable[[int], None] = lambda position: None,
) -> Iterator[bytes]:
    """The lines of an export, in order of position. Events that are appended meanwhile are not exported.

    - `whole`: everything that makes the log, or only events. By default it is whole if something was pruned or erased,
      which lines of events cannot restore, unless you choose a part. The last line of a whole export comes only if
      everything before it was read. If something is pruned or erased meanwhile, `ExportOutdated` is raised.
    - `after`, `until`, `selection`: the part to export. From the beginning, pruned positions are passed over.
    - `snapshots`: a whole export has the bodies of snapshots.
    - `skipped`: called with each damaged range, which is then left out. Without it, damage is refused by name.
    - `progress`: called with the position that was reached.
    """
    is_part = (after, until, selection, skipped) != (None, None, EVERYTHING, None)
    if whole and is_part:
        raise errors.InvalidValue(what="whole", value="True", must="without after, until, selection and skipped")
    if whole or (whole is None and not is_part and _needs_whole(store.log)):
        return _WholeExport(store.log, progress).lines(snapshots=snapshots)
    return _events(store.log, after, until, selection, skipped, progress)


def _needs_whole(log: EventLog) -> bool:
    """Whether lines of events cannot restore this log, because something was pruned or erased."""
    return bool(log.cuts(limit=1)) or bool(read_claims(log).erased)


def _events(
    log: EventLog,
    after: int | None,
    until: int | None,
    selection: Selection,
    skipped: Callable[[Hole], None] | None,
    progress: Callable[[int], None],
) -> Iterator[bytes]:
    for page in iterate.pages(
        log,
        after=after or 0,
        until=until,
        selection=selection,
        limit=_PAGE,
        over_holes=skipped is not None,
        over_pruned=after is None,
    ):
        for event in page.events:
            yield _line(event)
        if skipped is not None:
            for hole in page.holes:
                skipped(hole)
        progress(page.through)


def _line(event: Event) -> bytes:
    return line(event).encode() + b"\n"


class _WholeExport:
    """One whole export, and what it has counted."""

    def __init__(self, log: EventLog, progress: Callable[[int], None]) -> None:
        self._log = log
        self._progress = progress
        self._events = self._pruned = self._snapshots = 0

    def lines(self, *, snapshots: bool) -> Iterator[bytes]:
        log = self._log
        claims, cuts, head = read_claims(log), _cuts(log), log.head()
        digest = hashlib.sha256()
        for text in self._before_end(claims, cuts, head, snapshots=snapshots):
            digest.update(text)
            yield text
        self._require_unchanged(claims, cuts)
        self._require_all_pruned(cuts)
        yield frame.encode(frame.End(self._events, self._pruned, len(cuts), self._snapshots, head, digest.hexdigest()))

    def _before_end(self, claims: Claims, cuts: list[FoundingCut], head: int, *, snapshots: bool) -> Iterator[bytes]:
        yield frame.encode(_begin(self._log, claims, cuts, head))
        for founding in cuts:
            yield frame.encode(frame.cut_line(founding))
        yield from self._positions(head, claims)
        for id_, fact in claims.snapshots.items() if snapshots else ():
            for each in self._body(id_, fact):
                yield frame.encode(each)

    def _positions(self, head: int, claims: Claims) -> Iterator[bytes]:
        """Events, and before each page of them what was pruned up to its last event, and which of them are erased."""
        pruned = _PrunedEvents(self._log.pruned_events())
        for page in iterate.pages(self._log, until=head, limit=_PAGE, over_pruned=True):
            if page.events:
                yield from self._pruned_lines(pruned.through(page.events[-1].position))
                self._events += len(page.events)
                _require_checksums(page.events)
                yield from self._erased(page.events, claims)
                yield from map(_line, page.events)
            self._progress(page.through)

    def _pruned_lines(self, found: list[PrunedEvent]) -> Iterator[bytes]:
        self._pruned += len(found)
        for at in range(0, len(found), frame.PRUNED_MAX):
            yield frame.encode(frame.pruned_line(found[at : at + frame.PRUNED_MAX]))

    def _erased(self, events: list[Event], claims: Claims) -> Iterator[bytes]:
        gone = [event for event in events if event.payload is None]
        for event in gone:
            if (event.stream, event.seq) not in claims.erased_by:
                self._require_same_erasures(claims)
                reason = f"the payload of {event.stream} {event.seq} is gone, and no control fact says so"
                raise errors.Damaged(first=event.position, last=event.position, reason=reason)
        if gone:
            yield frame.encode(
                frame.ErasedLine([(event.position, claims.erased_by[event.stream, event.seq]) for event in gone])
            )

    def _require_same_erasures(self, claims: Claims) -> None:
        if read_claims(self._log).erased != claims.erased:
            raise errors.ExportOutdated(url=self._log.url)

    def _body(self, id_: bytes, fact: facts.Snapshotted) -> list[frame.SnapshotLine]:
        body = self._log.snapshots.load(id_, bytes_max=fact.body_bytes)
        if body is None:  # it was dropped meanwhile, or cannot be read: the import records that it is missing
            return []
        self._snapshots += 1
        return frame.snapshot_lines(id_, body)

    def _require_all_pruned(self, cuts: list[FoundingCut]) -> None:
        count = sum(founding.cut.count for founding in cuts)
        if count != self._pruned:
            reason = f"{count} events were pruned, and the store knows the ids of {self._pruned} of them"
            raise errors.Damaged(first=0, last=0, reason=reason)

    def _require_unchanged(self, claims: Claims, cuts: list[FoundingCut]) -> None:
        now = read_claims(self._log)
        if (now.pruned, now.erased) != (claims.pruned, claims.erased) or _cuts(self._log) != cuts:
            raise errors.ExportOutdated(url=self._log.url)


def _require_checksums(events: list[Event]) -> None:
    """Refuse a payload that was changed: not every engine compares checksums when it reads."""
    for event in events:
        if event.payload is not None and chain.checksum(event.payload) != event.checksum:
            reason = f"the payload of {event.stream} {event.seq} does not have its checksum"
            raise errors.Damaged(first=event.position, last=event.position, reason=reason)


class _PrunedEvents:
    """What is kept of pruned events, given out in order of position."""

    def __init__(self, found: Iterator[PrunedEvent]) -> None:
        self._found = found
        self._next = next(found, None)

    def through(self, position: int) -> list[PrunedEvent]:
        """Those up to a position that were not given out before."""
        taken = []
        while self._next is not None and self._next.position <= position:
            taken.append(self._next)
            self._next = next(self._found, None)
        return taken


def _begin(log: EventLog, claims: Claims, cuts: list[FoundingCut], head: int) -> frame.Begin:
    through = {founding.cut.stream: founding.cut.through for founding in cuts}
    erased = sum(seq > through.get(stream, 0) for stream, seqs in claims.erased.items() for seq in seqs)
    ordered = capabilities.GLOBAL_ORDER in log.capabilities
    return frame.Begin(log.store_id.hex(), log.engine, log.profile, head, len(cuts), erased, ordered)


def _cuts(log: EventLog) -> list[FoundingCut]:
    return [FoundingCut(cut, _fact_position(log, cut)) for cut in iterate.cuts(log)]


def _fact_position(log: EventLog, cut: Cut) -> int:
    """The position of the control fact that names a cut. In a sound log it is the last one about this stream."""
    position = 0
    for event in iterate.stream(log, facts.stream_about(cut.stream)):
        if event.type == facts.PRUNED and facts.parse(event, facts.Pruned).through == cut.through:
            position = event.position
    if not position:
        raise errors.Damaged(first=0, last=0, reason=f"no control fact names the cut of {cut.stream!r}")
    return position

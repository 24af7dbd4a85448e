"""Writing a log as lines: plain, one event a line; or whole, with everything that makes it the log it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from tallystick import errors
from tallystick.event import chain
from tallystick.event.line import lines
from tallystick.event.model import Event
from tallystick.moving import frame
from tallystick.store import capabilities, facts, iterate
from tallystick.store.claims import Claims, read_claims
from tallystick.store.events import EventLog
from tallystick.store.maintenance import Cut
from tallystick.store.store import Store
from tallystick.store.transfer import FoundingCut

_PAGE = 1000


def must_be_whole(store: Store) -> bool:
    """Whether lines of events alone cannot make this log again: something of it was pruned or erased."""
    return bool(store.log.cuts(limit=1)) or bool(read_claims(store.log).erased)


def whole(
    store: Store, *, snapshots: bool = True, progress: Callable[[int], None] = lambda position: None
) -> Iterator[bytes]:
    """The lines of a whole export, some at a time. The last one is there only if everything else is.

    Damage is refused by name, as is a log that is pruned or erased while it is read. Appends do no harm: the export
    ends where the log ended when it began.
    """
    return _Export(store.log, progress).all(snapshots=snapshots)


class _Export:
    """One export, and what was counted on the way."""

    def __init__(self, log: EventLog, progress: Callable[[int], None]) -> None:
        self._log = log
        self._progress = progress
        self._hash = hashlib.sha256()
        self._events = self._pruned = self._snapshots = 0

    def all(self, *, snapshots: bool) -> Iterator[bytes]:
        log = self._log
        claims = read_claims(log)
        cuts = _cuts(log)
        head = log.head()
        yield self._frame(_begin(log, claims, cuts, head))
        for founding in cuts:
            yield self._frame(frame.cut_line(founding))
        for part in self._positions(head, claims):
            self._hash.update(part)
            yield part
        for id_, fact in claims.snapshots.items() if snapshots else ():
            for each in self._body(id_, fact):
                yield self._frame(each)
        self._require_unchanged(claims, cuts)
        self._require_all_pruned(cuts)
        digest = self._hash.hexdigest()
        yield frame.encode(frame.End(self._events, self._pruned, len(cuts), self._snapshots, head, digest))

    def _frame(self, one: frame.FrameLine) -> bytes:
        text = frame.encode(one)
        self._hash.update(text)
        return text

    def _positions(self, head: int, claims: Claims) -> Iterator[bytes]:
        """Events, a page at a time; before each page what was pruned up to its last event, and what is erased of it."""
        gone = _Gone(self._log.pruned_events())
        for page in iterate.pages(self._log, until=head, limit=_PAGE, over_pruned=True):
            if page.events:
                yield from self._gone(gone.upto(page.events[-1].position))
                self._events += len(page.events)
                _require_checksums(page.events)
                yield from self._erased(page.events, claims)
                yield lines(page.events)
            self._progress(page.through)

    def _gone(self, found: list[tuple[int, bytes]]) -> Iterator[bytes]:
        self._pruned += len(found)
        for at in range(0, len(found), frame.PRUNED_MAX):
            some = [(position, id_.hex()) for position, id_ in found[at : at + frame.PRUNED_MAX]]
            yield frame.encode(frame.PrunedLine(some))

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
        if body is None:  # it was dropped meanwhile, or cannot be read: who imports says that it has none
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
    """What is exported has the payload that it was appended with, whatever the engine checks when it reads."""
    for event in events:
        if event.payload is not None and chain.checksum(event.payload) != event.checksum:
            reason = f"the payload of {event.stream} {event.seq} does not have its checksum"
            raise errors.Damaged(first=event.position, last=event.position, reason=reason)


class _Gone:
    """What was pruned, taken off in order of position."""

    def __init__(self, found: Iterator[tuple[int, bytes]]) -> None:
        self._found = found
        self._next = next(found, None)

    def upto(self, position: int) -> list[tuple[int, bytes]]:
        """What is left of it up to a position."""
        taken = []
        while self._next is not None and self._next[0] <= position:
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
    """Where the control fact stands that names a cut: it is the last of its kind, if the log is sound."""
    position = 0
    for event in iterate.stream(log, facts.stream_about(cut.stream)):
        if event.type == facts.PRUNED and facts.parse(event, facts.Pruned).through == cut.through:
            position = event.position
    if not position:
        raise errors.Damaged(first=0, last=0, reason=f"no control fact names the cut of {cut.stream!r}")
    return position

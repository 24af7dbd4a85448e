"""Verification: every event against its bytes, its neighbours and the facts about it; and the engine's structures.

A missing event was pruned only if a control fact says so, and an absent payload was erased only if one does. What each
finding means and what to do about it is in `store/reasons.py`.

One thing cannot be found without a witness outside of the store: that the newest events of a log were cut off together
with everything that knows of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from tallystick import errors
from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.store import iterate, loss, reasons, transfer
from tallystick.store.claims import Claims, check_cuts, check_snapshots, read_claims
from tallystick.store.damage import problem_of, put_on_record, with_known
from tallystick.store.events import EventLog, Problem
from tallystick.store.ledger import NO_HEAD, Head
from tallystick.store.page import Hole, Page, StreamInfo

PROBLEMS_MAX = 10_000
LOOKS_MAX = 3
_PAGE = 10_000
_EXPLAINED_BY_FACTS = frozenset({"snapshot", "erasure"})
_EXPLAINED_BY_A_MOVE = frozenset({"cut", "erasure", "snapshot"})
_SNAPSHOTS = frozenset({"snapshot"})


class Verification(msgspec.Struct):
    """What was checked and what was found. `ok` is the answer.

    `accepted` lists the losses that were accepted; they are not problems. `unrecorded` says why the findings could not
    be put on record; it is empty if they were, or if nothing was found. `unchecked` lists what could not be checked.
    """

    events: int = 0
    streams: int = 0
    erased: int = 0
    pruned: int = 0
    snapshots: int = 0
    head: int = 0
    problems: list[Problem] = []
    accepted: list[Hole] = []
    truncated: bool = False
    unrecorded: str = ""
    unchecked: list[str] = []

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def extend(self, problems: Iterable[Problem]) -> None:
        """Note problems as they are found, up to a bound."""
        for problem in problems:
            if len(self.problems) >= PROBLEMS_MAX:
                self.truncated = True
            else:
                self.problems.append(problem)


def verify(log: EventLog, *, progress: Callable[[int], None] = lambda done: None) -> Verification:
    """Verify a whole log, and put what is wrong on record: appends are refused from then on.

    What is on record already is reported too, even if this run does not find it: a disk may fail only sometimes.
    """
    found = examine(log, progress=progress)
    known = log.damage.known()
    found.unrecorded = put_on_record(log.damage, found.problems)
    found.problems = with_known(found.problems, known)
    return found


def examine(log: EventLog, *, progress: Callable[[int], None] = lambda done: None) -> Verification:
    """Verify a whole log without regard to the record of damage: the engine's structures, then the events.

    `progress` counts events, once for each half. The log may be written to meanwhile. If something looks wrong, and
    control facts were recorded since they were read, these may be the reason: then everything is read again. If facts
    keep coming, what they can explain is a problem only if every look has found it.
    """
    found, claims = _look(log, progress)
    lasting = set(found.problems)
    for _ in range(LOOKS_MAX - 1):
        if found.ok or claims is None or read_claims(log) == claims:
            return found
        found, claims = _look(log, progress)
        lasting &= set(found.problems)
    if not found.ok and read_claims(log) != claims:
        found.problems = [each for each in found.problems if each in lasting or each.what not in _EXPLAINED_BY_FACTS]
    return found


def _look(log: EventLog, progress: Callable[[int], None]) -> tuple[Verification, Claims | None]:
    """Look once. If something cannot be read without which verification cannot continue, that is the finding, and
    there are no claims.
    """
    found = Verification()
    try:
        awaited = _awaited(log)
        claims = _look_through(log, found, progress, is_moving=awaited > 0)
        if awaited := awaited or _awaited(log):
            missing = f"there is no control fact at position {awaited} yet"
            _ignore_until_received(found, _EXPLAINED_BY_A_MOVE, missing, awaited)
        elif any(problem.what == "snapshot" for problem in found.problems) and _awaits_snapshots(log):
            _ignore_until_received(found, _SNAPSHOTS, "some of its snapshots are missing")
        return found, claims
    except errors.Damaged as damage:
        found.extend([Problem("damage", damage.reason, damage.first)])
        return found, None
    except errors.ReadFailed:
        problems = list(log.check(progress))  # the schema of a database, for example, may be why it cannot be read
        if not problems:
            raise
        return Verification(problems=problems), None


def _awaited(log: EventLog) -> int:
    """The position up to which an unfinished move into the log will continue; 0 if there is none."""
    announced = log.announced()
    return announced if announced and announced > log.head() else 0


def _awaits_snapshots(log: EventLog) -> bool:
    """Whether a move is unfinished that has brought facts about snapshots."""
    with suppress(errors.TallyError):  # if that cannot be read, every finding stays
        return transfer.MOVING in log.checkpoints.names()
    return False


def _ignore_until_received(found: Verification, explained: frozenset[str], missing: str, awaited: int = 0) -> None:
    """Drop the findings that an unfinished move explains: that it is unfinished is the one finding."""
    found.problems = [problem for problem in found.problems if problem.what not in explained]
    found.problems.append(reasons.MOVE_UNFINISHED.of(position=awaited, missing=missing))


def _look_through(log: EventLog, found: Verification, progress: Callable[[int], None], *, is_moving: bool) -> Claims:
    claims = read_claims(log)
    as_read = copy.deepcopy(claims)
    found.head = log.head()
    found.extend(log.check(progress))
    _compare_with_facts(log, claims, found)
    walk = _LogWalk(claims, _starts(log, claims, is_moving=is_moving), found)
    for page in iterate.pages(log, until=found.head, limit=_PAGE, over_holes=True, over_pruned=True, unchecked=True):
        walk.check(page)
        progress(found.events)
    found.extend(_unseen_holes(log, found))
    found.extend(_losses_not_accepted(log))
    found.streams = len(walk.heads)
    if walk.seen_since_hole is None:
        found.extend(_wrong_heads(log, walk.heads, found.head))
        found.extend(_erased_missing(claims))
        found.extend(_sealed_missing(claims, walk.heads))
    return as_read


def _unseen_holes(log: EventLog, found: Verification) -> list[Problem]:
    """The damaged ranges that the engine knows and that no page has shown, because no event is missing there."""
    seen = {problem.position for problem in found.problems if problem.what == "hole"}
    return [problem_of(hole) for hole in log.holes() if hole.first not in seen]


def accepted_ranges(log: EventLog) -> set[tuple[int, int]]:
    """The ranges whose loss a control fact accepts."""
    found: set[tuple[int, int]] = set()
    for info in iterate.streams(log, prefix=f"{loss.KIND}/"):
        for event in iterate.stream(log, info.stream):
            if event.type == loss.ACCEPTED and event.data is not None:
                found |= {(each["first"], each["last"]) for each in event.data["ranges"]}
    return found


def _losses_not_accepted(log: EventLog) -> list[Problem]:
    """A range is lost only if a control fact accepts it."""
    losses = log.losses()
    settled = accepted_ranges(log) if losses else set()
    return [
        reasons.LOSS_NOT_ACCEPTED.of(position=each.first, first=each.first, last=each.last)
        for each in losses
        if (each.first, each.last) not in settled
    ]


def _compare_with_facts(log: EventLog, claims: Claims, found: Verification) -> None:
    """Compare what the engine knows of cuts and snapshots with the control facts."""
    for problems in (claims.problems, check_cuts(log, claims), check_snapshots(log, claims)):
        found.extend(problems)
    found.pruned = sum(fact.count for fact in claims.pruned.values())
    found.snapshots = len(claims.snapshots)


def _starts(log: EventLog, claims: Claims, *, is_moving: bool) -> dict[str, Head]:
    """What the first remaining event of each pruned stream follows: as the facts say, otherwise as the engine says."""
    heads = {name: Head(fact.through, bytes.fromhex(fact.link)) for name, fact in claims.pruned.items()}
    for cut in iterate.cuts(log) if claims.unread or claims.is_cut or is_moving else ():
        if not claims.is_complete_for(cut.stream) or (is_moving and cut.stream not in claims.pruned):
            heads[cut.stream] = Head(cut.through, cut.link)
    return heads


class _LogWalk:
    """The events of a log, page by page, each compared with the one before it in its stream and with the facts.

    `seen_since_hole` are the streams seen since the last hole; None while there was no hole. The first event of a
    stream after a hole may follow one that lies in it.
    """

    def __init__(self, claims: Claims, heads: dict[str, Head], found: Verification) -> None:
        self._claims = claims
        self._found = found
        self.heads = heads
        self.seen_since_hole: set[str] | None = None

    def check(self, page: Page) -> None:
        """Check the events of a page, and take note of its holes."""
        found = self._found
        found.accepted += [hole for hole in page.holes if hole.accepted]
        found.extend(problem_of(hole) for hole in page.holes if not hole.accepted)
        found.extend(sorted(self._problems(page), key=lambda problem: problem.position))
        found.events += len(page.events)

    def _problems(self, page: Page) -> Iterator[Problem]:
        heads, sealed = self.heads, self._claims.sealed
        holes = list(page.holes)
        checksums = iter(chain.checksums([event.payload for event in page.events if event.payload is not None]))
        pairs: list[tuple[Event, bytes]] = []
        for event in page.events:
            while holes and holes[0].first <= event.position:
                self.seen_since_hole = set()
                holes.pop(0)
            follows_hole = self.seen_since_hole is not None and event.stream not in self.seen_since_hole
            if self.seen_since_hole is not None:
                self.seen_since_hole.add(event.stream)
            yield from self._payload(event, None if event.payload is None else next(checksums))
            before = heads.get(event.stream, NO_HEAD)
            if event.seq == before.seq + 1:
                pairs.append((event, before.link))
            elif not follows_hole or event.seq <= before.seq:
                yield reasons.SEQUENCE.at(event, seq=event.seq, before=before.seq)
            if sealed and sealed.get(event.stream, {}).get(event.seq, event.link) != event.link:
                yield reasons.SEAL_OVER_ANOTHER.at(event)
            heads[event.stream] = Head(event.seq, event.link)
        if holes:
            self.seen_since_hole = set()
        yield from map(reasons.LINK.at, chain.broken(pairs))

    def _payload(self, event: Event, checksum: bytes | None) -> Iterator[Problem]:
        """A payload has its checksum, or a fact says that it was erased; an erased one is seen only once."""
        erased = self._claims.erased.get(event.stream)
        claimed = erased.pop(event.seq, None) if erased else None
        if claimed is not None and claimed != event.checksum:
            yield reasons.ERASURE_OF_ANOTHER.at(event)
        if checksum is None:
            self._found.erased += 1
            if claimed is None and self._claims.is_complete_for(event.stream):
                yield reasons.ERASURE_NOT_CLAIMED.at(event)
            return
        if claimed is not None:
            yield reasons.ERASURE_NOT_DONE.at(event)
        if checksum != event.checksum:
            yield reasons.CHECKSUM.at(event)


def _erased_missing(claims: Claims) -> Iterator[Problem]:
    """What was erased is either there without its payload, or was pruned later."""
    for stream, left in claims.erased.items():
        pruned = claims.pruned.get(stream)
        for seq in left:
            if pruned is None or seq > pruned.through:
                yield reasons.ERASURE_OF_NOTHING.of(stream, seq)


def _sealed_missing(claims: Claims, heads: dict[str, Head]) -> Iterator[Problem]:
    """A fingerprint was sealed over an event that exists."""
    for stream, sealed in claims.sealed.items():
        end = heads.get(stream, NO_HEAD).seq
        for seq in sealed:
            if seq > end:
                yield reasons.SEAL_OVER_NOTHING.of(stream, seq, end=end)


def _wrong_heads(log: EventLog, heads: dict[str, Head], upto: int) -> Iterator[Problem]:
    """Compare the ends of the streams, as their events show them, with what the engine says of each."""
    listed: set[str] = set()
    for info in iterate.streams(log):
        listed.add(info.stream)
        head = heads.get(info.stream, NO_HEAD)
        if (head.seq, head.link) != (info.seq, info.link) and not _grew(log, info, head, upto):
            yield reasons.HEAD_ELSEWHERE.of(info.stream, info.seq, end=head.seq, listed=info.seq)
    for stream in sorted(heads.keys() - listed):
        yield reasons.HEAD_NOT_LISTED.of(stream, heads[stream].seq)


def _grew(log: EventLog, info: StreamInfo, head: Head, upto: int) -> bool:
    """Whether a stream only ends later because it grew since: the events after those that were read lead there."""
    if info.seq <= head.seq:
        return False
    link, seq = head.link, head.seq
    try:
        for event in iterate.stream(log, info.stream, after=seq, until=info.seq):
            if event.position <= upto or chain.link(event, link) != event.link:
                return False
            link, seq = event.link, event.seq
    except (errors.HistoryPruned, errors.Damaged):
        return False
    return (seq, link) == (info.seq, info.link)

"""Verification: every event against its bytes, its neighbours and the facts about it; and the engine's structures.

What is missing was pruned only if a control fact says so, and an absent payload was erased only if one does.

What it cannot find without a witness outside of the store: that the newest events of a log were cut off together
with everything that knows of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress

import msgspec

from tallystick import errors
from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.store import iterate, loss, transfer
from tallystick.store.claims import Claims, check_cuts, check_snapshots, read_claims
from tallystick.store.damage import UNFINISHED, problem_of, put_on_record, with_known
from tallystick.store.events import EventLog, Problem
from tallystick.store.ledger import NO_HEAD, Head
from tallystick.store.page import Hole, StreamInfo

PROBLEMS_MAX = 10_000
LOOKS_MAX = 3
LOSS = "loss"
_PAGE = 10_000
_EXPLAINED_BY_FACTS = frozenset({"snapshot", "erasure"})
_EXPLAINED_BY_A_MOVE = frozenset({"cut", "erasure", "snapshot"})
_SNAPSHOTS = frozenset({"snapshot"})


class Verification(msgspec.Struct):
    """What was looked at and what was found. `ok` is the answer.

    `accepted` are the losses that were accepted: nothing is there, and that is no finding.
    `unrecorded` says why what was found could not be put on record; it is empty if it was, or if nothing was found.
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

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def add(self, problem: Problem) -> None:
        """Note a problem, up to a bound."""
        if len(self.problems) >= PROBLEMS_MAX:
            self.truncated = True
        else:
            self.problems.append(problem)


def verify(log: EventLog, *, progress: Callable[[int], None] = lambda done: None) -> Verification:
    """Verify a whole log, and put what is wrong on record: appends are refused from then on.

    What is on record already is reported too, even if this run does not find it: the disk may fail now and then.
    """
    found = examine(log, progress=progress)
    known = log.damage.known()
    found.unrecorded = put_on_record(log.damage, found.problems)
    found.problems = with_known(found.problems, known)
    return found


def examine(log: EventLog, *, progress: Callable[[int], None] = lambda done: None) -> Verification:
    """Look at a whole log, without regard to the record: the engine's structures, then the events.

    `progress` counts events, once for each half. The log may be written to meanwhile. If something looks wrong and
    facts were recorded since the facts were read, that may be why: then everything is looked at once more. Where facts
    never cease to come, what they can explain is a problem only if every look has found it.
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
    """Look once. Where what is needed to go on cannot be read, that is what was found, and there are no claims."""
    found = Verification()
    try:
        awaited = _awaited(log)
        claims = _look_through(log, found, progress, is_moving=awaited > 0)
        if awaited := awaited or _awaited(log):
            reason = f"no control fact stands at position {awaited} yet"
            _forgive_what_is_to_come(found, _EXPLAINED_BY_A_MOVE, awaited, reason)
        elif any(problem.what == "snapshot" for problem in found.problems) and _awaits_snapshots(log):
            _forgive_what_is_to_come(found, _SNAPSHOTS, 0, "its snapshots are not all there yet")
        return found, claims
    except errors.Damaged as damage:
        found.add(Problem("damage", damage.reason, damage.first))
        return found, None
    except errors.ReadFailed:
        problems = list(log.check(progress))  # the schema of a database, say: that is why it cannot be read
        if not problems:
            raise
        return Verification(problems=problems), None


def _awaited(log: EventLog) -> int:
    """The position up to which a move into the log is to go on; 0 if none is unfinished."""
    announced = log.announced()
    return announced if announced > log.head() else 0


def _awaits_snapshots(log: EventLog) -> bool:
    """Whether a move is unfinished that has brought facts about snapshots."""
    with suppress(errors.TallyError):  # where that cannot be read, nothing is forgiven
        return transfer.MOVING in log.checkpoints.names()
    return False


def _forgive_what_is_to_come(found: Verification, explained: frozenset[str], awaited: int, reason: str) -> None:
    """Until all has come, what is missing cannot be held against the rest: that it is missing is the one finding."""
    found.problems = [problem for problem in found.problems if problem.what not in explained]
    reason = f"a move into this store is unfinished, and {reason}: run it again"
    found.problems.append(Problem(UNFINISHED, reason, awaited))


def _look_through(log: EventLog, found: Verification, progress: Callable[[int], None], *, is_moving: bool) -> Claims:
    claims = read_claims(log)
    told = copy.deepcopy(claims)
    found.head = log.head()
    for problem in log.check(progress):
        found.add(problem)
    _hold_against(log, claims, found)
    heads = _begin(log, claims, is_moving=is_moving)
    torn: set[str] | None = None  # streams seen again since the last hole; None while there was no hole
    whole = iterate.pages(log, until=found.head, limit=_PAGE, over_holes=True, over_pruned=True, unchecked=True)
    for page in whole:
        pending = list(page.holes)
        found.accepted += [hole for hole in pending if hole.accepted]
        for hole in pending:
            if not hole.accepted:
                found.add(problem_of(hole))
        for event in page.events:
            while pending and pending[0].first <= event.position:
                torn = set()
                pending.pop(0)
            forgiven = torn is not None and event.stream not in torn
            if torn is not None:
                torn.add(event.stream)
            _payload(event, claims, found)
            _place(event, heads.get(event.stream, NO_HEAD), forgiven, found)
            _sealed(event, claims, found)
            heads[event.stream] = Head(event.seq, event.link)
        if pending:
            torn = set()
        found.events += len(page.events)
        progress(found.events)
    _known_holes(log, found)
    _accepted(log, found)
    found.streams = len(heads)
    if torn is None:
        _heads(log, heads, found)
        _erased_are_there(claims, found)
        _sealed_are_there(claims, heads, found)
    return told


def _known_holes(log: EventLog, found: Verification) -> None:
    """Report the damaged ranges that the engine knows, also where no event is missing."""
    for hole in log.holes():
        if not any(problem.what == "hole" and problem.position == hole.first for problem in found.problems):
            found.add(problem_of(hole))


def accepted_ranges(log: EventLog) -> set[tuple[int, int]]:
    """The ranges whose loss a control fact accepts."""
    found: set[tuple[int, int]] = set()
    for info in iterate.streams(log, prefix=f"{loss.KIND}/"):
        for event in iterate.stream(log, info.stream):
            if event.type == loss.ACCEPTED and event.data is not None:
                found |= {(each["first"], each["last"]) for each in event.data["ranges"]}
    return found


def _accepted(log: EventLog, found: Verification) -> None:
    """A range is lost only if a control fact accepts it."""
    if losses := log.losses():
        settled = accepted_ranges(log)
        for each in losses:
            if (each.first, each.last) not in settled:
                reason = f"positions {each.first} to {each.last} are lost, and no control fact accepts that"
                found.add(Problem(LOSS, reason, each.first))


def _hold_against(log: EventLog, claims: Claims, found: Verification) -> None:
    """Hold the engine's own knowledge of cuts and snapshots against the facts."""
    for problems in (claims.problems, check_cuts(log, claims), check_snapshots(log, claims)):
        for problem in problems:
            found.add(problem)
    found.pruned = sum(fact.count for fact in claims.pruned.values())
    found.snapshots = len(claims.snapshots)


def _begin(log: EventLog, claims: Claims, *, is_moving: bool) -> dict[str, Head]:
    """What the first remaining event of each pruned stream follows: as the facts say, else as the engine does."""
    heads = {name: Head(fact.through, bytes.fromhex(fact.link)) for name, fact in claims.pruned.items()}
    for cut in iterate.cuts(log) if claims.unread or claims.is_cut or is_moving else ():
        if not claims.tells(cut.stream) or (is_moving and cut.stream not in claims.pruned):
            heads[cut.stream] = Head(cut.through, cut.link)
    return heads


def _payload(event: Event, claims: Claims, found: Verification) -> None:
    """A payload has its checksum, or a fact says that it was erased; an erased one is seen only once."""
    erased = claims.erased.get(event.stream)
    checksum = erased.pop(event.seq, None) if erased else None
    if checksum is not None and checksum != event.checksum:
        _wrong(found, event, "erasure", "a control fact says that it was erased, and names another checksum")
    if event.payload is None:
        found.erased += 1
        if checksum is None and claims.tells(event.stream):
            _wrong(found, event, "erasure", "the payload is gone, and no control fact says that it was erased")
        return
    if checksum is not None:
        _wrong(found, event, "erasure", "a control fact says that it was erased, and the payload is still there")
    if chain.checksum(event.payload) != event.checksum:
        _wrong(found, event, "checksum", "the payload does not have its checksum")


def _place(event: Event, before: Head, forgiven: bool, found: Verification) -> None:
    """Check sequence and link; `forgiven` means that events of its stream before it may lie in a hole."""
    if event.seq != before.seq + 1:
        if not forgiven or event.seq <= before.seq + 1:
            _wrong(found, event, "sequence", f"seq {event.seq} follows {before.seq}")
    elif chain.link(event, before.link) != event.link:
        _wrong(found, event, "link", "the link does not follow from the event and the link before it")


def _sealed(event: Event, claims: Claims, found: Verification) -> None:
    """A fingerprint was sealed over the link that is there."""
    sealed = claims.sealed.get(event.stream)
    if sealed is not None and sealed.get(event.seq, event.link) != event.link:
        _wrong(found, event, "fingerprint", "a fingerprint was sealed here over another link")


def _wrong(found: Verification, event: Event, what: str, reason: str) -> None:
    found.add(Problem(what, reason, event.position, event.stream, event.seq))


def _erased_are_there(claims: Claims, found: Verification) -> None:
    """What was erased is either there without its payload, or was pruned later."""
    for stream, left in claims.erased.items():
        pruned = claims.pruned.get(stream)
        for seq in left:
            if pruned is None or seq > pruned.through:
                found.add(
                    Problem("erasure", "a control fact says that it was erased, and there is no event", 0, stream, seq)
                )


def _sealed_are_there(claims: Claims, heads: dict[str, Head], found: Verification) -> None:
    """A fingerprint was sealed over an event that there is."""
    for stream, sealed in claims.sealed.items():
        end = heads.get(stream, NO_HEAD).seq
        for seq in sealed:
            if seq > end:
                found.add(
                    Problem("fingerprint", f"a fingerprint was sealed here, and the log ends at {end}", 0, stream, seq)
                )


def _heads(log: EventLog, heads: dict[str, Head], found: Verification) -> None:
    """Compare what the log holds with what the engine says of each stream."""
    listed: set[str] = set()
    for info in iterate.streams(log):
        listed.add(info.stream)
        head = heads.get(info.stream, NO_HEAD)
        if (head.seq, head.link) != (info.seq, info.link) and not _grew(log, info, head, found.head):
            reason = f"the log ends at seq {head.seq}, the store says {info.seq}"
            found.add(Problem("head", reason, 0, info.stream, info.seq))
    for stream in sorted(heads.keys() - listed):
        found.add(
            Problem("head", "the log has the stream, and the store does not list it", 0, stream, heads[stream].seq)
        )


def _grew(log: EventLog, info: StreamInfo, head: Head, upto: int) -> bool:
    """Whether a stream ends later only because it went on since: the events behind what was looked at lead there."""
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

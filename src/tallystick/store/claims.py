"""What the control facts of a log claim, collected so that verification can compare the log with them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.store import facts, iterate, reasons
from tallystick.store.events import EventLog, Problem


class Claims(msgspec.Struct):
    """Facts by stream: the last prune, erased checksums by seq, sealed links by seq; and the snapshots by id.

    `erased_by` is the position of the fact for each erased (stream, seq). `unread` are the streams of facts that lie in
    a hole, and `is_cut` says that any of them may: the streams that they are about cannot be compared with the facts.
    """

    pruned: dict[str, facts.Pruned] = {}
    erased: dict[str, dict[int, bytes]] = {}
    erased_by: dict[tuple[str, int], int] = {}
    sealed: dict[str, dict[int, bytes]] = {}
    snapshots: dict[bytes, facts.Snapshotted] = {}
    unread: set[str] = set()
    is_cut: bool = False
    problems: list[Problem] = []

    def is_complete_for(self, stream: str) -> bool:
        """Whether all facts about a stream could be read."""
        return not self.is_cut and facts.stream_about(stream) not in self.unread

    def take(self, event: Event) -> None:
        """Add the claim of one control fact."""
        try:
            self._take(event)
        except (msgspec.ValidationError, ValueError) as problem:  # ValueError: text that is not hex
            self._note(reasons.FACT_MALFORMED, event, problem=problem)

    def _take(self, event: Event) -> None:
        about = facts.parse(event, facts.Fact).stream
        if event.stream != (facts.stream_about(about) if about else facts.STORE_SNAPSHOTS):
            self._note(reasons.FACT_MISPLACED, event, subject=about or "the store")
        elif event.type == facts.PRUNED:
            pruned = facts.parse(event, facts.Pruned)
            before = self.pruned.get(pruned.stream)
            if before is not None and pruned.through <= before.through:
                self._note(reasons.FACT_OF_EARLIER_CUT, event, through=pruned.through, before=before.through)
            self.pruned[pruned.stream] = pruned
        elif event.type == facts.ERASED:
            erased = facts.parse(event, facts.Erased)
            if erased.seq in self.erased.get(erased.stream, {}):
                self._note(reasons.FACT_OF_SECOND_ERASURE, event, seq=erased.seq)
            self.erased.setdefault(erased.stream, {})[erased.seq] = bytes.fromhex(erased.checksum)
            self.erased_by.setdefault((erased.stream, erased.seq), event.position)
        elif event.type == facts.SEALED:
            sealed = facts.parse(event, facts.Sealed)
            if fingerprint(bytes.fromhex(sealed.link), bytes.fromhex(sealed.state_hash)).hex() != sealed.fingerprint:
                self._note(reasons.FACT_OF_WRONG_SEAL, event)
            self.sealed.setdefault(sealed.stream, {})[sealed.seq] = bytes.fromhex(sealed.link)
        elif event.type == facts.SNAPSHOTTED:
            self.snapshots[event.id] = facts.parse(event, facts.Snapshotted)
        elif event.type == facts.SNAPSHOT_DROPPED:
            dropped = facts.parse(event, facts.SnapshotsDropped)
            for id_ in dropped.snapshots:
                self.snapshots.pop(bytes.fromhex(id_), None)
            known = {id_.hex() for id_, fact in self.snapshots.items() if fact.stream == dropped.stream}
            if dropped.standing is not None and dropped.standing.keys() != known:
                self._note(reasons.FACT_OF_WRONG_SNAPSHOTS, event)

    def _note(self, reason: reasons.Reason, event: Event, **values: Any) -> None:
        self.problems.append(reason.at(event, **values))


def fingerprint(link: bytes, state_hash: bytes) -> bytes:
    """The fingerprint of a stream: one hash over its history and over the state that follows from it."""
    return hashlib.sha256(f"{link.hex()}\n{state_hash.hex()}".encode()).digest()


def read_claims(log: EventLog) -> Claims:
    """Collect the claims of a log."""
    claims = Claims()
    try:
        about = list(_streams_about_streams(log))
    except errors.Damaged:  # the end of the log is lost, and with it the ends of streams
        about, claims.is_cut = [], True
    for stream in (facts.STORE_SNAPSHOTS, *about):
        try:
            for event in iterate.stream(log, stream):
                claims.take(event)
        except errors.Damaged:  # the hole itself is found when the log is read
            claims.unread.add(stream)
    return claims


def _streams_about_streams(log: EventLog) -> Iterator[str]:
    return (info.stream for info in iterate.streams(log, prefix=facts.KIND + "/"))


def check_cuts(log: EventLog, claims: Claims) -> Iterator[Problem]:
    """Each cut that the engine knows and no fact claims, and each that a fact claims and the engine does not know."""
    known: set[str] = set()
    for cut in iterate.cuts(log):
        known.add(cut.stream)
        fact = claims.pruned.get(cut.stream)
        if not claims.is_complete_for(cut.stream):
            continue
        if fact is None:
            yield reasons.CUT_NOT_CLAIMED.of(cut.stream, cut.through, through=cut.through)
        elif (fact.through, fact.link) != (cut.through, cut.link.hex()):
            values = {"through": cut.through, "claimed": fact.through}
            yield reasons.CUT_CLAIMED_OTHERWISE.of(cut.stream, cut.through, **values)
    for stream in sorted(name for name in claims.pruned.keys() - known if claims.is_complete_for(name)):
        yield reasons.CUT_NOT_DONE.of(stream, claims.pruned[stream].through)


def unsound_snapshots(log: EventLog, claims: Claims) -> Iterator[tuple[bytes, facts.Snapshotted, str]]:
    """Each snapshot that a fact claims and whose body is not what was given: its id, its fact, and what is wrong."""
    return _unsound(log, claims, set(log.snapshots.ids()))


def _unsound(log: EventLog, claims: Claims, held: set[bytes]) -> Iterator[tuple[bytes, facts.Snapshotted, str]]:
    for id_, fact in claims.snapshots.items():
        body = log.snapshots.load(id_, bytes_max=fact.body_bytes) if id_ in held else None
        if body is None:
            yield id_, fact, "is missing or unreadable"
        elif chain.checksum(body).hex() != fact.body_hash:
            yield id_, fact, "was changed"


def check_snapshots(log: EventLog, claims: Claims) -> Iterator[Problem]:
    """Each snapshot that a fact claims and whose body is missing or changed, and each body that has no fact."""
    held = set(log.snapshots.ids())
    for id_, fact, problem in _unsound(log, claims, held):
        yield reasons.SNAPSHOT_UNSOUND.of(fact.stream, fact.seq, id=id_.hex(), problem=problem)
    for id_ in sorted(held - claims.snapshots.keys()) if not claims.unread else ():
        yield reasons.SNAPSHOT_NOT_CLAIMED.of(id=id_.hex())

"""What the control facts of a log claim, gathered, so that verification can hold the log against them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from tallystick import errors
from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.store import facts, iterate
from tallystick.store.events import EventLog, Problem


class Claims(msgspec.Struct):
    """Facts by stream: the last prune, erased checksums by seq, sealed links by seq; and the snapshots by id.

    `erased_by` is the position of the fact for each erased (stream, seq).

    `unread` are the streams of facts that lie in a hole, `is_cut` says that any may: of the streams they are about,
    nothing can be held against the facts.
    """

    pruned: dict[str, facts.Pruned] = {}
    erased: dict[str, dict[int, bytes]] = {}
    erased_by: dict[tuple[str, int], int] = {}
    sealed: dict[str, dict[int, bytes]] = {}
    snapshots: dict[bytes, facts.Snapshotted] = {}
    unread: set[str] = set()
    is_cut: bool = False
    problems: list[Problem] = []

    def tells(self, stream: str) -> bool:
        """Whether all facts about a stream could be read."""
        return not self.is_cut and facts.stream_about(stream) not in self.unread

    def take(self, event: Event) -> None:
        """Take one control event into account."""
        try:
            self._take(event)
        except (msgspec.ValidationError, ValueError) as problem:  # ValueError: text that is no hex
            self._wrong(event, f"the fact does not have its form: {problem}")

    def _take(self, event: Event) -> None:
        about = facts.parse(event, facts.Fact).stream
        if event.stream != (facts.stream_about(about) if about else facts.STORE_SNAPSHOTS):
            self._wrong(event, f"a fact about {about or 'the store'} does not belong into this stream")
        elif event.type == facts.PRUNED:
            pruned = facts.parse(event, facts.Pruned)
            before = self.pruned.get(pruned.stream)
            if before is not None and pruned.through <= before.through:
                self._wrong(event, f"it prunes up to seq {pruned.through}, after {before.through} was pruned")
            self.pruned[pruned.stream] = pruned
        elif event.type == facts.ERASED:
            erased = facts.parse(event, facts.Erased)
            if erased.seq in self.erased.get(erased.stream, {}):
                self._wrong(event, f"seq {erased.seq} was erased before")
            self.erased.setdefault(erased.stream, {})[erased.seq] = bytes.fromhex(erased.checksum)
            self.erased_by.setdefault((erased.stream, erased.seq), event.position)
        elif event.type == facts.SEALED:
            sealed = facts.parse(event, facts.Sealed)
            if fingerprint(bytes.fromhex(sealed.link), bytes.fromhex(sealed.state_hash)).hex() != sealed.fingerprint:
                self._wrong(event, "the fingerprint does not follow from its link and state hash")
            self.sealed.setdefault(sealed.stream, {})[sealed.seq] = bytes.fromhex(sealed.link)
        elif event.type == facts.SNAPSHOTTED:
            self.snapshots[event.id] = facts.parse(event, facts.Snapshotted)
        elif event.type == facts.SNAPSHOT_DROPPED:
            dropped = facts.parse(event, facts.SnapshotsDropped)
            for id_ in dropped.snapshots:
                self.snapshots.pop(bytes.fromhex(id_), None)
            known = {id_.hex() for id_, fact in self.snapshots.items() if fact.stream == dropped.stream}
            if dropped.standing is not None and dropped.standing.keys() != known:
                self._wrong(event, "the snapshots that it lists are not those that stood then")

    def _wrong(self, event: Event, reason: str) -> None:
        self.problems.append(Problem("fact", reason, event.position, event.stream, event.seq))


def fingerprint(link: bytes, state_hash: bytes) -> bytes:
    """The fingerprint of a stream: one hash over its history and over the state that follows from it."""
    return hashlib.sha256(f"{link.hex()}\n{state_hash.hex()}".encode()).digest()


def read_claims(log: EventLog) -> Claims:
    """Gather the facts of a log."""
    claims = Claims()
    try:
        about = list(_streams_about_streams(log))
    except errors.Damaged:  # the end of the log is lost, and with it the ends of streams
        about, claims.is_cut = [], True
    for stream in (facts.STORE_SNAPSHOTS, *about):
        try:
            for event in iterate.stream(log, stream):
                claims.take(event)
        except errors.Damaged:  # the hole itself is named by whoever reads the log
            claims.unread.add(stream)
    return claims


def _streams_about_streams(log: EventLog) -> Iterator[str]:
    return (info.stream for info in iterate.streams(log, prefix=facts.KIND + "/"))


def check_cuts(log: EventLog, claims: Claims) -> Iterator[Problem]:
    """Every cut that the engine knows is claimed by a fact, and the other way round."""
    known: set[str] = set()
    for cut in iterate.cuts(log):
        known.add(cut.stream)
        fact = claims.pruned.get(cut.stream)
        if not claims.tells(cut.stream):
            continue
        if fact is None:
            reason = f"the store says that it is pruned up to seq {cut.through}, and no control fact does"
            yield Problem("cut", reason, 0, cut.stream, cut.through)
        elif (fact.through, fact.link) != (cut.through, cut.link.hex()):
            reason = f"the store says pruned up to seq {cut.through}, the control fact {fact.through}, or another link"
            yield Problem("cut", reason, 0, cut.stream, cut.through)
    for stream in sorted(name for name in claims.pruned.keys() - known if claims.tells(name)):
        reason = "a control fact says that it was pruned, and the store does not know of it"
        yield Problem("cut", reason, 0, stream, claims.pruned[stream].through)


def unsound_snapshots(log: EventLog, claims: Claims) -> Iterator[tuple[bytes, facts.Snapshotted, str]]:
    """Each snapshot that a fact claims and whose body is not what was given: its id, its fact, and what is wrong."""
    held = set(log.snapshots.ids())
    for id_, fact in claims.snapshots.items():
        body = log.snapshots.load(id_, bytes_max=fact.body_bytes) if id_ in held else None
        if body is None:
            yield id_, fact, "is missing or unreadable"
        elif chain.checksum(body).hex() != fact.body_hash:
            yield id_, fact, "was changed"


def check_snapshots(log: EventLog, claims: Claims) -> Iterator[Problem]:
    """Every snapshot that a fact claims has its body, whole and unchanged; and no body is without a fact."""
    held = set(log.snapshots.ids())
    for id_, fact, what in unsound_snapshots(log, claims):
        yield Problem("snapshot", f"the body of snapshot {id_.hex()} {what}", 0, fact.stream, fact.seq)
    for id_ in sorted(held - claims.snapshots.keys()) if not claims.unread else ():
        yield Problem("snapshot", f"no control fact tells of the snapshot {id_.hex()}")

"""The lines of a whole export that are not events. Each begins with the key `tally`, which says what it is.

    {"tally":"export","format":1,"store_id","engine","profile","head","cuts","erased","ordered"}      the first line
    {"tally":"cut","stream","through","link","first_position","last_position","count","org","fact"}   a pruned stream
    {"tally":"pruned","events":[[position, id, type, org, tags], …]}    what is kept of pruned events
    {"tally":"erased","events":[[position, fact], …]}                erased events, and the facts about them
    {"tally":"snapshot","id","body","more"}                          a snapshot's body in base64, in pieces
    {"tally":"end","events","pruned","cuts","snapshots","head","sha256"}                              the last line

Cuts follow the first line. Events and pruned positions are in order of position; snapshots come after them. `fact` is
the position of the control fact that names the cut or the erasure; the line about an erased event comes before it.
`sha256` is over every byte before the last line. If `ordered` is false, the engine has no order between streams, and
its positions mean nothing elsewhere.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from tallystick import errors
from tallystick.event import limits, names, tags
from tallystick.event.line import FRAME
from tallystick.store.maintenance import Cut, PrunedEvent
from tallystick.store.transfer import FoundingCut

FORMAT = 1
PIECE_BYTES_MAX = 1 << 20
PRUNED_MAX = 1000


class Begin(msgspec.Struct, frozen=True, tag_field="tally", tag="export"):
    """What is exported. `cuts` and `erased` count what was removed from it."""

    store_id: str
    engine: str
    profile: str
    head: int
    cuts: int
    erased: int
    ordered: bool
    format: int = FORMAT


class CutLine(msgspec.Struct, frozen=True, tag_field="tally", tag="cut"):
    """What was pruned of one stream."""

    stream: str
    through: int
    link: str
    first_position: int
    last_position: int
    count: int
    org: str | None
    fact: int

    def check(self) -> None:
        """Raise `ValueError` for a value that it cannot have."""
        _check_bytes(self.link, 32)
        _check_positions(self.through, self.first_position, self.last_position, self.count, self.fact)
        if not self.first_position <= self.last_position < self.fact:
            raise ValueError("a cut is not before the fact that names it")

    @property
    def founding(self) -> FoundingCut:
        """The cut as the receiving store takes it."""
        cut = Cut(
            stream=self.stream,
            through=self.through,
            link=bytes.fromhex(self.link),
            first_position=self.first_position,
            last_position=self.last_position,
            count=self.count,
            org=self.org,
        )
        return FoundingCut(cut, self.fact)


class PrunedEntry(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """What is kept of one pruned event. Type, org and tags may be missing if an earlier version pruned it."""

    position: int
    id: str
    type: str | None = None
    org: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def kept(self) -> PrunedEvent:
        """The entry as the receiving store takes it."""
        return PrunedEvent(self.position, bytes.fromhex(self.id), self.type, self.org, self.tags)


class PrunedLine(msgspec.Struct, frozen=True, tag_field="tally", tag="pruned"):
    """What is kept of pruned events."""

    events: list[PrunedEntry]

    def check(self) -> None:
        """Raise `ValueError` for a value that it cannot have."""
        for entry in self.events:
            _check_positions(entry.position)
            _check_bytes(entry.id, 16)
            if entry.type is not None:
                names.check_type(entry.type)
            if entry.org is not None:
                names.check_label("org", entry.org)
            if tags.normal(entry.tags) != list(entry.tags):
                raise ValueError("the tags of a pruned event are not sorted")


def pruned_line(found: Sequence[PrunedEvent]) -> PrunedLine:
    """The line about some pruned events."""
    return PrunedLine([PrunedEntry(each.position, each.id.hex(), each.type, each.org, each.tags) for each in found])


class ErasedLine(msgspec.Struct, frozen=True, tag_field="tally", tag="erased"):
    """Positions of erased events, and of the control facts that say so."""

    events: list[tuple[int, int]]

    def check(self) -> None:
        """Raise `ValueError` for a value that it cannot have."""
        for position, fact in self.events:
            _check_positions(position, fact)
            if position >= fact:
                raise ValueError("an erased event is not before the fact that names it")


class SnapshotLine(msgspec.Struct, frozen=True, tag_field="tally", tag="snapshot"):
    """A piece of a snapshot's body; with `more`, another piece follows."""

    id: str
    body: str
    more: bool

    def check(self) -> None:
        """Raise `ValueError` for a value that it cannot have."""
        _check_bytes(self.id, 16)
        base64.b64decode(self.body, validate=True)

    @property
    def piece(self) -> bytes:
        """The bytes."""
        return base64.b64decode(self.body, validate=True)


class End(msgspec.Struct, frozen=True, tag_field="tally", tag="end"):
    """What was in the export, so that an incomplete one is noticed."""

    events: int
    pruned: int
    cuts: int
    snapshots: int
    head: int
    sha256: str


def _check_bytes(text: str, size: int) -> None:
    if len(bytes.fromhex(text)) != size:
        raise ValueError(f"{text[:80]!r} is not {size} bytes in hex")


def _check_positions(*numbers: int) -> None:
    for number in numbers:
        if not 0 < number <= limits.INT_MAX:
            raise ValueError(f"{number} is not a number from 1 to 2^63-1")


FrameLine: TypeAlias = Begin | CutLine | PrunedLine | ErasedLine | SnapshotLine | End

_decode = msgspec.json.Decoder(FrameLine).decode


def is_frame_line(text: bytes) -> bool:
    """Whether a line is one of these, and not an event."""
    return text.startswith(FRAME)


def parse(text: bytes) -> FrameLine:
    """The line; refused if its form is wrong."""
    try:
        found: FrameLine = _decode(text)
        if isinstance(found, Begin) and found.format != FORMAT:
            raise errors.InvalidInput(reason=f"the export has format {found.format}, but this program reads {FORMAT}")
        if isinstance(found, CutLine | PrunedLine | ErasedLine | SnapshotLine):
            found.check()
        return found
    except ValueError as problem:  # the errors of msgspec are too
        raise errors.InvalidInput(reason=f"it is not a line of an export: {problem}") from problem


def encode(line: FrameLine) -> bytes:
    """The line with its end."""
    return msgspec.json.encode(line) + b"\n"


def cut_line(founding: FoundingCut) -> CutLine:
    """A cut as a line."""
    cut = founding.cut
    return CutLine(
        cut.stream,
        cut.through,
        cut.link.hex(),
        cut.first_position,
        cut.last_position,
        cut.count,
        cut.org,
        founding.fact_position,
    )


def snapshot_lines(id_: bytes, body: bytes) -> list[SnapshotLine]:
    """A body as lines."""
    pieces = [body[at : at + PIECE_BYTES_MAX] for at in range(0, len(body), PIECE_BYTES_MAX)] or [b""]
    last = len(pieces) - 1
    return [
        SnapshotLine(id_.hex(), base64.b64encode(piece).decode(), number < last) for number, piece in enumerate(pieces)
    ]

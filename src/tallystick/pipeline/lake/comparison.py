"""Comparing the rows of a table with those it must have: each event once, at its position, with the same columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallystick.pipeline.lake.schema import SCHEMA
from tallystick.store import iterate
from tallystick.store.events import Problem
from tallystick.store.maintenance import Cut
from tallystick.store.store import Store

_PLACE = ("position", "stream", "seq")


class TableComparison:
    """Compares one window of positions after the other."""

    def __init__(self, later: set[int]) -> None:
        self._later = later  # positions of payloads that facts after the mark erased: not a finding
        self._cuts: dict[str, Cut | None] = {}
        self._anchored: set[str] = set()
        self.not_reached = 0
        self.uncompared = 0  # rows that neither log nor archive has any more

    def compare(self, store: Store, expected: pa.Table, rows: pa.Table, *, is_archived: bool) -> Iterator[Problem]:
        """What is wrong in a window. If it is archived, it must also have the events that the log has pruned."""
        positions, wanted = rows["position"].to_numpy(), expected["position"].to_numpy()
        is_again = np.zeros(len(positions), bool)
        is_again[1:] = positions[1:] == positions[:-1]
        yield from _problems(rows, np.flatnonzero(is_again), "the table has this position more than once")
        once = np.flatnonzero(~is_again)
        at = np.searchsorted(positions[once], wanted)
        is_there = np.zeros(len(wanted), bool)
        inside = at < len(once)
        is_there[inside] = positions[once][at[inside]] == wanted[inside]
        yield from _problems(expected, np.flatnonzero(~is_there), "the table does not have this event")
        is_known = np.isin(positions, wanted)
        yield from self._extra(store, rows.filter(pa.array(~is_known)), is_archived)
        yield from self._changed(expected.filter(pa.array(is_there)), rows.take(pa.array(once[at[is_there]])))

    def _extra(self, store: Store, rows: pa.Table, is_archived: bool) -> Iterator[Problem]:
        """Rows that neither the log nor the archive has. Events that were pruned may be missing there."""
        places = (rows[name].to_pylist() for name in (*_PLACE, "link"))
        for position, stream, seq, link in zip(*places, strict=True):
            cut = self._cut(store, stream) if not is_archived and stream is not None else None
            if cut is not None and seq is not None and seq <= cut.through:
                self.uncompared += 1
                if seq == cut.through and link == cut.link:
                    self._anchored.add(cut.stream)
                continue
            yield Problem("row", "neither the log nor its archive has this event", position, stream or "", seq or 0)

    def _cut(self, store: Store, stream: str) -> Cut | None:
        if stream not in self._cuts:
            self._cuts[stream] = store.cut(stream)
        return self._cuts[stream]

    def unanchored(self, store: Store, *, after: int, until: int) -> Iterator[Problem]:
        """Streams that were pruned in this range, and whose last pruned event the table does not have as it was."""
        for cut in iterate.cuts(store.log):
            if after < cut.last_position <= until and cut.stream not in self._anchored:
                reason = "the log was pruned up to this event, and the table does not have it as it was"
                yield Problem("head", reason, cut.last_position, cut.stream, cut.through)

    def _changed(self, expected: pa.Table, rows: pa.Table) -> Iterator[Problem]:
        """Rows that differ from the expected ones, with the names of the columns."""
        wrong: dict[int, list[str]] = {}
        for name in SCHEMA.names:
            for at in np.flatnonzero(_differs(expected[name], rows[name])).tolist():
                if name != "payload" or not self._is_late(expected, rows, at):
                    wrong.setdefault(at, []).append(name)
        places = zip(*(expected[name].to_pylist() for name in _PLACE), strict=True) if wrong else ()
        for at, (position, stream, seq) in enumerate(places):
            if at in wrong:
                yield Problem("row", f"it differs from what was written: {', '.join(wrong[at])}", position, stream, seq)

    def _is_late(self, expected: pa.Table, rows: pa.Table, at: int) -> bool:
        """Whether a payload was erased since, and the next run will remove it."""
        is_late = (
            not expected["payload"][at].is_valid
            and rows["payload"][at].is_valid
            and expected["position"][at].as_py() in self._later
        )
        self.not_reached += is_late
        return is_late


def _differs(expected: pa.ChunkedArray, found: pa.ChunkedArray) -> np.ndarray:
    """Where two columns differ. Texts are compared as bytes: a damaged one may not be UTF-8."""
    if pa.types.is_string(expected.type):
        expected, found = (_as_bytes(column) for column in (expected, found))
    is_same = pc.fill_null(pc.equal(expected, found), False)
    both_null = pc.and_(pc.is_null(expected), pc.is_null(found))
    same: np.ndarray = pc.or_(is_same, both_null).to_numpy()
    return ~same.astype(bool)


def _as_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([chunk.view(pa.binary()) for chunk in column.chunks], pa.binary())


def _problems(rows: pa.Table, at: np.ndarray, reason: str) -> Iterator[Problem]:
    chosen = rows.take(pa.array(at)) if len(at) else rows.slice(0, 0)
    for position, stream, seq in zip(*(chosen[name].to_pylist() for name in _PLACE), strict=True):
        yield Problem("row", reason, position, stream or "", seq or 0)

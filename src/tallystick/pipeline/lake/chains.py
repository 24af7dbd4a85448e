"""Checking the rows of a table by themselves: checksums, and every stream from its first event on.

`chain_check` checks the rows, as in the Spark tasks of `verify`; here one process sees all of them, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tallystick.event import chain
from tallystick.pipeline.verify.chain_check import BREAK, EDGE, FACT, SUSPECT, ChainChecker, Found, edge_rows
from tallystick.store import facts, reasons
from tallystick.store.events import Problem
from tallystick.store.reasons import Reason

_GENESIS = "0" * 64


class Chains:
    """Checks the rows of a table, stream by stream."""

    def __init__(self) -> None:
        self._pieces = ChainChecker()
        self.erased: set[int] = set()  # by a control fact
        self.gone: dict[int, tuple[str, int]] = {}  # position of a row without a payload -> stream and seq
        self.events = self.streams = 0

    def take(self, rows: pa.Table) -> Iterator[Problem]:
        """Check the next rows, which come in order of position."""
        for batch in rows.to_batches():
            for found in self._pieces.take(batch):
                yield from self._judged(found)

    def close(self) -> Iterator[Problem]:
        """Check where each stream begins."""
        for found in self._pieces.close():
            if not isinstance(found, pa.RecordBatch):
                self.events = found["events"]
                continue
            self.streams += len(found)
            for edge in edge_rows(found.filter(pc.invert(found.column("begins")))):
                yield from self._judged(edge)

    def _judged(self, found: Found) -> Iterator[Problem]:
        kind = found["kind"]
        if kind == FACT:
            self._note(found)
        elif kind == SUSPECT and found["gone"]:
            self.gone[found["position"]] = (_text(found["stream"]), found["seq"])
        elif kind == SUSPECT:
            yield _problem(found, reasons.CHECKSUM)
        elif kind in (EDGE, BREAK):
            yield from _misplaced(found)

    def _note(self, found: Found) -> None:
        """Remember the position that an erasure fact names. A damaged fact is found as a changed row."""
        if _text(found["type"]) != facts.ERASED or found["payload"] is None:
            return
        try:
            self.erased.add(msgspec.json.decode(found["payload"], type=facts.Erased).position)
        except msgspec.DecodeError:
            return


def _misplaced(found: Found) -> Iterator[Problem]:
    """Why an event does not follow the one before it in its stream, or cannot begin a stream."""
    seq, position = found.get("seq_before") or 0, found.get("position_before") or 0
    neighbour = f" (after position {position})" if position else ""
    if found["seq"] != seq + 1:
        yield _problem(found, reasons.SEQUENCE, neighbour, seq=found["seq"], before=seq)
        return
    link = found.get("link_before")
    before = _GENESIS if position == 0 else link.hex() if link is not None else ""
    rest = found["rest"]
    if rest is None or sha256(f"{chain.DOMAIN}\n{before}".encode() + rest).digest() != found["link"]:
        yield _problem(found, reasons.LINK, neighbour)
    elif found["position"] <= position:
        yield _problem(found, reasons.ORDER, neighbour)


def _problem(found: Found, reason: Reason, neighbour: str = "", **values: Any) -> Problem:
    sentence = reason.sentence.format(**values) + neighbour
    return Problem(reason.code, sentence, found["position"] or 0, _text(found["stream"]), found["seq"] or 0)


def _text(value: bytes | str | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""

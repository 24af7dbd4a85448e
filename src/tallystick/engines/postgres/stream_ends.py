"""Where streams end, as far as a handle knows: then a batch needs no question before it is written.

Invariant: this is a guess and never a judgement. The database holds each against the stream under its lock, and one
that is wrong writes nothing and costs a second look.
"""

from __future__ import annotations

import threading

from tallystick.store import expectation
from tallystick.store.commit import Write
from tallystick.store.ledger import NO_HEAD, Head

_STREAMS_MAX = 1024
_SURE, _LIKELY = 3, 2  # of streams that were not known: how often, lately, they turned out to be new


class StreamEndCache:
    """The ends of the streams that were written last. A stream that others write too is not guessed again."""

    def __init__(self) -> None:
        self._heads: dict[str, Head | None] = {}  # None: others write it
        self._turn = threading.Lock()
        self._news = _LIKELY

    def guess(self, write: Write) -> Head | None:
        """Where the stream of a write ends; None if there is nothing to go by, or the write expects something else."""
        stream, expected = write.stream, write.expected
        if stream not in self._heads:
            likely = expected == expectation.NO_STREAM or (expected == expectation.ANY and self._news >= _LIKELY)
            return NO_HEAD if likely else None
        head = self._heads.get(stream)
        return head if head is not None and expected in (expectation.ANY, head.seq) else None

    def learn(self, stream: str, head: Head, *, first_seq: int) -> None:
        """A commit of this handle, whose first event had `first_seq`, has moved a stream."""
        with self._turn:
            if stream not in self._heads:
                self._news = min(_SURE, self._news + 1) if first_seq == 1 else max(0, self._news - 1)
                if len(self._heads) >= _STREAMS_MAX:
                    del self._heads[next(iter(self._heads))]
            elif self._heads[stream] is None:
                return
            self._heads[stream] = head

    def moved(self, stream: str, seq: int, link: bytes, orgs: frozenset[str]) -> None:
        """As `learn`, of a single event: it tells nothing about streams that are not known."""
        with self._turn:
            if (head := self._heads.get(stream)) is not None:
                self._heads[stream] = Head(seq, link, head.org or min(orgs, default=None))

    def forget(self, stream: str) -> None:
        """A stream did not end where it was guessed to."""
        with self._turn:
            if stream in self._heads:
                self._heads[stream] = None

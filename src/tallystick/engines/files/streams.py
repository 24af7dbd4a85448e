"""The streams of a log in order of name, page by page: the ends that each index knows, merged.

After a page its iterator is kept, so that the next page need not read the indexes from the disk again: those of a
million streams do not fit into the cache. One iterator is kept, until something is written or the last page was read.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

from tallystick.engines.files.index import Named
from tallystick.engines.files.segments import Segments
from tallystick.engines.files.view import LogView
from tallystick.store.ledger import Head
from tallystick.store.page import StreamInfo

_Age: TypeAlias = int  # 0 is the newest part of an index
_Place: TypeAlias = tuple[str, int]  # the last name, and how far the log was indexed


class StreamListing:
    """The streams of an open log."""

    def __init__(self, view: LogView) -> None:
        self._view = view
        self._kept: dict[_Place, tuple[Segments, Iterator[StreamInfo]]] = {}

    def page(self, after: str, limit: int) -> list[StreamInfo]:
        """The streams after a name, at most `limit`, with those that were pruned."""
        self._view.refresh()
        return self._view.retry_on_swap(lambda: self._page(after, limit))

    def _page(self, after: str, limit: int) -> list[StreamInfo]:
        segments = self._view.segments
        reached = segments[-1].covered_end
        known, rows = self._kept.pop((after, reached), (None, None))
        if rows is None or known is not segments:
            rows = self._streams(segments, after)
        found = list(islice(rows, limit))
        self._kept.clear()
        if found and len(found) == limit:
            self._kept[found[-1].stream, reached] = segments, rows
        return found

    def _streams(self, segments: Segments, after: str) -> Iterator[StreamInfo]:
        head_of, cuts = self._view.life.head, self._view.life.cuts
        for name, head in _merged(segments, list(cuts), after):
            found = head_of(name, head)
            if found is not None:
                yield StreamInfo(name, found.seq, found.link, found.org)


def _merged(segments: Segments, pruned: Iterable[str], after: str) -> Iterator[tuple[str, Head | None]]:
    """Every name once, with the end in the newest segment; None if only a cut remembers the stream."""
    runs = [run for item in reversed(segments) for run in reversed(item.names(after))]
    gone = [(name, len(runs), None) for name in sorted(pruned) if name > after]
    last = ""
    for name, _, head in heapq.merge(gone, *(_aged(run, age) for age, run in enumerate(runs))):
        if name != last:
            last = name
            yield name, head


def _aged(run: Iterator[Named], age: _Age) -> Iterator[tuple[str, _Age, Head | None]]:
    return ((name, age, head) for name, head in run)

"""Which events an archive holds, proven by its files: pruning asks this before it removes events from the log.

A bucket is trusted if its file has the hash that the manifest names and its blocks have their digests. An event is
held if the row at its position has its link and, where the log has a payload, a payload with the same checksum.
Nothing here needs a Spark session.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from tallystick import errors
from tallystick.event import chain
from tallystick.event.model import Event
from tallystick.pipeline.archive import bucket_reader, manifest
from tallystick.pipeline.archive.history import require_same_history
from tallystick.pipeline.archive.manifest import Bucket
from tallystick.pipeline.source.columns import arrow_schema
from tallystick.pipeline.storage.port import Storage, storage_at
from tallystick.store.store import Store

BUCKETS_KEPT = 8
_ASKED = ("position", "link", "payload")


class BucketRows(msgspec.Struct, frozen=True):
    """The rows of a bucket: positions in order, the link at each, and the checksum of its payload if it has one."""

    positions: array[int]
    links: pa.Array
    checksums: pa.Array


class ArchiveCoverage:
    """An archive of a log, opened to look up events."""

    def __init__(self, directory: str | Path | Storage, store: Store) -> None:
        self._storage = storage_at(directory)
        self._manifest = manifest.load(self._storage)
        require_same_history(self._storage, self._manifest, store)
        self._read: OrderedDict[int, BucketRows | str] = OrderedDict()

    @property
    def through(self) -> int:
        """The last position that is archived."""
        return self._manifest.through

    @property
    def witness(self) -> dict[str, Any]:
        """How far the archive goes, and a hash over the events and positions up to there."""
        found: dict[str, Any] = msgspec.to_builtins(manifest.witness(self._manifest))
        return found

    def why_not(self, events: Sequence[Event]) -> str | None:
        """Why the archive does not hold these events; None if it holds every one."""
        for event in events:
            bucket = self._manifest.bucket_of(event.position)
            if bucket is None:
                return f"the archive ends at position {self.through}, and seq {event.seq} is at {event.position}"
            rows = self._rows(bucket)
            if isinstance(rows, str):
                return f"the archive is not what its manifest says: {rows}"
            if (reason := _why_not_held(rows, event)) is not None:
                return f"the archive {reason} seq {event.seq} at position {event.position}"
        return None

    def _rows(self, bucket: Bucket) -> BucketRows | str:
        """The rows of a bucket, or what is wrong with it. The last few are cached: streams share buckets."""
        if bucket.first not in self._read:
            self._read[bucket.first] = _checked(self._storage, bucket)
            if len(self._read) > BUCKETS_KEPT:
                self._read.popitem(last=False)
        self._read.move_to_end(bucket.first)
        return self._read[bucket.first]


def _checked(storage: Storage, bucket: Bucket) -> BucketRows | str:
    """The rows of a bucket, or why it is not what its manifest says."""
    file = bucket_reader.file_of(bucket)
    try:
        batches = list(bucket_reader.read(storage, file, _ASKED)) if file is not None else []
    except errors.ArchiveDamaged as damage:
        return str(damage.values["reason"])
    table = pa.Table.from_batches(batches, schema=arrow_schema(_ASKED))
    return BucketRows(
        array("q", table["position"].to_pylist()),
        table["link"].combine_chunks(),
        pa.array(map(_checksum, table["payload"].cast(pa.binary())), pa.binary()),
    )


def _checksum(payload: pa.Scalar) -> bytes | None:
    """The checksum of the stored payload, whatever the row says."""
    return chain.checksum(payload.as_buffer()) if payload.is_valid else None


def _why_not_held(rows: BucketRows, event: Event) -> str | None:
    """What is wrong with the row of an event; None if it holds the event."""
    at = bisect_left(rows.positions, event.position)
    if at == len(rows.positions) or rows.positions[at] != event.position:
        return "does not hold"
    if rows.links[at].as_py() != event.link:
        return "has another event instead of"
    found = rows.checksums[at].as_py()
    if event.payload is None or found == event.checksum:
        return None
    return "has no payload of" if found is None else "has another payload for"

"""Packets of events for the tasks that fold them: hundreds of events per row, so that Spark shuffles few rows.

    pieces → (part, group, number, packet) → repartition(part) → sort(group, number) → groups of events

A group is a set of keys, chosen by hash, whose states fit into a worker together. A packet holds events of one group
from one piece, as compressed Arrow: key by key, each key's events in order of position. Numbers rise with the pieces,
so the packets of a group, read in order of number, have the events of each key in order. The row `rebuild, a Python
projection: processor time of an event, largest log` measures the gain over single rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from tallystick.event.catalog import Catalog
from tallystick.event.model import Event
from tallystick.pipeline.fold.keys import KEY, key_name
from tallystick.pipeline.fold.pieces import LogPiece, PieceReader
from tallystick.pipeline.source import columns
from tallystick.pipeline.source.columns import COLUMNS, Batches
from tallystick.pipeline.spark import tasks
from tallystick.projections import model
from tallystick.store.views import BY_KIND, BY_STREAM

GROUP_EVENTS = 100_000
GROUP_EVENTS_MAX = 250_000
GROUPS_MAX = 1024
PART_EVENTS_MIN = 25_000
TABLE_BYTES_MIN, TABLE_BYTES_A_GROUP = 16 << 20, 64 << 10  # so that packets do not become too small
PACKET_BYTES = 512 << 10  # a quarter of that when packed: Spark passes Python a thousand rows at a time
SENT_BYTES = 2 << 20
_EVENTS_A_TURN = 1000  # small enough for a core's cache
_PACKETS_A_PIECE_BITS = 32
_DDL = "part int, grp int, number bigint, size int, packet binary"
_SCHEMA = pa.schema(
    [("part", pa.int32()), ("grp", pa.int32()), ("number", pa.int64()), ("size", pa.int32()), ("packet", pa.binary())]
)

Keyed = tuple[list[str], list[int], list[Event]]
Packet = tuple[int, int, int, int, bytes]


class PacketPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Into how many groups the keys are split, for how many tasks, and how much of a piece is in memory at a time."""

    groups: int
    parts: int
    table_bytes: int = TABLE_BYTES_MIN
    packet_bytes: int = PACKET_BYTES


def plan(events: int, *, parts_max: int) -> PacketPlan | None:
    """The plan for this many events; None if there are too many for packets."""
    if events > GROUPS_MAX * GROUP_EVENTS_MAX:
        return None
    parts = min(parts_max, GROUPS_MAX, max(-(-events // PART_EVENTS_MIN), 1))
    wanted = min(-(-events // GROUP_EVENTS), GROUPS_MAX)
    groups = max(-(-wanted // parts), 1) * parts
    return PacketPlan(groups=groups, parts=parts, table_bytes=max(TABLE_BYTES_MIN, groups * TABLE_BYTES_A_GROUP))


def packet_table(
    spark: SparkSession,
    pieces: list[LogPiece],
    reader: PieceReader,
    projection: Any,
    catalog: Catalog,
    plan: PacketPlan,
    keys: Collection[str] | None = None,
) -> DataFrame:
    """The packets of all pieces, each part sorted by group; only of `keys`, if given."""

    def pack(numbered: tuple[int, LogPiece]) -> Batches:
        number, piece = numbered
        yield from _batched(_packets(reader, piece, number, projection, catalog, plan, keys))
        pa.default_memory_pool().release_unused()  # the worker runs other tasks after this one

    found = tasks.table(spark, list(enumerate(pieces)), pack, _DDL)
    return found.repartitionById(plan.parts, "part").sortWithinPartitions("grp", "number")


def _batched(packets: Iterator[Packet]) -> Batches:
    """Packets in batches of about `SENT_BYTES`."""
    waiting: list[Packet] = []
    size = 0
    for packet in packets:
        waiting.append(packet)
        size += len(packet[-1])
        if size >= SENT_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(packets: list[Packet]) -> pa.RecordBatch:
    arrays = [pa.array(values, field.type) for values, field in zip(zip(*packets, strict=True), _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _packets(
    reader: PieceReader,
    piece: LogPiece,
    number: int,
    projection: Any,
    catalog: Catalog,
    plan: PacketPlan,
    keys: Collection[str] | None = None,
) -> Iterator[Packet]:
    """The packets of one piece."""
    codec, name = pa.Codec("zstd", 1), key_name(projection)
    at = number << _PACKETS_A_PIECE_BITS
    for table in reader.tables(piece, plan.table_bytes):
        keyed = _with_key(table, projection, catalog)
        if keys is not None:
            keyed = keyed.filter(pc.is_in(keyed.column(name), pa.array(keys, pa.string())))
        for group, batch in _split(keyed, name, plan):
            body = batch.serialize()
            yield group % plan.parts, group, at, body.size, codec.compress(body, asbytes=True)
            at += 1


def _with_key(table: pa.Table, projection: Any, catalog: Catalog) -> pa.Table:
    """The events with their keys, as the in-process runner computes them. Erased events without a key are left out."""
    if projection.key == BY_STREAM:
        return table
    if projection.key == BY_KIND:
        streams = _encoded(table, "stream")
        kinds = [stream.partition("/")[0] for stream in streams.dictionary.to_pylist()]
        return table.append_column(KEY, pa.array(kinds, pa.string()).take(streams.indices))
    there = table.filter(table.column("payload").is_valid())
    keys: list[str | None] = []
    for batch in there.to_batches(_EVENTS_A_TURN):
        keys += [model.key_of(projection, event) for event in catalog.upcast(list(columns.to_events(batch)))]
    return there.append_column(KEY, pa.array(keys, pa.string()))


def _split(table: pa.Table, name: str, plan: PacketPlan) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The events of each group, key by key, in one batch per packet."""
    if not table.num_rows:
        return
    keys = _encoded(table, name)
    hashes = [zlib.crc32(key.encode()) % plan.groups for key in keys.dictionary.to_pylist()]
    by_key = np.array(hashes, np.int64) * len(hashes) + np.arange(len(hashes))  # by group, and by key within
    wanted = by_key[keys.indices.to_numpy()]
    order = np.argsort(wanted, kind="stable")
    of_group = wanted[order] // len(hashes)
    edges = [0, *(np.flatnonzero(np.diff(of_group)) + 1).tolist(), len(order)]
    found = table.take(pa.array(order)).combine_chunks()
    rows_max = max(plan.packet_bytes * table.num_rows // max(table.nbytes, 1), 1)
    for begin, end in pairwise(edges):
        for batch in found.slice(begin, end - begin).to_batches(rows_max):
            yield int(of_group[begin]), batch


def _encoded(table: pa.Table, name: str) -> pa.DictionaryArray:
    return table.column(name).combine_chunks().dictionary_encode()


def unpack(batches: Batches, projection: Any, catalog: Catalog) -> Iterator[Keyed]:
    """Keys, their groups, and the upcast events of packets, in order."""
    name = key_name(projection)
    schema = columns.arrow_schema(COLUMNS)
    if name == KEY:
        schema = schema.append(pa.field(KEY, pa.string()))
    codec = pa.Codec("zstd")
    for batch in batches:
        groups, sizes = batch.column("grp").to_pylist(), batch.column("size").to_pylist()
        for group, size, packet in zip(groups, sizes, batch.column("packet"), strict=True):
            whole = pa.ipc.read_record_batch(codec.decompress(packet.as_buffer(), size), schema)
            for begin in range(0, whole.num_rows, _EVENTS_A_TURN):
                part = whole.slice(begin, _EVENTS_A_TURN)
                events = catalog.upcast(list(columns.to_events(part)))
                keys = part.column(name).to_numpy(zero_copy_only=False).tolist()
                yield keys, [group] * len(keys), events

"""Writing the index of a segment as a file: what an older file covers, and what has grown since. See index_file.py."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterator
from typing import Any

import msgspec

from tallystick.engines.files import bloom, lifecycle, stream_entries
from tallystick.engines.files.index import CommandPlace, GrowingIndex, StreamEntry
from tallystick.engines.files.index_file import (
    COMMAND,
    FIELDS,
    FORMAT,
    MAGIC,
    NAMES,
    SECTION,
    SealedIndex,
    decoding,
    unpacked,
)


def encode(base: SealedIndex | None, grown: GrowingIndex, *, store_id: bytes, identity: bytes) -> bytes:
    """The bytes of an index that covers what `base` covers and what has grown since."""
    ids, id_offsets = _merged_ids(base, grown)
    names, ends, entries = _merged_streams(base, grown)
    sections = {
        "positions": (base.section("positions") if base else b"") + _packed(grown.positions),
        "offsets": (base.section("offsets") if base else b"") + _packed(grown.offsets),
        "ids": ids,
        "id_offsets": id_offsets,
        "entry_ends": _packed(ends),
        "entries": entries,
        "bloom": bloom.build(names, len(names)),
        "rest": _merged_rest(base, grown),
        "life": _merged_life(base, grown),
        **_merged_commands(base, grown),
        "gone": _merged_gone(base, grown),
    }
    table = b"".join(SECTION.pack(len(sections[name]), hashlib.sha256(sections[name]).digest()) for name in NAMES)
    fields = FIELDS.pack(MAGIC, FORMAT, store_id, identity, grown.covered_end, grown.next_position) + table
    return b"".join((fields, hashlib.sha256(fields).digest(), *(sections[name] for name in NAMES)))


def _merged_ids(base: SealedIndex | None, grown: GrowingIndex) -> tuple[bytes, bytes]:
    old_ids, old_offsets = (base.section("ids"), base.section("id_offsets")) if base else (b"", b"")
    if not grown.strays and (not old_ids or not grown.ids or old_ids[-16:] < bytes(grown.ids[:16])):
        return old_ids + bytes(grown.ids), old_offsets + _packed(grown.id_offsets)
    pairs = [(old_ids[16 * index : 16 * index + 16], offset) for index, offset in enumerate(unpacked("I", old_offsets))]
    pairs += grown.all_ids()
    pairs.sort()
    return b"".join(id_ for id_, _ in pairs), _packed(array("I", [offset for _, offset in pairs]))


def _merged_streams(base: SealedIndex | None, grown: GrowingIndex) -> tuple[list[str], array[int], bytes]:
    streams: dict[str, StreamEntry] = dict(base.entries()) if base else {}
    for name, entry in grown.streams.items():
        old = streams.get(name)
        streams[name] = StreamEntry(entry.head, bytes(old.postings if old else b"") + bytes(entry.postings))
    names = sorted(streams)
    ends, entries, at = array("I"), [], 0
    for name in names:
        data = stream_entries.encode(name, streams[name])
        at += len(data)
        ends.append(at)
        entries.append(data)
    return names, ends, b"".join(entries)


def _merged_rest(base: SealedIndex | None, grown: GrowingIndex) -> bytes:
    rest: dict[str, Any] = base.rest() if base else {"sources": {}, "leases": [], "far": []}
    taken: dict[str, Any] = {lease[0]: lease for lease in rest["leases"]}
    merged = {
        "sources": rest["sources"] | grown.sources,
        "leases": list((taken | grown.leases).values()),
        "far": [*rest["far"], *grown.far],
    }
    return msgspec.msgpack.encode(merged)


def _merged_life(base: SealedIndex | None, grown: GrowingIndex) -> bytes:
    parts = [grown.life] if base is None else [base.lifecycle(), grown.life]
    return msgspec.msgpack.encode(lifecycle.merged(parts).encode())


def _merged_commands(base: SealedIndex | None, grown: GrowingIndex) -> dict[str, bytes]:
    commands: dict[bytes, CommandPlace] = dict(base.commands()) if base else {}
    commands |= grown.made
    packed = b"".join(COMMAND.pack(digest, *place) for digest, place in sorted(commands.items()))
    return {"commands": packed, "command_bloom": bloom.build(commands, len(commands)) if commands else b""}


def _merged_gone(base: SealedIndex | None, grown: GrowingIndex) -> bytes:
    old = base.section("gone") if base else b""
    if not grown.gone:
        return old
    return b"".join(sorted({*grown.gone, *(old[at : at + 16] for at in range(0, len(old), 16))}))


def _packed(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def differences(base: SealedIndex, grown: GrowingIndex) -> Iterator[str]:
    """Which parts of an index file are not what follows from the frames that it covers, as `grown` took them in."""
    with decoding():
        if (base.covered_end, base.next_position) != (grown.covered_end, grown.next_position):
            yield "how far it reaches"
        ids, offsets = _merged_ids(None, grown)
        if (base.section("ids"), base.section("id_offsets")) != (ids, offsets):
            yield "the ids of events"
        names, ends, entries = _merged_streams(None, grown)
        blooms = (base.section("bloom"), base.section("command_bloom"))
        commands = _merged_commands(None, grown)
        if (base.section("entry_ends"), base.section("entries")) != (_packed(ends), entries):
            yield "the streams"
        if blooms != (bloom.build(names, len(names)), commands["command_bloom"]):
            yield "the filters over streams and commands"
        if base.section("commands") != commands["commands"]:
            yield "the commands"
        if _in_order(base.rest()) != _in_order(msgspec.msgpack.decode(_merged_rest(None, grown))):
            yield "the sources and leases"
        if base.lifecycle().encode() != grown.life.encode():
            yield "what was pruned, erased or kept"
        if base.section("gone") != _merged_gone(None, grown):
            yield "the events that are gone"


def _in_order(rest: dict[str, Any]) -> tuple[dict[str, int], dict[str, Any], list[Any]]:
    """Sources, leases and far ranges, in an order that does not depend on how they were merged."""
    return rest["sources"], {lease[0]: lease for lease in rest["leases"]}, sorted(rest["far"])

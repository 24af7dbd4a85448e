"""The quarantine: files that no longer belong to the log, and are kept because nothing is thrown away.

They are torn tails, damaged segments and copies. An erased payload must not survive here either: it is overwritten with
zeros where it follows the id of its event. A compressed file is removed if it holds such an id, or cannot be searched.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import closing

from tallystick import errors
from tallystick.engines.files import frame as frames
from tallystick.engines.files import segment
from tallystick.engines.files.compressed import as_plain
from tallystick.engines.files.handles import Handles
from tallystick.engines.files.scan import Scanner, next_valid_frame
from tallystick.event.model import Event
from tallystick.store.filesystem import PIECE_BYTES, File, FileSystem, pieces, publish_file, stage_file, write_file

FOLDER = "quarantine"
GZIP_MAGIC = b"\x1f\x8b\x08" + bytes(5)  # the first bytes of each member of a compressed segment: no flags, no time
_ID_BYTES = 16
_BETWEEN_BYTES = 9 + 5  # the time, and the head of the payload, in MessagePack


def move(handles: Handles, name: str, *, time_ns: int) -> str:
    """Move a file of the log's directory into the quarantine; returns a line that says so."""
    files, directory = handles.files, handles.directory
    kept = f"{name}.{time_ns}"
    files.rename(f"{directory}/{name}", f"{directory}/{FOLDER}/{kept}")
    files.sync_dir(f"{directory}/{FOLDER}")
    files.sync_dir(directory)
    return f"{name} is no longer part of the log: moved to {FOLDER}/{kept}"


def copy(files: FileSystem, directory: str, name: str, *, time_ns: int, folder: str = ".") -> str:
    """Copy a file of the log's directory, or of a folder there, into the quarantine, durably; returns its path."""
    kept = f"{FOLDER}/{name}.damaged.{time_ns}"
    path = f"{directory}/{name}" if folder == "." else f"{directory}/{folder}/{name}"
    with closing(files.open_read(path)) as source:
        write_file(files, f"{directory}/{kept}", pieces(source, 0, source.size()))
    files.sync_dir(f"{directory}/{FOLDER}")
    return kept


def blank(files: FileSystem, directory: str, events: list[Event], erased: list[int]) -> list[str]:
    """Remove the payloads of these events from every file of the quarantine; returns a line for each changed file.

    Events at erased positions are also found in files that are segments.
    """
    done: list[str] = []
    for name in files.list(f"{directory}/{FOLDER}"):
        path = f"{directory}/{FOLDER}/{name}"
        with closing(files.open_read(path)) as file:
            held = [*events, *_held(file, frozenset(erased))]
            holds_packed = _holds_packed(file, held)
            ranges = [] if holds_packed else _ranges(file, held)
            if ranges:
                stage_file(files, f"{directory}/{FOLDER}", name, _blanked(file, ranges))
        if holds_packed:
            files.unlink(path)
            files.sync_dir(f"{directory}/{FOLDER}")
            done.append(f"{FOLDER}/{name} held an erased payload, compressed: removed")
        elif ranges:
            publish_file(files, f"{directory}/{FOLDER}", name)
            done.append(f"{FOLDER}/{name} held an erased payload: overwritten with zeros there")
    return done


def _held(file: File, erased: frozenset[int]) -> Iterator[Event]:
    """The events at erased positions that a segment still holds with their payloads."""
    try:
        header = segment.decode(file.read_at(0, segment.SIZE_MAX), path="")
    except (segment.BadHeader, errors.NewerFormat):
        return
    plain, offset, position = as_plain(file, header), header.size, header.first_position
    while True:
        scanner = Scanner(plain, header.identity, offset=offset, end=plain.size(), position=position)
        for frame, data in scanner:
            for event in frames.decode_body(frame, data).events:
                if event.position in erased and event.payload is not None:
                    yield event
        position = scanner.position or position
        valid = next_valid_frame(plain, header.identity, begin=scanner.offset + 1, end=plain.size(), position=position)
        if valid is None:
            return
        offset, position = valid.offset, valid.first_position


def _holds_packed(file: File, events: list[Event]) -> bool:
    """Whether one of these events is in a gzip member of a file, or may be in a damaged one."""
    ids = [event.id for event in events]
    at = next(_found(file, [GZIP_MAGIC]), None)
    while at is not None:
        length = _member_without(file, at[0], ids)
        if length is None:
            return True
        at = next(_found(file, [GZIP_MAGIC], begin=at[0] + length), None)
    return False


def _member_without(file: File, offset: int, ids: list[bytes]) -> int | None:
    """The length of a gzip member that can be unpacked and holds none of these ids; None otherwise."""
    unpacking, end, before = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16), offset, b""
    for packed in pieces(file, offset, file.size()):
        end += len(packed)
        while packed and not unpacking.eof:
            try:
                plain = before + unpacking.decompress(packed, PIECE_BYTES)
            except zlib.error:
                return None
            if any(id_ in plain for id_ in ids):
                return None
            before, packed = plain[-_ID_BYTES:], unpacking.unconsumed_tail
        if unpacking.eof:
            return end - len(unpacking.unused_data) - offset
    return None


def _found(file: File, needles: list[bytes], *, begin: int = 0) -> Iterator[tuple[int, bytes]]:
    """Where each of these is in a file, which is read in pieces. Only within one piece they are not in order."""
    overlap = max(map(len, needles), default=1) - 1
    before = b""
    for piece in pieces(file, begin, file.size()):
        data = before + piece
        for needle in needles:
            at = data.find(needle)
            while at >= 0:
                yield begin - len(before) + at, needle
                at = data.find(needle, at + 1)
        begin += len(piece)
        before = data[len(data) - overlap :]


def _ranges(file: File, events: list[Event]) -> list[tuple[int, int]]:
    """The bytes after every id of these events, as far as a payload may reach, if they are not zeros already."""
    lengths = {event.id: _BETWEEN_BYTES + len(event.payload or b"") + len(event.meta) for event in events}
    found = [(at + len(id_), at + len(id_) + lengths[id_]) for at, id_ in _found(file, list(lengths))]
    return sorted({(begin, end) for begin, end in found if any(file.read_at(begin, end - begin))})


def _blanked(file: File, ranges: list[tuple[int, int]]) -> Iterator[bytes]:
    """The bytes of a file, with zeros in these ranges."""
    offset = 0
    for piece in pieces(file, 0, file.size()):
        data = bytearray(piece)
        for begin, end in ranges:
            begin, end = max(begin - offset, 0), min(end - offset, len(data))
            if begin < end:
                data[begin:end] = bytes(end - begin)
        yield bytes(data)
        offset += len(piece)

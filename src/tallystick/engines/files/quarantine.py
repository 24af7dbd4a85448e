"""The quarantine: files that are kept because nothing is thrown away, and that no longer belong to the log.

Torn tails, damaged segments, copies. An erased payload must not survive here either: it is overwritten with zeros where
it follows the id of its event. A compressed file is removed if it holds such an id, or cannot be searched for it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from tallystick import errors
from tallystick.engines.files import frame as frames
from tallystick.engines.files import segment
from tallystick.engines.files.compressed import as_plain
from tallystick.engines.files.scan import Scanner, next_valid_frame
from tallystick.engines.files.segments import Handles
from tallystick.event.model import Event
from tallystick.store.filesystem import File, FileSystem, pieces, replace_file, write_fully

FOLDER = "quarantine"
GZIP_MAGIC = b"\x1f\x8b\x08" + bytes(5)  # as a compressed segment's members begin: no flags, no time
_BETWEEN_BYTES = 9 + 5  # the time, and the head of the payload, in MessagePack


def move(handles: Handles, name: str, *, time_ns: int) -> str:
    """Move a file of the log's directory into the quarantine; says so."""
    files, directory = handles.files, handles.directory
    kept = f"{name}.{time_ns}"
    files.rename(f"{directory}/{name}", f"{directory}/{FOLDER}/{kept}")
    files.sync_dir(f"{directory}/{FOLDER}")
    files.sync_dir(directory)
    return f"{name} is no part of the log any more: moved to {FOLDER}/{kept}"


def copy(files: FileSystem, directory: str, name: str, *, time_ns: int) -> str:
    """Copy a file of the log's directory into the quarantine, durably; returns its path there."""
    kept = f"{FOLDER}/{name}.damaged.{time_ns}"
    source, target = files.open_read(f"{directory}/{name}"), files.create(f"{directory}/{kept}")
    try:
        at = 0
        for data in pieces(source, 0, source.size()):
            write_fully(target, at, data)
            at += len(data)
        target.sync()
    finally:
        source.close()
        target.close()
    files.sync_dir(f"{directory}/{FOLDER}")
    return kept


def blank(files: FileSystem, directory: str, events: list[Event], erased: list[int]) -> list[str]:
    """Take the payloads of these events out of every file of the quarantine; says which files were changed.

    A file that is a segment also tells by itself what it holds at the erased positions.
    """
    done: list[str] = []
    for name in files.list(f"{directory}/{FOLDER}"):
        path = f"{directory}/{FOLDER}/{name}"
        file = files.open_read(path)
        try:
            data = file.read_at(0, file.size())
            held = [*events, *_held(file, frozenset(erased))]
        finally:
            file.close()
        if _holds_packed(data, held):
            files.unlink(path)
            files.sync_dir(f"{directory}/{FOLDER}")
            done.append(f"{FOLDER}/{name} held an erased payload, compressed: removed")
        elif (blanked := _blanked(data, held)) != data:
            replace_file(files, f"{directory}/{FOLDER}", name, blanked)
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
        behind = next_valid_frame(plain, header.identity, begin=scanner.offset + 1, end=plain.size(), position=position)
        if behind is None:
            return
        offset, position = behind.offset, behind.first_position


def _holds_packed(data: bytes, events: list[Event]) -> bool:
    """Whether one of these events stands in a gzip member of a file, or may stand in one that is damaged."""
    at = data.find(GZIP_MAGIC)
    while at >= 0:
        unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            plain = unpacking.decompress(data[at:])
        except zlib.error:
            return True
        if not unpacking.eof or any(event.id in plain for event in events):
            return True
        at = data.find(GZIP_MAGIC, len(data) - len(unpacking.unused_data))
    return False


def _blanked(data: bytes, events: list[Event]) -> bytes:
    """The bytes with zeros behind every id of these events, as far as a payload may reach, whole or cut off."""
    found = bytearray(data)
    for event in events:
        length = _BETWEEN_BYTES + len(event.payload or b"") + len(event.meta)  # both may be compressed as one
        at = data.find(event.id)
        while at >= 0:
            begin, end = at + len(event.id), min(at + len(event.id) + length, len(found))
            found[begin:end] = bytes(end - begin)
            at = data.find(event.id, at + 1)
    return bytes(found)

"""Changes a stored event in storage, as the owner of the disk or of the database can.

`tamper` rewrites the record with other fields, and with the right hash if the medium has one over the whole record.
Only the checksum of the payload and the chain can reveal it. The new fields must have the length of the old ones.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tallystick.engines.disk import Disk
from tallystick.engines.files import frame as frames
from tallystick.engines.files import mark
from tallystick.engines.files.compressed import open_segment
from tallystick.engines.files.frame import FrameBuffer
from tallystick.engines.files.mark import SegmentMark
from tallystick.engines.files.scan import Scanner
from tallystick.engines.ndjson import line as lines
from tallystick.event import chain
from tallystick.event.model import Event

Change = Callable[[Event], Event]


def _replaced(**fields: Any) -> Change:
    return lambda event: msgspec.structs.replace(event, **fields)


def _forged(event: Event) -> Event:
    payload = b'{"n":7}'
    return msgspec.structs.replace(event, payload=payload, checksum=chain.checksum(payload))


CHANGES: dict[str, Change] = {
    "payload": _replaced(payload=b'{"n":7}'),
    "checksum": _replaced(checksum=b"x" * 32),
    "meta": _replaced(meta=b'{"app":"wab"}'),
    "type": _replaced(type="thing.tampered"),
    "time": lambda event: msgspec.structs.replace(event, time=event.time ^ 1),
    "link": _replaced(link=b"x" * 32),
    "payload and checksum": _forged,
    "stream": _replaced(stream="run/z"),
    "seq": _replaced(seq=9),
    "version": _replaced(version=7),
    "id": _replaced(id=b"i" * 16),
}
"""Ways to change the event {"n": 2} with the meta {"app": "web"} of the type `thing.happened`, seq 2 of `run/a`."""


def tamper(url: str, stream: str, seq: int, change: Change) -> None:
    """Change one stored event of the store at `url`. No open handle should have it in memory."""
    engine, _, place = url.partition(":")
    _BY_ENGINE[engine](url if engine == "postgresql" else place, stream, seq, change)


def tamper_beside(url: str, statement: str) -> None:
    """Change what is stored next to the events, with a statement of SQLite. For PostgreSQL, BLOB becomes TEXT."""
    engine, _, place = url.partition(":")
    if engine == "postgresql":
        import psycopg

        with psycopg.connect(url, options="-c search_path=tally") as connection:
            connection.execute(statement.replace(" AS BLOB)", " AS TEXT)").encode())
        return
    with closing(sqlite3.connect(place if engine == "sqlite" else f"{place}/beside.db", isolation_level=None)) as raw:
        raw.execute(statement)


def _in_sqlite(place: str, stream: str, seq: int, change: Change) -> None:
    raw = sqlite3.connect(place, isolation_level=None)
    (trigger,) = raw.execute("SELECT sql FROM sqlite_master WHERE name = 'events_are_not_changed'").fetchone()
    found = raw.execute(
        "SELECT position, stream, seq, type, version, id, time, payload, meta, checksum, link, signature FROM events"
        " WHERE stream = ? AND seq = ?",
        (stream, seq),
    ).fetchone()
    event = change(Event(*found))
    raw.execute("BEGIN IMMEDIATE")
    raw.execute("DROP TRIGGER events_are_not_changed")
    raw.execute(
        "UPDATE events SET stream = ?, seq = ?, type = ?, version = ?, id = ?, time = ?, payload = ?, meta = ?,"
        " checksum = ?, link = ? WHERE stream = ? AND seq = ?",
        (*event.row[1:-1], stream, seq),
    )
    raw.execute(trigger)
    raw.execute("COMMIT")
    raw.close()


def _in_postgres(url: str, stream: str, seq: int, change: Change) -> None:
    import psycopg

    with psycopg.connect(url) as connection:
        where = (stream, seq)
        found = connection.execute(
            "SELECT position, stream, seq, type, version, uuid_send(id), time, convert_to(payload, 'UTF8'),"
            " convert_to(meta, 'UTF8'), checksum, link, signature FROM tally.events WHERE stream = %s AND seq = %s",
            where,
        ).fetchone()
        assert found is not None
        event = change(Event(*found))
        connection.execute("ALTER TABLE tally.events DISABLE TRIGGER ALL")
        connection.execute(
            "UPDATE tally.events SET stream = %s, seq = %s, type = %s, version = %s,"
            " id = encode(%s, 'hex')::uuid, time = %s, payload = convert_from(%s, 'UTF8'),"
            " meta = convert_from(%s, 'UTF8'), checksum = %s, link = %s WHERE stream = %s AND seq = %s",
            (*event.row[1:-1], *where),
        )
        connection.execute("ALTER TABLE tally.events ENABLE TRIGGER ALL")


def _in_ndjson(place: str, stream: str, seq: int, change: Change) -> None:
    (path,) = Path(place).rglob(f"{stream.partition('/')[2]}/events.ndjson")
    texts = path.read_bytes().split(b"\n")
    found = lines.decode(texts[seq - 1])
    assert found is not None
    assert found.seq == seq
    assert found.commit == (seq, seq), "append one event at a time"
    written, _ = lines.encode([change(found.event(1)).row], recorded=found.recorded)
    assert len(written) == len(texts[seq - 1]) + 1
    texts[seq - 1] = written[:-1]
    path.write_bytes(b"\n".join(texts))


def _in_files(place: str, stream: str, seq: int, change: Change) -> None:
    """Every frame keeps its form. A frame with a checksum that does not match its payload becomes longer."""
    path = Path(place) / "current.log"
    header, file = open_segment(Disk(), str(path))
    written = bytearray(file.read_at(0, header.size))
    scanner = Scanner(file, header.identity, offset=header.size, end=file.size(), position=header.first_position)
    for frame, body in scanner:
        found = frames.decode_body(frame, body)
        rows = [change(event) if (event.stream, event.seq) == (stream, seq) else event for event in found.events]
        at = (header.identity, len(written), frame.first_position)
        written += FrameBuffer().encode(*at, rows, recorded=found.recorded, side=found.side, short=frame.is_short)
    file.close()
    path.write_bytes(written)
    Path(place, "index", "current.idx").unlink(missing_ok=True)
    slot = mark.encode(SegmentMark(header.segment_id, len(written), scanner.position or 0)).ljust(
        mark.SLOT_BYTES, b"\0"
    )
    Path(place, mark.NAME).write_bytes(slot + slot)  # in place, because the writer has it open


_BY_ENGINE: dict[str, Callable[[str, str, int, Change], None]] = {
    "sqlite": _in_sqlite,
    "postgresql": _in_postgres,
    "ndjson": _in_ndjson,
    "files": _in_files,
}

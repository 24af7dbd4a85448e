"""A part of another store's log: `tally.receive` writes it, as one document in one transaction."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import psycopg

from tallystick import errors
from tallystick.engines.postgres import damage, statements, translate
from tallystick.engines.postgres.connections import ReadConnections, ServerConnections
from tallystick.engines.postgres.ledger_view import cut_of
from tallystick.event.model import Event, Row
from tallystick.store.ledger import Head
from tallystick.store.maintenance import Cut, PrunedEvent
from tallystick.store.transfer import Received

_TAKEN = "23505"  # an id or a position that is stored already


class StoredEnds:
    """Where streams and sources end. An index of the database finds out whether an id is new."""

    def __init__(self, connections: ReadConnections) -> None:
        self._connections = connections

    def find(self, id: bytes) -> Event | None:
        return None

    def stream_head(self, stream: str) -> Head | None:
        rows = self._connections.rows("stream_head", (stream,))
        return Head(*rows[0]) if rows else None

    def cut(self, stream: str) -> Cut | None:
        rows = self._connections.rows("find_cuts", ([stream],))
        return cut_of(rows[0]) if rows else None

    def source_head(self, org: str, source: str) -> int:
        rows = self._connections.rows("source_heads", ([org], [source]))
        return next((int(seq) for _, _, seq in rows), 0)


def write(connections: ServerConnections, part: Received, *, recorded: int) -> None:
    """Write all of a part, or nothing."""
    document = msgspec.json.encode(_document(part)).decode()
    try:
        with connections.raw_connection() as connection, connection.transaction():
            connection.execute(statements.named("become_maintenance"))
            connection.execute(statements.named("receive"), (document, recorded))
    except psycopg.Error as problem:
        if problem.sqlstate in (*translate.OF_OURS, _TAKEN):
            reason = problem.diag.message_primary or str(problem)
            raise errors.TransferRefused(position=part.after + 1, reason=reason) from problem
        refused = damage.refused(problem, connections)
        raise refused or translate.of(problem, url=connections.url, waited_ms=connections.busy_ms) from problem


def _document(part: Received) -> dict[str, Any]:
    return {
        "after": part.after,
        "until": part.until,
        "cuts": [_cut(founding.cut, founding.fact_position) for founding in part.cuts],
        "pruned": list(map(_pruned, part.pruned)),
        "events": list(map(_event, part.rows)),
        "erasures": [
            {
                "position": erasure.position,
                "stream": erasure.stream,
                "seq": erasure.seq,
                "checksum": erasure.checksum.hex(),
                "fact_position": fact_position,
            }
            for erasure, fact_position in part.erasures
        ],
    }


def _cut(cut: Cut, fact_position: int) -> dict[str, Any]:
    return msgspec.structs.asdict(cut) | {"link": cut.link.hex(), "fact_position": fact_position}


def _pruned(gone: PrunedEvent) -> dict[str, Any]:
    return gone._asdict() | {"id": str(uuid.UUID(bytes=gone.id))}


def _event(row: Row) -> dict[str, Any]:
    position, stream, seq, kind, version, id_, time, payload, meta, checksum, link, signature = row
    return {
        "position": position,
        "stream": stream,
        "seq": seq,
        "type": kind,
        "version": version,
        "id": str(uuid.UUID(bytes=id_)),
        "time": time,
        "payload": None if payload is None else payload.decode(),
        "meta": meta.decode(),
        "checksum": checksum.hex(),
        "link": link.hex(),
        "signature": None if signature is None else signature.hex(),
    }

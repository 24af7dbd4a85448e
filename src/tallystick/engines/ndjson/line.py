"""One line of `events.ndjson`: a canonical JSON object with everything about one event, and a hash of itself.

    {"checksum","commit":[first,last],"id","link","meta","payload","recorded","seq","signature","stream","time","type",
     "version","whole"}

Keys are sorted; payload and meta are the canonical bytes, verbatim; hashes and signature are hex, the id is UUID text.
`commit` holds the seqs of the first and last event of the commit. The line whose seq is the last completes it.
`whole` is the SHA-256 of every byte of the line before `,"whole"`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from tallystick.event.model import Event, InRow, Row

_TAIL = b',"whole":"'
_HEX_BYTES = 64 + len(b'"}')
_TAIL_BYTES = len(_TAIL) + _HEX_BYTES
_ASCII_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-:@=+/")

_sha256 = hashlib.sha256


class RunLine(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A line, decoded as far as the log needs."""

    checksum: str
    commit: tuple[int, int]
    id: str
    link: str
    meta: msgspec.Raw
    payload: msgspec.Raw
    recorded: int
    seq: int
    signature: str | None
    stream: str
    time: int
    type: str
    version: int
    whole: str

    def event(self, number: int) -> Event:
        """The event, in the stream of this number."""
        payload = bytes(self.payload)
        return Event(
            number << 32 | self.seq,
            self.stream,
            self.seq,
            self.type,
            self.version,
            bytes.fromhex(self.id.replace("-", "")),
            self.time,
            None if payload == b"null" else payload,
            bytes(self.meta),
            bytes.fromhex(self.checksum),
            bytes.fromhex(self.link),
            None if self.signature is None else bytes.fromhex(self.signature),
        )


_decode = msgspec.json.Decoder(RunLine).decode


def encode(rows: Sequence[Row], *, recorded: int) -> tuple[bytes, list[int]]:
    """The lines of one commit, and the size of each."""
    first, last = rows[0][InRow.seq], rows[-1][InRow.seq]
    lines = [_encode(row, f"[{first},{last}]", recorded) for row in rows]
    return b"".join(lines), [len(line) for line in lines]


def _encode(row: Row, commit: str, recorded: int) -> bytes:
    _, stream, seq, type_, version, id_, time, payload, meta, check, link, signature = row
    assert _ASCII_SAFE.issuperset(stream), stream  # names.py has checked it: nothing in it needs an escape
    hexed = id_.hex()
    body = b"".join(
        (
            f'{{"checksum":"{check.hex()}","commit":{commit},"id":"{hexed[:8]}-{hexed[8:12]}-{hexed[12:16]}-'
            f'{hexed[16:20]}-{hexed[20:]}","link":"{link.hex()}","meta":'.encode(),
            meta,
            b',"payload":',
            b"null" if payload is None else payload,
            f',"recorded":{recorded},"seq":{seq},"signature":{_quoted(signature)},"stream":"{stream}","time":{time},'
            f'"type":"{type_}","version":{version}'.encode(),
        )
    )
    return b"".join((body, _TAIL, _sha256(body).hexdigest().encode(), b'"}\n'))


def _quoted(signature: bytes | None) -> str:
    return "null" if signature is None else f'"{signature.hex()}"'


def decode(text: bytes) -> RunLine | None:
    """The line of these bytes, which exclude the newline; None if they are not a complete line."""
    try:
        found = _decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    if text[-_TAIL_BYTES:-_HEX_BYTES] != _TAIL:
        return None
    return found if found.whole == _sha256(memoryview(text)[:-_TAIL_BYTES]).hexdigest() else None

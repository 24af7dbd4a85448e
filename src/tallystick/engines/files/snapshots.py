"""Snapshots of a file log: `snapshots/YYYY-MM-DD_HH-MM-SS_<uuid>.snap`, gzip level 6 over one canonical JSON object.

    {"base_snapshot_id", "diff", "events_since_base", "id", "kind", "last_event_id", "last_sequence", "link", "made",
     "position", "reducer", "reducer_version", "state", "state_hash", "stream", "upcasters"}

The date in the name is UTC and comes from the id, a UUIDv7. Files of earlier versions are called `<uuid>.snap`.

`state` is the body of a full snapshot, `diff` that of a difference: each has one of the two, with the bytes it was
given. Ids are UUID text, hashes lower-case hex.

Invariant: a file is whole and in its place before the frame that names it is written. A file that no frame names is not
a snapshot; it is removed at the next opening for writing, and so is one whose frame says that it was dropped.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from tallystick import errors
from tallystick.engines.files.lifecycle import Lifecycle
from tallystick.event import canonical, ids
from tallystick.store.commit import Outcome, Transaction
from tallystick.store.filesystem import FULL, File, FileSystem, size_of, write_file
from tallystick.store.snapshots import FULL as WHOLE
from tallystick.store.snapshots import Snapshot, within

SUFFIX = ".snap"
GZIP_LEVEL = 6
CHUNK_BYTES = 1 << 20
ENVELOPE_BYTES_MAX = 1 << 20  # the document without the body: names and hashes
_GZIP = zlib.MAX_WBITS | 16
_OWN = re.compile(r"(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.snap(\.\d+\.tmp)?")
_serials = itertools.count(1)


class _Document(msgspec.Struct):
    """What is read from a file. Everything else is in the control fact."""

    id: str
    state: msgspec.Raw = msgspec.Raw()
    diff: msgspec.Raw = msgspec.Raw()


class FileSnapshots:
    """The snapshots of a file log. `lifecycle` says which of the files belong to it."""

    def __init__(self, files: FileSystem, directory: str, lifecycle: Callable[[], Lifecycle]) -> None:
        self._files = files
        self._directory = f"{directory}/snapshots"
        self._lifecycle = lifecycle
        self._staged: dict[bytes, str] = {}

    # --- the port --------------------------------------------------------------------------------------------------

    def load(self, id: bytes, *, bytes_max: int | None = None) -> bytes | None:
        if not self._lifecycle().snapshots.get(id):
            return None
        try:
            with contextlib.closing(self._files.open_read(f"{self._directory}/{self._name(id)}")) as file:
                return within(_body(id, _unpacked(file, bytes_max)), bytes_max)
        except (OSError, zlib.error, EOFError, msgspec.MsgspecError):
            return None

    def ids(self) -> list[bytes]:
        return self._lifecycle().held_snapshots()

    def size(self) -> int:
        return sum(map(self._size, map(self._name, self.ids())))

    def _name(self, id: bytes) -> str:
        """The name of the snapshot's file, which may be of an earlier version."""
        name = name_of(id)
        older = _older_name_of(id)
        return older if not self._exists(name) and self._exists(older) else name

    def _exists(self, name: str) -> bool:
        return self._files.exists(f"{self._directory}/{name}")

    def _size(self, name: str) -> int:
        try:
            return size_of(self._files, f"{self._directory}/{name}")
        except OSError:
            return 0

    # --- with commits ----------------------------------------------------------------------------------------------

    def commit_with_files(
        self, transactions: Sequence[Transaction], commit: Callable[[list[Transaction]], list[Outcome]]
    ) -> list[Outcome]:
        """Commit transactions, some with snapshots. Their files are written before the commit, so that nobody waits.

        A transaction whose files cannot be written is refused; the others are committed.
        """
        refused: dict[int, Outcome] = {}
        brought = [snapshot.id for transaction in transactions for snapshot in _snapshots_of(transaction)]
        try:
            for number, transaction in enumerate(transactions):
                refusal = self._stage_all(transaction)
                if refusal is not None:
                    refused[number] = refusal
            left = [item for number, item in enumerate(transactions) if number not in refused]
            outcomes = iter(commit(left) if left else [])
        finally:
            for id_ in brought:
                self._discard(id_)
        return [refused[number] if number in refused else next(outcomes) for number in range(len(transactions))]

    def _stage_all(self, transaction: Transaction) -> errors.TallyError | None:
        for snapshot in _snapshots_of(transaction):
            try:
                self._stage(snapshot)
            except OSError as problem:
                if problem.errno in FULL:
                    return errors.NoSpace(needed=len(snapshot.body), path=self._directory)
                return errors.StoreFailed(operation="a snapshot's file", reason=str(problem))
        return None

    def _stage(self, snapshot: Snapshot) -> None:
        """Stage the file of a snapshot, durably."""
        name = f"{name_of(snapshot.id)}.{next(_serials)}.tmp"
        self._staged[snapshot.id] = name
        write_file(self._files, f"{self._directory}/{name}", _packed(snapshot))

    def publish(self, ids_: Sequence[bytes]) -> None:
        """Rename staged files to their names, durably: the next frame names them."""
        for id_ in ids_:
            name = self._staged.get(id_)
            if name is not None and not self._lifecycle().snapshots.get(id_):
                self._files.rename(f"{self._directory}/{name}", f"{self._directory}/{name_of(id_)}")
                del self._staged[id_]
        self._files.sync_dir(self._directory)

    def put_back(self, snapshot: Snapshot) -> None:
        """Write the file of a snapshot of the log again: it is missing or damaged."""
        self._stage(snapshot)
        self._files.rename(
            f"{self._directory}/{self._staged.pop(snapshot.id)}", f"{self._directory}/{name_of(snapshot.id)}"
        )
        self._files.sync_dir(self._directory)

    def withdraw(self, ids_: Sequence[bytes]) -> None:
        """Remove published files again: no frame names them."""
        held = self._lifecycle().snapshots
        for id_ in ids_:
            if not held.get(id_):
                self._unlink(name_of(id_))

    def remove(self, ids_: Sequence[bytes]) -> None:
        """Remove the files of dropped snapshots. What cannot be removed now is removed at the next opening."""
        for id_ in ids_:
            self._unlink(name_of(id_))
            self._unlink(_older_name_of(id_))

    def orphans(self) -> list[str]:
        """Our files that belong to no snapshot of the log."""
        names: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            names = [name for name in self._files.list(self._directory) if _OWN.fullmatch(name)]
        held = set(map(self._name, self.ids())) if names else ()
        return [name for name in names if name not in held]

    def remove_orphans(self) -> list[str]:
        """Remove the orphans that a crash left; returns a line that says so. Only the writer may, before it writes."""
        found = self.orphans()
        for name in found:
            self._unlink(name)
        return [f"removed {len(found)} snapshot files that no commit names"] if found else []

    def _discard(self, id_: bytes) -> None:
        name = self._staged.pop(id_, None)
        if name is not None:
            self._unlink(name)

    def _unlink(self, name: str) -> None:
        with contextlib.suppress(OSError):
            self._files.unlink(f"{self._directory}/{name}")


def name_of(id_: bytes) -> str:
    """The name of a snapshot's file, which says when it was made."""
    moment = time.gmtime(int.from_bytes(id_[:6], "big") / 1000)
    return f"{time.strftime('%Y-%m-%d_%H-%M-%S', moment)}_{_older_name_of(id_)}"


def _older_name_of(id_: bytes) -> str:
    return ids.to_text(id_) + SUFFIX


def has_snapshots(transactions: Sequence[Transaction]) -> bool:
    """Whether one of these transactions makes a snapshot."""
    for transaction in transactions:
        if transaction.maintenance is not None and transaction.maintenance.snapshots:
            return True
    return False


def _snapshots_of(transaction: Transaction) -> tuple[Snapshot, ...]:
    return transaction.maintenance.snapshots if transaction.maintenance is not None else ()


def _packed(snapshot: Snapshot) -> Iterator[bytes]:
    """The bytes of a file, piece by piece."""
    before, after = _envelope(snapshot)
    body, packer = memoryview(snapshot.body), zlib.compressobj(GZIP_LEVEL, wbits=_GZIP)
    yield packer.compress(before)
    for at in range(0, len(body), CHUNK_BYTES):
        yield packer.compress(body[at : at + CHUNK_BYTES])
    yield packer.compress(after) + packer.flush()


def _envelope(snapshot: Snapshot) -> tuple[bytes, bytes]:
    """The canonical document before the body and after it."""
    key = "state" if snapshot.kind == WHOLE else "diff"
    fields: dict[str, Any] = {
        "base_snapshot_id": None if snapshot.base is None else ids.to_text(snapshot.base),
        "events_since_base": snapshot.events_since_base,
        "id": ids.to_text(snapshot.id),
        "kind": snapshot.kind,
        "last_event_id": ids.to_text(snapshot.last_event_id) if snapshot.last_event_id else None,
        "last_sequence": snapshot.seq,
        "link": snapshot.link.hex(),
        "made": snapshot.made,
        "position": snapshot.position,
        "reducer": snapshot.reducer,
        "reducer_version": snapshot.reducer_version,
        "state_hash": snapshot.state_hash.hex(),
        "stream": snapshot.stream,
        "upcasters": snapshot.upcasters.hex(),
    }
    first = {name: value for name, value in fields.items() if name < key}
    last = {name: value for name, value in fields.items() if name > key}
    before = canonical.encode_state(first)[:-1] + b',"' + key.encode() + b'":'
    return before, b"," + canonical.encode_state(last)[1:]


def _unpacked(file: File, body_bytes_max: int | None) -> bytearray:
    """The whole document in a file. The file ends with its length and checksum.

    A few bytes may unpack to a thousand times as many, so unpacking stops when the document is larger than it can be.
    """
    found, unpacker, at = bytearray(), zlib.decompressobj(wbits=_GZIP), 0
    while data := file.read_at(at, CHUNK_BYTES):
        at += len(data)
        while data:
            found += unpacker.decompress(data, CHUNK_BYTES)
            data = unpacker.unconsumed_tail
            if body_bytes_max is not None and len(found) > body_bytes_max + ENVELOPE_BYTES_MAX:
                raise EOFError("it unpacks to more than was recorded")
    found += unpacker.flush()
    if not unpacker.eof or unpacker.unused_data:
        raise EOFError("the file is cut, or something follows its end")
    return found


def _body(id_: bytes, document: bytearray) -> bytes | None:
    found = msgspec.json.decode(document, type=_Document)
    body = bytes(found.state) or bytes(found.diff)
    return body if found.id == ids.to_text(id_) and body else None

"""Opening a store of runs by its directory. `store.json` holds its identity.

{"check":"<64 hex>","created":…,"format":1,"profile":"plain","store_id":"<32 hex>"}

`check` is the SHA-256 of the other values, in this order, as a JSON array. Without it, a flipped bit could give the
store another identity, and it would refuse its own checkpoints. Older stores do not have it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec

from tallystick import errors
from tallystick.engines.disk import Disk
from tallystick.engines.ndjson import commit, paths
from tallystick.engines.ndjson import line as lines
from tallystick.engines.ndjson.engine import FORMAT, NdjsonLog
from tallystick.engines.ndjson.registry import Registry
from tallystick.engines.ndjson.stream_log import EVENTS
from tallystick.event import canonical, chain, names
from tallystick.store.filesystem import FileSystem, replace_file

STORE = "store.json"
BUSY_MS = 5000
BUSY_MS_MAX = 3_600_000
FIRST_LINE_BYTES = 4 << 20


class Identity(msgspec.Struct, frozen=True):
    """The identity of a store."""

    created: int
    format: int
    profile: str
    store_id: str
    check: str | None = None

    def digest(self) -> str:
        """What `check` must be."""
        rest = [self.created, self.format, self.profile, self.store_id]
        return chain.checksum(msgspec.json.encode(rest)).hex()


def open_ndjson(
    directory: str,
    *,
    readonly: bool,
    create: bool,
    profile: str | None,
    clock: Callable[[], int],
    filesystem: FileSystem | None = None,
    busy_ms: int = BUSY_MS,
) -> NdjsonLog:
    """Open the store in a directory. `busy_ms` bounds the wait for another's commit; `filesystem` is for tests."""
    if type(busy_ms) is not int or not 0 <= busy_ms <= BUSY_MS_MAX:
        raise errors.InvalidValue(what="busy_ms", value=busy_ms, must=f"from 0 to {BUSY_MS_MAX}")
    files: FileSystem = filesystem or Disk()
    directory = directory.rstrip("/") or "/"
    try:
        identity = _load(files, directory)
        if identity is None and not create:
            raise errors.StoreNotFound(url=f"ndjson:{directory}")
        recovered: list[str] = []
        if not readonly:
            identity, recovered = _prepare(files, directory, profile or "plain", clock)
        assert identity is not None
        log = NdjsonLog(
            directory,
            files,
            store_id=bytes.fromhex(identity.store_id),
            profile=identity.profile,
            readonly=readonly,
            clock=clock,
            busy_ms=busy_ms,
            recovered=recovered,
        )
        if readonly:
            log.lend(_unknown(files, directory, Registry(files, directory)))
        return log
    except OSError as problem:
        raise errors.UnknownUrl(url=f"ndjson:{directory}", reason=str(problem)) from problem


def _load(files: FileSystem, directory: str) -> Identity | None:
    path = f"{directory}/{STORE}"
    if not files.exists(path):
        return None
    file = files.open_read(path)
    try:
        found = msgspec.json.decode(file.read_at(0, file.size()), type=Identity)
        bytes.fromhex(found.store_id)
    except (msgspec.MsgspecError, UnicodeError, ValueError) as problem:
        raise errors.UnknownUrl(url=f"ndjson:{directory}", reason=f"{STORE} is damaged: {problem}") from None
    finally:
        file.close()
    if found.format > FORMAT:
        raise errors.NewerFormat(path=path, found=found.format, known=FORMAT)
    if found.check is not None and found.check != found.digest():
        reason = f"{STORE} is damaged: its check does not match"
        raise errors.UnknownUrl(url=f"ndjson:{directory}", reason=reason)
    return found


def _prepare(files: FileSystem, directory: str, profile: str, clock: Callable[[], int]) -> tuple[Identity, list[str]]:
    """Create the store if it does not exist, and number the runs that have no number."""
    files.make_dir(directory)
    with commit.locked(files, directory, busy_ms=BUSY_MS):
        identity = _load(files, directory)
        if identity is None:
            identity = Identity(clock(), FORMAT, profile, secrets.token_hex(16))
            identity = msgspec.structs.replace(identity, check=identity.digest())
            data = canonical.encode(msgspec.to_builtins(identity), what="store")
            replace_file(files, directory, STORE, data + b"\n")
        return identity, _adopt(files, directory)


def _adopt(files: FileSystem, directory: str) -> list[str]:
    """Register logs that are not in the list of streams: the list was lost, or they were copied here."""
    registry = Registry(files, directory)
    adopted = []
    for stream in _unknown(files, directory, registry):
        registry.add(stream)
        adopted.append(f"gave {stream} a number: it was not in the list of streams")
    return adopted


def _unknown(files: FileSystem, directory: str, registry: Registry) -> list[str]:
    """The streams that have a log but no number."""
    registry.refresh()
    known = {paths.path_of(stream) for stream in registry.names()}
    places = [place for place in _places(files, directory) if place not in known]
    found = {place: _stream_in(files, f"{directory}/{place}") for place in places}
    registry.refresh()  # another writer may have created some in the meantime
    return [
        stream
        for place, stream in found.items()
        if stream is not None and paths.path_of(stream) == place and registry.number(stream) is None
    ]


def _places(files: FileSystem, directory: str) -> list[str]:
    found = [f"{paths.RUNS}/{name}" for name in _names(files, f"{directory}/{paths.RUNS}")]
    for kind in _names(files, f"{directory}/{paths.CONTROL}"):
        found += [f"{paths.CONTROL}/{kind}/{name}" for name in _names(files, f"{directory}/{paths.CONTROL}/{kind}")]
    return found


def _names(files: FileSystem, path: str) -> list[str]:
    return files.list(path) if files.exists(path) else []


def _stream_in(files: FileSystem, directory: str) -> str | None:
    """The stream that the first line of a log names; None if the line cannot be read."""
    if not files.exists(f"{directory}/{EVENTS}"):
        return None
    file = files.open_read(f"{directory}/{EVENTS}")
    try:
        text, newline, _ = file.read_at(0, FIRST_LINE_BYTES).partition(b"\n")
    finally:
        file.close()
    line = lines.decode(text) if newline else None
    try:
        return None if line is None or not names.stream_kind(line.stream) else line.stream
    except errors.InvalidName:
        return None

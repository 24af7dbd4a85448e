"""`open(url)`: the only file that names the engines."""

from __future__ import annotations

import contextlib
import inspect
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import metadata
from typing import Any, cast

from tallystick import errors
from tallystick.event import guard, profiles
from tallystick.event.catalog import Catalog
from tallystick.store import control, fields, reasons
from tallystick.store.acceptance import Acceptance
from tallystick.store.acceptance import record as record_acceptance
from tallystick.store.events import EventLog
from tallystick.store.refill import Donor, ExportDonor, Refilled, StoreDonor, lost_snapshots, with_snapshots
from tallystick.store.refill import record as record_refill
from tallystick.store.snapshots import RestoresSnapshots
from tallystick.store.store import PartProgress, Store
from tallystick.store.urls import is_url, redacted
from tallystick.store.verify import Verification, verify

ENTRY_POINTS = "tallystick.engines"
"""The group of entry points by which an installed package adds an engine; see CONTRIBUTING.md."""

_OURS = {
    "memory": "tallystick.engines.memory:open_memory",
    "files": "tallystick.engines.files.directory:open_files",
    "sqlite": "tallystick.engines.sqlite.engine:open_sqlite",
    "ndjson": "tallystick.engines.ndjson.place:open_ndjson",
    "postgres": "tallystick.engines.postgres.engine:open_postgres",
    "postgresql": "tallystick.engines.postgres.engine:open_postgres",
}
_ON_DISK = frozenset({"files", "sqlite", "ndjson"})  # opened by a path; the other engines get the whole URL
_COMMON = frozenset({"readonly", "create", "profile", "clock"})


def open(
    url: str,
    *,
    readonly: bool = False,
    create: bool = True,
    profile: str | None = None,
    secrets: str | None = None,
    catalog: Catalog | None = None,
    clock: Callable[[], int] = time.time_ns,
    defaults: dict[str, Any] | None = None,
    refill_from: str | None = None,
    **options: Any,
) -> Store:
    """Open the store at `url`.

    - `url`: `files:DIR`, `sqlite:FILE`, `postgresql://…`, `ndjson:DIR`, `memory:`, or that of an installed engine.
    - `readonly`: only read; another process may write. Nothing is created or repaired.
    - `create`: create the store if it does not exist (never with `readonly`).
    - `profile`: the meta that events must have; fixed when the store is created, checked afterwards.
    - `secrets`: `reject` (default), `warn` or `off`; recorded in the store when it changes.
    - `catalog`: event types with their models and upcasters.
    - `clock`: nanoseconds since the epoch; for tests. Anything but an int from 0 to 2^63-1 is refused on use.
    - `defaults`: meta for every event that does not have its own.
    - `refill_from`: another store or an export, from which damaged ranges are refilled. The whole store is verified.
    - Other options go to the engine: see docs/architecture.md.
    """
    if profile is not None:
        profiles.named(profile)
    clock = fields.checked_clock(clock)
    log = _open_log(
        url, readonly=readonly, create=create and not readonly, profile=profile, clock=clock, options=options
    )
    if refill_from is not None and not readonly and _is_damaged(log):
        log.close()
        refill(url, refill_from, clock=clock, filesystem=options.get("filesystem"))
        log = _open_log(url, readonly=False, create=False, profile=profile, clock=clock, options=options)
    try:
        if profile is not None and log.profile != profile:
            raise errors.InvalidValue(what="profile", value=profile, must=f"{log.profile!r}, the profile of the store")
        store = Store(
            log,
            catalog=catalog or Catalog(),
            make_guard=guard.make,
            clock=clock,
            defaults=defaults,
            checks=(_check_snapshots, _check_signatures),
        )
        if secrets is not None:
            control.check_secrets(secrets, store.profile)
            if not readonly:
                store.configure(secrets=secrets)
    except BaseException:
        log.close()
        raise
    return store


def refill(
    url: str,
    source: str,
    *,
    clock: Callable[[], int] = time.time_ns,
    progress: Callable[[int], None] = lambda done: None,
    filesystem: Any = None,
) -> Refilled:
    """Refill the damaged ranges of a file log or SQLite log from another store (a URL) or from an export (a file).

    Everything is checked before anything is changed. A donor that does not hold exactly the missing events is refused.
    Afterwards the store is verified, and a control fact records what was done.
    """
    engine, _, place = url.partition(":")
    if engine not in ("files", "sqlite"):
        raise errors.RefillRefused(
            url=redacted(url), source=redacted(source), reason=f"the engine {engine!r} cannot be refilled"
        )
    options: dict[str, Any] = {}
    with _donor(url, source) as donor:
        if engine == "sqlite":
            from tallystick.engines.sqlite.refill import refill_sqlite

            done = refill_sqlite(place, donor, clock=clock, progress=progress)
        else:
            from tallystick.engines.files.directory import refill_files

            options["filesystem"] = filesystem
            done = refill_files(place, donor, clock=clock, progress=progress, filesystem=filesystem)
        with open(url, readonly=True, **options) as store:
            lost = lost_snapshots(store.log, donor)
            is_settled = not (done.made or lost or store.log.damage.known())
    if is_settled:
        return done
    with open(url, create=False, clock=clock, **options) as store:
        snapshots = cast(RestoresSnapshots, store.log.snapshots)
        for snapshot in lost:
            snapshots.put_back(snapshot)
        done = with_snapshots(done, lost)
        record_refill(store, done)
    return done


def accept_loss(
    url: str, *, dry_run: bool = False, clock: Callable[[], int] = time.time_ns, filesystem: Any = None
) -> Acceptance:
    """Give up the damaged ranges of a file log: the bytes are kept, a control fact is recorded, appends work again.

    With `dry_run`, only return what would be lost. If there is a copy, refill from it instead.
    """
    engine, _, place = url.partition(":")
    if engine != "files":
        raise errors.AcceptRefused(url=redacted(url), reason=f"the engine {engine!r} does not offer that")
    from tallystick.engines.files.directory import accept_loss_files

    if dry_run:
        return accept_loss_files(place, clock=clock, dry_run=True, filesystem=filesystem)
    with open(url, create=False, clock=clock, filesystem=filesystem) as store:
        verify(store.log)  # puts the damage on record before anything is changed; it stays there until the end
    accepted = accept_loss_files(place, clock=clock, dry_run=False, filesystem=filesystem)
    with open(url, create=False, clock=clock, filesystem=filesystem) as store:
        return record_acceptance(store, accepted)


def _check_snapshots(store: Store, found: Verification, *, reducers: Iterable[Any], progress: PartProgress) -> None:
    """Compare snapshots and fingerprints with a replay by their reducers."""
    from tallystick import state

    if registered := state.registry(reducers):
        found.extend(state.problems(store, registered, progress=partial(progress, "replaying")))


def _check_signatures(store: Store, found: Verification, *, reducers: Iterable[Any], progress: PartProgress) -> None:
    """Check the signatures of a community's log."""
    if not store.profile.signed:
        return
    try:
        from tallystick.community import signatures
    except ModuleNotFoundError as missing:
        hint = "pip install 'tallystick[community]'"
        found.unchecked.append(f"signatures: {missing.name} is not installed: {hint}")
        return
    found.extend(signatures.problems(store, progress=partial(progress, "signatures")))


def _is_damaged(log: EventLog) -> bool:
    """Whether anything is wrong with a log. Reads the whole log, because opening does not look at every frame."""
    if log.holes() or log.damage.known():
        return True
    try:
        return any(problem.what != reasons.MOVE for problem in verify(log).problems)
    except BaseException:
        log.close()
        raise


@contextlib.contextmanager
def _donor(url: str, source: str) -> Iterator[Donor]:
    """Open the donor of this name for reading: a store, or a file that was exported."""
    path = pathlib.Path(source)
    if path.is_file():
        yield ExportDonor(path)
        return
    if source == url:
        raise errors.RefillRefused(url=url, source=source, reason="it is the damaged store itself")
    with open(source, readonly=True) as store:
        yield StoreDonor(store.log)


def _open_log(
    url: str, *, readonly: bool, create: bool, profile: str | None, clock: Callable[[], int], options: dict[str, Any]
) -> EventLog:
    engine, colon, place = url.partition(":")
    if not colon:
        raise errors.UnknownUrl(url=url, reason="it names no engine")
    opener = _opener(engine, url)
    if engine in _ON_DISK:
        _check_path(url, place)
        url = place
    _check_options(opener, options)
    return opener(url, readonly=readonly, create=create, profile=profile, clock=clock, **options)


def _opener(engine: str, url: str) -> Callable[..., EventLog]:
    """The function that opens logs of this engine: one of ours, or the entry point of an installed package."""
    if engine in _OURS:
        found = [metadata.EntryPoint(engine, _OURS[engine], ENTRY_POINTS)]
    else:
        found = list(metadata.entry_points(group=ENTRY_POINTS, name=engine))
    if not found:
        raise errors.UnknownUrl(url=redacted(url), reason=f"there is no engine {engine!r}")
    try:
        opener: Callable[..., EventLog] = found[0].load()
    except ModuleNotFoundError as missing:
        install = f": pip install 'tallystick[{engine}]'" if engine in _OURS else ""
        raise errors.UnknownUrl(url=redacted(url), reason=f"{missing.name} is not installed{install}") from missing
    return opener


def _check_path(url: str, place: str) -> None:
    if not place or "\0" in place:
        raise errors.UnknownUrl(url=url, reason="it names no directory or file")
    if is_url(place):
        reason = "it needs a path of this machine, not a URL; write ./ before a path that looks like a URL"
        raise errors.UnknownUrl(url=redacted(url), reason=reason)


def _check_options(opener: Callable[..., Any], options: dict[str, Any]) -> None:
    """Refuse an option that the engine does not have, by name."""
    keywords = [item.name for item in inspect.signature(opener).parameters.values() if item.kind is item.KEYWORD_ONLY]
    known = sorted(set(keywords) - _COMMON)
    for name in options:
        if name not in known:
            raise errors.InvalidValue(what="option", value=name, must="one of " + (", ".join(known) or "none"))

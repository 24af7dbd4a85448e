"""Snapshots as an operator sees them: make, list, protect, check; and what retention would do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from tallystick import errors, state
from tallystick.event import names
from tallystick.server.jobs import Job, Progress
from tallystick.server.service import Service
from tallystick.state import shelf, validation
from tallystick.state.retention import retain
from tallystick.state.shelf import Entry
from tallystick.store import facts, iterate

STREAMS_SCANNED_MAX = 2_000
ID_BYTES = 16
BEFORE_STREAMS = "!"  # sorts before every stream, behind the store itself


def of_stream(service: Service, stream: str, *, after: str, limit: int) -> dict[str, Any]:
    """The snapshots of a stream (empty: of the store), the newest first; `next` is what to go on after."""
    if stream:
        names.stream_kind(stream)
    entries = shelf.entries(service.store, stream)
    if after:
        for entry in entries:
            if entry.id.hex() == after:
                break
    found = list(islice(entries, limit + 1))
    more = found[limit - 1].id.hex() if len(found) > limit else None
    return {"snapshots": [told(entry) for entry in found[:limit]], "next": more}


def of_all(service: Service, *, after: str, limit: int) -> dict[str, Any]:
    """The newest snapshots of every stream in order of name, the store's own first; `next` is a stream."""
    found: list[Entry] = []
    for scanned, stream in enumerate(_subjects(service, after), 1):
        found += islice(shelf.entries(service.store, stream), limit)
        if len(found) >= limit or scanned >= STREAMS_SCANNED_MAX:
            return {"snapshots": [told(entry) for entry in found], "next": stream or BEFORE_STREAMS}
    return {"snapshots": [told(entry) for entry in found], "next": None}


def _subjects(service: Service, after: str) -> Iterator[str]:
    if not after:
        yield ""
    every = iterate.streams(service.store.log, after=after)
    yield from (info.stream for info in every if not names.is_reserved(info.stream))


def told(entry: Entry) -> dict[str, Any]:
    """A snapshot as JSON."""
    fact = entry.fact
    return {
        "id": entry.id.hex(),
        "stream": fact.stream,
        "seq": fact.seq,
        "position": fact.position,
        "reducer": fact.reducer,
        "reducer_version": fact.reducer_version,
        "kind": fact.kind,
        "bytes": fact.body_bytes,
        "made": entry.made,
        "protected": entry.protected,
    }


def one(service: Service, id: str) -> dict[str, Any]:
    """One snapshot, checked against the log: `problem` says what is wrong with it."""
    entry = _entry(service, id)
    return told(entry) | {"problem": validation.why_unusable(service.store, entry)}


def protect(service: Service, id: str, *, protected: bool) -> dict[str, Any]:
    """Keep a snapshot from retention, or lift that."""
    entry = _entry(service, id)
    state.protect(service.store, entry.fact.stream, entry.id, protected=protected)
    return told(_entry(service, id))


def _entry(service: Service, id: str) -> Entry:
    try:
        wanted = bytes.fromhex(id)
    except ValueError:
        raise errors.NothingHere() from None
    event = service.store.log.find(wanted) if len(wanted) == ID_BYTES else None
    if event is None or event.type != facts.SNAPSHOTTED:
        raise errors.NothingHere()
    stream = facts.parse(event, facts.Snapshotted).stream
    for entry in shelf.entries(service.store, stream):
        if entry.id == wanted:
            return entry
    raise errors.NothingHere()  # it was dropped


def begin_snapshot(service: Service, stream: str, *, reducer: str | None, protected: bool, by: str) -> Job:
    """Snapshot a stream with one reducer or with each that folds it; with no stream, the whole store."""
    chosen = [service.reducers[reducer]] if reducer in service.reducers else list(service.own_reducers)
    if reducer is not None and reducer not in service.reducers:
        raise errors.NothingHere()
    if not stream:
        return service.operations.jobs.begin("snapshot", lambda progress: _whole(service, protected), by=by)
    if service.store.stream_head(stream) is None:
        raise errors.NothingHere()
    folding = [item for item in chosen if item.scope == "stream" and item.wants(stream)]
    if not folding:
        raise errors.InvalidValue(what="reducer", value=reducer, must="one that folds this stream")

    def work(progress: Progress) -> dict[str, Any]:
        made = [state.make(service.store, item, stream, protect=protected) for item in folding]
        return {"snapshots": [told(entry) for entry in made if entry is not None]}

    subject = f"{stream} {reducer or ''}".strip()
    return service.operations.jobs.begin("snapshot", work, subject=subject, total=len(folding), by=by)


def _whole(service: Service, protected: bool) -> dict[str, Any]:
    made = state.make_all(service.store, service.own_reducers, protect=protected)
    return {"set": made.hex()}


def begin_check(service: Service, *, by: str) -> Job:
    """Check every snapshot and fingerprint against the log, by every reducer that is registered."""

    def work(progress: Progress) -> dict[str, Any]:
        found = validation.problems(service.store, service.own_reducers, progress=progress)
        problems = [msgspec.to_builtins(problem) for problem in islice(found, 1000)]
        return {"ok": not problems, "problems": problems}

    return service.operations.jobs.begin("check snapshots", work, by=by)


def retention(service: Service) -> dict[str, Any]:
    """The policy in force, and the last look at what it would do."""
    last = service.operations.jobs.last("retention dry run")
    return {
        "policy": msgspec.to_builtins(service.operations.policy),
        "dry_run": msgspec.to_builtins(last) if last is not None else None,
    }


def begin_retention(service: Service, *, dry_run: bool, by: str) -> Job:
    """Say what the policy would do and why not, or do it."""

    def work(progress: Progress) -> dict[str, Any]:
        deeds, reclaimed = retain(
            service.store,
            service.own_reducers,
            service.operations.policy,
            dry_run=dry_run,
            archive=service.archive(),
            progress=progress,
        )
        return {"dry_run": dry_run, "deeds": msgspec.to_builtins(deeds), "reclaimed": msgspec.to_builtins(reclaimed)}

    return service.operations.jobs.begin("retention dry run" if dry_run else "retention", work, by=by)

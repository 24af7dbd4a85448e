"""Whether an archive belongs to a log, and what the log's control facts say of it: witnesses and erasures."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from tallystick import errors
from tallystick.event.model import Event
from tallystick.pipeline.archive import fact_search, manifest
from tallystick.pipeline.archive.manifest import Manifest, Witness
from tallystick.pipeline.source.log_query import head_past
from tallystick.pipeline.storage.port import Storage
from tallystick.store import facts, iterate
from tallystick.store.store import Store


def require_same_history(storage: Storage, found: Manifest, store: Store, spark: SparkSession | None = None) -> None:
    """Refuse an archive of another log, of another history of this log, or one that was changed."""
    require_same_log(storage, found, store)
    if (reason := next(why_not_witnessed(found, store, spark), None)) is not None:
        raise errors.ArchiveDamaged(path=str(storage), reason=reason)


def require_same_log(storage: Storage, found: Manifest, store: Store, *, over_holes: bool = False) -> None:
    """Refuse an archive of another log, or of another history of this log."""
    reason = why_other_log(store, found.store_id, found.through) or why_other_event(
        store, found.link_position, found.link, over_holes=over_holes
    )
    if reason is not None:
        raise errors.WrongArchive(path=str(storage), reason=reason)


def why_other_log(store: Store, store_id: str, through: int) -> str | None:
    """Why a copy of a store up to `through` is not a copy of this log; None if it may be one."""
    if store_id != store.log.store_id.hex():
        return f"it is of store {store_id}"
    head = head_past(store, through)
    return None if through <= head else f"it goes to position {through}, the log only to {head}"


def why_other_event(store: Store, position: int, link: str, *, over_holes: bool) -> str | None:
    """Why the event with this link is not the one at this position; None if it is, or was pruned."""
    event = iterate.event_at(store.log, position, over_holes=over_holes)
    is_same = event is None or event.link.hex() == link
    return None if is_same else f"the log has another event at position {position}"


def why_not_witnessed(
    found: Manifest, store: Store, spark: SparkSession | None = None, *, known: Iterable[Witness] | None = None
) -> Iterator[str]:
    """Where an archive lacks what it had when the log was pruned by it: the log records that as a witness.

    `known` are the witnesses that the caller has found in the log; without it they are read here.
    """
    roots = manifest.roots(found)
    for one in sorted(witnesses(store, spark) if known is None else known, key=lambda item: item.through):
        if one.blocks >= len(roots) or roots[one.blocks] != one.root:
            yield f"it is not the archive that the log was pruned by, up to position {one.through}"


def witnesses(store: Store, spark: SparkSession | None = None) -> list[Witness]:
    """The witnesses in the control facts about prunes, which are found by way of the streams that were pruned.

    A hole may hide a pruned stream. Then the whole log is read, by tasks if there is a session, and a hole in it is
    refused.
    """
    if store.log.holes():
        sought = fact_search.FactRange(facts.PRUNED, after=0, until=store.log.head())
        return fact_search.collect_facts(store, spark, sought, _witness_of, Witness)
    about = (facts.stream_about(cut.stream) for cut in iterate.cuts(store.log))
    prunes = (event for stream in about for event in store.stream(stream) if event.type == facts.PRUNED)
    return list(dict.fromkeys(found for event in prunes if (found := _witness_of(event)) is not None))


def _witness_of(event: Event) -> Witness | None:
    fact = facts.parse(event, facts.Pruned)
    return None if fact.archive is None else as_witness(fact.archive, through=fact.last_position)


def as_witness(said: Any, *, through: int) -> Witness:
    """The witness in a fact; one that no archive matches if the fact has an unknown form."""
    try:
        return msgspec.convert(said, Witness)
    except msgspec.ValidationError:
        return Witness(through=through, blocks=sys.maxsize, root="")


def erased_positions(
    store: Store, spark: SparkSession | None = None, *, after: int, until: int, over_holes: bool = False
) -> list[int]:
    """The positions up to `after` whose payloads were erased by facts after `after`."""
    if not after:
        return []
    sought = fact_search.FactRange(facts.ERASED, after=after, until=until, over_holes=over_holes)
    return sorted(fact_search.collect_facts(store, spark, sought, partial(_erased_until, after), int))


def _erased_until(last: int, event: Event) -> int | None:
    position = facts.parse(event, facts.Erased).position
    return position if position <= last else None

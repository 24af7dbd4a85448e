"""`archive`: what is new in a log, into closed buckets of Parquet; and what was erased, out of those that are there.

Each run puts whole files in their places, and then commits the next manifest. Killed anywhere, the manifest before is
in force and all of its files are there; the next run begins again from it. Of two runs at a time the first to commit
has done its work; the other forgets its own, and goes on from there.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from tallystick import errors
from tallystick.event.model import Event
from tallystick.pipeline.archive import archive_files, bucket_writer, fact_search, manifest, rewrite
from tallystick.pipeline.archive.bucket_writer import Staged
from tallystick.pipeline.archive.manifest import Bucket, DataFile, Manifest, Witness
from tallystick.pipeline.archive.rewrite import Again
from tallystick.pipeline.source.log_query import Question, absolute, head_past, open_log, require_order
from tallystick.pipeline.source.partitions import Range, split
from tallystick.pipeline.spark.failures import clear
from tallystick.pipeline.spark.progress import Show, watched
from tallystick.pipeline.storage.port import Place, place_of
from tallystick.store import facts
from tallystick.store.maintenance import Cut
from tallystick.store.store import Store

BUCKET_EVENTS = 500_000
_PAGE = 1000


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did: events and buckets added, payloads taken out; and how far the archive goes."""

    events: int
    buckets: int
    erased: int
    through: int
    rows: int
    size: int


def archive(
    spark: SparkSession,
    url: str,
    directory: str | Path | Place,
    *,
    until: int | None = None,
    bucket_events: int = BUCKET_EVENTS,
    grace_seconds: float = archive_files.GRACE_SECONDS,
    show: Show | None = None,
) -> Archived:
    """Archive everything up to `until` (None: the safe head now) that is not archived yet."""
    place = place_of(directory)

    def attempt() -> Archived:
        return _archive(spark, url, place, until, bucket_events, grace_seconds)

    with archive_files.locked(place), clear(), watched(spark, "archive", show):
        return archive_files.committed(place, attempt)


def _archive(
    spark: SparkSession, url: str, place: Place, until: int | None, bucket_events: int, grace_seconds: float
) -> Archived:
    """Go on from the newest manifest; `Taken` if another run has committed since."""
    run = manifest.new_run()
    with open_log(url) as store:
        require_order(store, what="archive")
        before = manifest.load_or_begin(place, store.log.store_id)
        require_same_history(place, before, store, spark)
        head = store.log.head() if until is None else min(until, store.log.head())
        erased = erasures(store, spark, after=before.through, until=head)
    there = archive_files.ours(place)
    buckets = _new_buckets(spark, url, place, run, before, head, bucket_events)
    kept, gone = _without_erased(spark, place, run, before, erased)
    with open_log(url) as store:
        buckets = _note_lacking(store, buckets)
        after = _next(store, before, [*kept, *buckets], max(head, before.through))
    old = archive_files.superseded(gone, grace_seconds=0)  # an erased payload does not wait for anybody
    waiting = archive_files.hurried(archive_files.still_there(there, before.superseded), erased)
    after = msgspec.structs.replace(after, superseded=[*waiting, *old], run=run)
    after = archive_files.exchange(place, before, after, there, is_new=bool(buckets or gone))
    return Archived(
        events=sum(bucket.rows for bucket in buckets),
        buckets=len(buckets),
        erased=len(erased) if gone else 0,
        through=after.through,
        rows=after.rows,
        size=after.size,
    )


def require_same_history(place: Place, found: Manifest, store: Store, spark: SparkSession | None = None) -> None:
    """Refuse an archive of another log, of a history that this log does not have (any more), or that was changed."""
    require_same_log(place, found, store)
    if (reason := next(why_not_witnessed(found, store, spark), None)) is not None:
        raise errors.ArchiveDamaged(path=str(place), reason=reason)


def require_same_log(place: Place, found: Manifest, store: Store, *, over_holes: bool = False) -> None:
    """Refuse an archive of another log, or of a history that this log does not have (any more)."""
    if found.store_id != store.log.store_id.hex():
        raise errors.WrongArchive(path=str(place), reason=f"it is of store {found.store_id}")
    head = head_past(store, found.through)
    if found.through > head:
        reason = f"it goes to position {found.through}, the log only to {head}"
        raise errors.WrongArchive(path=str(place), reason=reason)
    if found.link_position:
        at = found.link_position
        page = store.log.read(after=at - 1, until=at, limit=1, over_pruned=True, over_holes=over_holes)
        if page.events and page.events[0].link.hex() != found.link:
            reason = f"the log has another event at position {found.link_position}"
            raise errors.WrongArchive(path=str(place), reason=reason)


def why_not_witnessed(
    found: Manifest, store: Store, spark: SparkSession | None = None, *, known: Iterable[Witness] | None = None
) -> Iterator[str]:
    """What the archive does not have any more of what the log has on record: that it relied on when it was pruned.

    `known`: what the caller has found of it in the log; without it the log is asked.
    """
    roots = manifest.roots(found)
    for one in sorted(witnesses(store, spark) if known is None else known, key=lambda item: item.through):
        if one.blocks >= len(roots) or roots[one.blocks] != one.root:
            yield f"it is not what the log relied on when it was pruned by the archive up to position {one.through}"


def witnesses(store: Store, spark: SparkSession | None = None) -> list[Witness]:
    """What the control facts about prunes say of archives: they are found beside the streams that were cut.

    A hole may have held a cut. Then the whole log is read, by tasks if there is a session, up to where that is refused.
    """
    if store.log.holes():
        sought = fact_search.Sought(facts.PRUNED, after=0, until=store.log.head())
        return fact_search.picked(store, spark, sought, _witness_of, Witness)
    told = (event for cut in _cuts(store) for event in _prunes(store, cut.stream))
    return list(dict.fromkeys(found for event in told if (found := _witness_of(event)) is not None))


def _prunes(store: Store, stream: str) -> Iterator[Event]:
    about, after = facts.stream_about(stream), 0
    while found := store.log.read_stream(about, after=after, limit=_PAGE):
        yield from (event for event in found if event.type == facts.PRUNED)
        after = found[-1].seq


def _witness_of(event: Event) -> Witness | None:
    fact = facts.parse(event, facts.Pruned)
    return None if fact.archive is None else as_witness(fact.archive, through=fact.last_position)


def as_witness(said: Any, *, through: int) -> Witness:
    """What a fact says of the archive; something that no archive has, if it is not of a known form."""
    try:
        return msgspec.convert(said, Witness)
    except msgspec.ValidationError:
        return Witness(through=through, blocks=sys.maxsize, root="")


def erasures(
    store: Store, spark: SparkSession | None = None, *, after: int, until: int, over_holes: bool = False
) -> list[int]:
    """The positions up to `after` whose payloads were erased by facts behind it."""
    if not after:
        return []
    sought = fact_search.Sought(facts.ERASED, after=after, until=until, over_holes=over_holes)
    return sorted(fact_search.picked(store, spark, sought, partial(_erased_until, after), int))


def _erased_until(last: int, event: Event) -> int | None:
    position = facts.parse(event, facts.Erased).position
    return position if position <= last else None


# --- new buckets -----------------------------------------------------------------------------------------------------


def _new_buckets(
    spark: SparkSession, url: str, place: Place, run: str, before: Manifest, head: int, bucket_events: int
) -> list[Bucket]:
    """Write the events after the last bucket, a task and a file for each bucket."""
    question = Question(url=absolute(url), until=head, over_pruned=True)
    ranges = split(before.through, head, partition_events=bucket_events)
    done = bucket_writer.stage(spark, question, ranges, place, run)
    return [_bucket(staged, part) for staged, part in zip(done, ranges, strict=True)]


def _bucket(staged: Staged, part: Range) -> Bucket:
    """What the manifest says of a new bucket; of one without files: all was pruned, or nothing was ever there."""
    return Bucket(
        first=part.after + 1,
        last=part.until,
        rows=staged.rows,
        events=staged.events,
        heads=staged.heads,
        blocks=staged.blocks,
    )


def _note_lacking(store: Store, buckets: list[Bucket]) -> list[Bucket]:
    """Note where events had been pruned. Asked after they were read: what was pruned meanwhile counts too."""
    if not buckets or store.log.floor() < buckets[0].first:
        return buckets
    firsts, lasts = [bucket.first for bucket in buckets], [bucket.last for bucket in buckets]
    begun = [0] * (len(buckets) + 1)  # how many cuts begin at a bucket, less those that ended before it
    for cut in _cuts(store):
        begun[bisect_left(lasts, cut.first_position)] += 1
        begun[bisect_right(firsts, cut.last_position)] -= 1
    pairs = zip(buckets, accumulate(begun[:-1]), strict=True)
    return [msgspec.structs.replace(bucket, lacking=count > 0) for bucket, count in pairs]


def _cuts(store: Store) -> Iterator[Cut]:
    after = ""
    while page := store.log.cuts(after=after, limit=_PAGE):
        yield from page
        after = page[-1].stream


# --- erasure ---------------------------------------------------------------------------------------------------------


def _without_erased(
    spark: SparkSession, place: Place, run: str, before: Manifest, erased: list[int]
) -> tuple[list[Bucket], list[DataFile]]:
    """The buckets of before, each that holds an erased payload with a new file; and the files that go for it."""
    touched = {
        bucket.first: inside for bucket in before.buckets if bucket.events and (inside := _within(bucket, erased))
    }
    work = [
        Again(buckets=[bucket], erased=touched[bucket.first]) for bucket in before.buckets if bucket.first in touched
    ]
    kept, gone = {bucket.first: bucket for bucket in before.buckets}, []
    for item, staged in zip(work, rewrite.write(spark, place, run, work), strict=True):
        (bucket,) = item.buckets
        assert staged.events is not None
        assert bucket.events is not None
        if staged.events.sha256 != bucket.events.sha256:
            kept[bucket.first] = msgspec.structs.replace(bucket, events=staged.events)
            gone.append(bucket.events)
    return list(kept.values()), gone


def _within(bucket: Bucket, positions: list[int]) -> list[int]:
    """Those of these positions that a bucket has; they are in order."""
    return positions[bisect_left(positions, bucket.first) : bisect_right(positions, bucket.last)]


def _next(store: Store, before: Manifest, buckets: list[Bucket], through: int) -> Manifest:
    """The manifest behind this run, with the link that the log has at its end."""
    page = store.log.read(after=through - 1, until=through, limit=1, over_pruned=True) if through else None
    if page is None or not page.events:
        return msgspec.structs.replace(before, buckets=buckets, through=through)
    event = page.events[0]
    return msgspec.structs.replace(
        before, buckets=buckets, through=through, link_position=event.position, link=event.link.hex()
    )

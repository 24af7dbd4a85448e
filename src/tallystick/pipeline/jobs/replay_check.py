"""`replay-check`: for every sealed run check that full fold ≡ snapshot + tail ≡ stored fingerprint.

The events of a stream and the facts about it go to one task. It folds the stream from its first event with the
reducers that its fingerprints name, and again from each of its snapshots; at every sealed seq all must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

import tallystick
from tallystick.event import canonical, chain
from tallystick.event.catalog import Catalog
from tallystick.event.model import Event
from tallystick.pipeline.fold.states import apply_event
from tallystick.pipeline.source import columns
from tallystick.pipeline.source.columns import Batches
from tallystick.pipeline.source.log_query import absolute_url
from tallystick.pipeline.spark.failures import clear, mark_errors
from tallystick.pipeline.spark.progress import Show, watched
from tallystick.pipeline.spark.user_modules import only_upcasters, ship_modules
from tallystick.pipeline.whole_log import whole_log
from tallystick.state import shelf
from tallystick.state.reducer import Reducer
from tallystick.state.shelf import SnapshotEntry
from tallystick.store import facts
from tallystick.store.claims import fingerprint
from tallystick.store.store import Store

SUBJECT = "subject"
VERDICTS_DDL = "stream string, seq bigint, reducer string, verdict string, reason string"
SAME, DIFFERENT, NOT_COMPARABLE = "same", "different", "not comparable"
_SCHEMA = pa.schema(
    [("stream", pa.string()), ("seq", pa.int64())] + [(name, pa.string()) for name in ("reducer", "verdict", "reason")]
)
_FACTS = (facts.SEALED, facts.SNAPSHOTTED, facts.SNAPSHOT_DROPPED, facts.ERASED)

Verdict = tuple[str, int, str, str, str]


class ReducerCode(msgspec.Struct, frozen=True):
    """A reducer and the digest of its upcasters, which the driver computes: workers do not have the source."""

    reducer: Reducer
    upcasters: str

    def made(self, fact: facts.Sealed | facts.Snapshotted) -> bool:
        """Whether this code made a fact."""
        wanted = (self.reducer.name, self.reducer.version, self.upcasters)
        return (fact.reducer, fact.reducer_version, fact.upcasters) == wanted


class ReplayCheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The number of fingerprints that agree, differ, or cannot be compared; and those that do not agree."""

    same: int
    different: int
    not_comparable: int
    until: int
    differences: list[dict[str, Any]]
    others: list[dict[str, Any]]

    @property
    def ok(self) -> bool:
        """Whether at least one fingerprint was compared, and all agree."""
        return self.different == 0 and self.same > 0


def replay_check(
    spark: SparkSession,
    url: str,
    reducers: Sequence[Reducer],
    archive: str | Path | None = None,
    *,
    catalog: Catalog | None = None,
    show: Show | None = None,
) -> ReplayCheckResult:
    """Check every sealed fingerprint with the reducer of its name."""
    known = only_upcasters(catalog)
    ship_modules(*reducers, known)
    codes = {item.name: ReducerCode(item, known.upcaster_digest(item.types or None).hex()) for item in reducers}
    with clear(), watched(spark, "replay-check", show):
        source = whole_log(url, archive, over_pruned=True, spark=spark)
        found = verdicts(source.table(spark), absolute_url(url), codes, known).persist()
        counts = {row["verdict"]: row["count"] for row in found.groupBy("verdict").count().collect()}
        differences = _listed(found, DIFFERENT)
        others = _listed(found, NOT_COMPARABLE)
        found.unpersist()
    return ReplayCheckResult(
        same=counts.get(SAME, 0),
        different=counts.get(DIFFERENT, 0),
        not_comparable=counts.get(NOT_COMPARABLE, 0),
        until=source.until,
        differences=differences,
        others=others,
    )


def _listed(found: DataFrame, verdict: str) -> list[dict[str, Any]]:
    rows = found.where(F.col("verdict") == verdict).orderBy("stream", "seq").limit(1000).collect()
    return [row.asDict() for row in rows]


def verdicts(events: DataFrame, url: str, codes: dict[str, ReducerCode], catalog: Catalog) -> DataFrame:
    """(stream, seq, reducer, verdict, reason) of every fingerprint."""
    about = F.col("stream").startswith(facts.KIND + "/") & F.col("type").isin(list(_FACTS))
    is_user = ~F.col("stream").startswith("tally.")
    subject = F.when(about, F.get_json_object("payload", "$.stream")).when(is_user, F.col("stream"))
    keyed = events.withColumn(SUBJECT, subject).where(F.col(SUBJECT).isNotNull())
    sealed = keyed.where(F.col("type") == facts.SEALED).select(SUBJECT).distinct()
    chosen = keyed.join(sealed, SUBJECT, "left_semi")
    together = chosen.repartition(F.col(SUBJECT))
    ordered = together.sortWithinPartitions(
        F.col(SUBJECT), F.col("stream").startswith("tally.").desc(), "seq", "position"
    )
    return ordered.mapInArrow(_checking(url, codes, catalog), VERDICTS_DDL)


def _checking(url: str, codes: dict[str, ReducerCode], catalog: Catalog) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        with mark_errors(), tallystick.open(url, readonly=True, catalog=catalog) as store:
            found: list[Verdict] = []
            for check in _checks(batches, store, codes, catalog):
                found += check.verdicts()
            if found:
                fields = zip(*found, strict=True)
                arrays = [pa.array(values, field.type) for values, field in zip(fields, _SCHEMA, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)

    return run


def _checks(batches: Batches, store: Store, codes: dict[str, ReducerCode], catalog: Catalog) -> Iterator[StreamCheck]:
    """One check per stream, after its last event: facts come first, then events."""
    current: StreamCheck | None = None
    for batch in batches:
        subjects = batch.column(SUBJECT).to_pylist()
        for subject, event in zip(subjects, catalog.upcast(list(columns.to_events(batch))), strict=True):
            if current is None or current.stream != subject:
                if current is not None:
                    yield current
                current = StreamCheck(subject, store, codes)
            current.take(event)
    if current is not None:
        yield current


class StreamCheck:
    """Checks one stream: takes its facts, then its events, then returns the verdicts."""

    def __init__(self, stream: str, store: Store, codes: dict[str, ReducerCode]) -> None:
        self.stream = stream
        self._store = store
        self._codes = codes
        self._seals: list[tuple[int, facts.Sealed]] = []
        self._snapshots: dict[str, SnapshotEntry] = {}
        self._erased: dict[int, int] = {}
        self._folds: list[_Run] | None = None
        self._prints: dict[tuple[str, int], list[tuple[str, bytes]]] = {}

    def take(self, event: Event) -> None:
        """Take the next fact or event."""
        if event.stream != self.stream:
            self._take_fact(event)
            return
        if self._folds is None:
            self._folds = self._begin()
        for run in self._folds:
            run.take(event)
            if (run.reducer.name, event.seq) in self._wanted:
                made = fingerprint(event.link, run.hash())
                if run.is_whole or run.is_begun:
                    self._prints.setdefault((run.reducer.name, event.seq), []).append((run.name, made))

    def _take_fact(self, event: Event) -> None:
        if event.type == facts.SEALED:
            self._seals.append((event.position, facts.parse(event, facts.Sealed)))
        elif event.type == facts.SNAPSHOTTED:
            fact = facts.parse(event, facts.Snapshotted)
            self._snapshots[event.id.hex()] = SnapshotEntry(event.id, fact, event.time, fact.protected)
        elif event.type == facts.SNAPSHOT_DROPPED:
            for id_ in facts.parse(event, facts.SnapshotsDropped).snapshots:
                self._snapshots.pop(id_, None)
        elif event.type == facts.ERASED:
            self._erased[facts.parse(event, facts.Erased).seq] = event.position

    def _begin(self) -> list[_Run]:
        """A fold from the first event for each reducer that sealed here, and one fold from each of its snapshots.

        Only the code that sealed is run: other code may fail at these events.
        """
        made = [fact for _, fact in self._seals if fact.reducer in self._codes and self._codes[fact.reducer].made(fact)]
        self._wanted = {(fact.reducer, fact.seq) for fact in made}
        named = sorted({fact.reducer for fact in made})
        runs = [_Run(self._codes[name].reducer, "full fold", None, 0) for name in named]
        for entry in self._snapshots.values():
            code = self._codes.get(entry.fact.reducer) if entry.fact.reducer in named else None
            if code is not None and code.made(entry.fact):
                body = shelf.body_of(self._store, entry)
                if body is not None:
                    runs.append(_Run(code.reducer, f"snapshot at seq {entry.fact.seq}", body, entry.fact.seq))
        return runs

    def verdicts(self) -> Iterator[Verdict]:
        """The verdict on each fingerprint."""
        for at, fact in self._seals:
            verdict, reason = self._verdict(at, fact)
            yield self.stream, fact.seq, fact.reducer, verdict, reason

    def _verdict(self, at: int, fact: facts.Sealed) -> tuple[str, str]:
        code = self._codes.get(fact.reducer)
        if code is None:
            return NOT_COMPARABLE, "the reducer was not given"
        if not code.made(fact):
            return NOT_COMPARABLE, f"sealed by version {fact.reducer_version}, or through other upcasters"
        if any(seq <= fact.seq and position > at for seq, position in self._erased.items()):
            return NOT_COMPARABLE, "an event that it covers was erased since"
        made = self._prints.get((fact.reducer, fact.seq), [])
        if not made:
            return NOT_COMPARABLE, "the events that it covers were pruned, and no snapshot is left"
        wrong = [name for name, print_ in made if print_.hex() != fact.fingerprint]
        if wrong:
            return DIFFERENT, f"{', '.join(wrong)}: another fingerprint than the one sealed"
        return SAME, " and ".join(name for name, _ in made)


class _Run:
    """One fold of a stream, from its first event or from a snapshot."""

    def __init__(self, reducer: Reducer, name: str, body: bytes | None, seq: int) -> None:
        self.reducer = reducer
        self.name = name
        self.is_begun = False
        self.is_whole = False
        self._state = reducer.initial() if body is None else canonical.decode(body)
        self._seq = seq
        self._from_start = body is None

    def take(self, event: Event) -> None:
        """Fold the event, if it is the next one."""
        if event.seq != self._seq + 1:
            self.is_begun = not self._from_start and event.seq == self._seq
            self.is_whole = False  # a state after a gap proves nothing
            return
        if not self.reducer.types or event.type in self.reducer.types:
            self._state = apply_event(self.reducer, self._state, event)
        self._seq = event.seq
        self.is_begun = self.is_begun or not self._from_start
        self.is_whole = self._from_start

    def hash(self) -> bytes:
        """The hash of the state as it is."""
        return chain.checksum(canonical.encode_state(self._state))

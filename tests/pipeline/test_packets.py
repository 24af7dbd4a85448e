"""Events in packets: for all sizes, each key gets its own events in order; forged files are refused."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import Catalog, NewEvent, errors, state
from tallystick.event import canonical
from tallystick.pipeline.archive import archive_files, bucket_reader, manifest
from tallystick.pipeline.archive.manifest import Bucket
from tallystick.pipeline.fold import packets, pieces
from tallystick.pipeline.fold.packets import PacketPlan
from tallystick.pipeline.fold.pieces import LogPiece, PieceReader
from tallystick.pipeline.fold.states import fold
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.rebuild import cached, rebuild
from tallystick.pipeline.whole_log import WholeLog, whole_log
from tallystick.projections import Projection, ViewReader
from tallystick.projections import rebuild as rebuild_in_process

MakeLog = Callable[..., None]
SMALL = PacketPlan(groups=3, parts=2, table_bytes=2000, packet_bytes=500)


class Trail(Projection):
    """The positions of a key's events, in the order of arrival, and their payloads."""

    types = ("order.placed", "order.paid")

    def __init__(self, key: str) -> None:
        self.key = key

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"trail": [], "erased": 0}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """One event more."""
        return {"trail": [*found["trail"], event.position], "erased": found["erased"] + event.erased}


KEYS = ("stream", "kind", "payload.customer_id")


def expected(url: str, projection: Projection) -> dict[str, Any]:
    """The rows of the in-process runner."""
    with tallystick.open(url) as store:
        rebuild_in_process(store, projection)
        return dict(ViewReader(store, projection.name).items())


def folded(spark: SparkSession, source: WholeLog, projection: Projection) -> dict[str, Any]:
    """The rows that Spark computes, each key once."""
    rows = fold(spark, source, projection, Catalog()).collect()
    found = {row["key"]: canonical.decode(bytes(row["state"])) for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Callable[[PacketPlan | None], None]:
    """Lets folds have this plan."""

    def choose(chosen: PacketPlan | None) -> None:
        monkeypatch.setattr(packets, "plan", lambda events, parts_max: chosen)

    return choose


@pytest.mark.parametrize(
    ("key", "chosen"),
    [
        *((key, SMALL) for key in KEYS),
        ("stream", PacketPlan(groups=1, parts=1)),
        ("payload.customer_id", PacketPlan(groups=40, parts=4)),
        ("stream", None),
        ("payload.customer_id", None),
    ],
)
def test_each_key_has_its_own_events_in_order(
    spark: SparkSession,
    files_url: str,
    make_log: MakeLog,
    tmp_path: Path,
    plan: Callable[[PacketPlan | None], None],
    key: str,
    chosen: PacketPlan | None,
) -> None:
    """PIPE-04: keys that share a group or a packet, keys over many packets, and no packets give the same rows."""
    make_log(files_url, events=150)
    archive(spark, files_url, tmp_path / "archive", until=90, bucket_events=40)
    with tallystick.open(files_url) as store:
        erased = next(e for e in store.read_stream("order/o1") if e.type != "order.noted" and e.position < 90)
        state.erase(store, "order/o1", erased.seq, reason="asked")
    plan(chosen)
    rows = expected(files_url, Trail(key))
    assert folded(spark, whole_log(files_url, tmp_path / "archive"), Trail(key)) == rows
    assert folded(spark, whole_log(files_url), Trail(key)) == rows
    assert len(rows) > (key != "kind")


def test_a_fold_goes_no_further_than_it_is_asked(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path
) -> None:
    """PIPE-04: an end inside a file of the archive is respected."""
    make_log(files_url, events=60)
    archive(spark, files_url, tmp_path / "archive", bucket_events=25)
    rows = folded(spark, whole_log(files_url, tmp_path / "archive", until=40), Trail("stream"))
    trails = [position for row in rows.values() for position in row["trail"]]
    with tallystick.open(files_url, readonly=True) as store:
        wanted = [event.position for event in store.events(until=40) if event.type in Trail.types]
    assert sorted(trails) == wanted


def test_packets_in_their_order_have_each_keys_events_in_order() -> None:
    """PIPE-04: packets are in order of group and number, for random keys and sizes; every event is in them once."""
    dice = random.Random(5)
    for _ in range(60):
        count, keys = dice.randrange(1, 300), dice.randrange(1, 40)
        made = PacketPlan(groups=dice.randrange(1, 9), parts=1, packet_bytes=dice.choice([1, 300, 5000]))
        column = [f"k/{dice.randrange(keys)}" for _ in range(count)]
        weight = ["x" * dice.randrange(100) for _ in range(count)]
        table = pa.table({"position": range(count), "stream": column, "payload": weight})
        came: dict[str, list[int]] = defaultdict(list)
        groups: dict[str, set[int]] = defaultdict(set)
        order = []
        for group, batch in packets._split(table, "stream", made):
            order.append(group)
            for key, position in zip(batch["stream"].to_pylist(), batch["position"].to_pylist(), strict=True):
                came[key].append(position)
                groups[key].add(group)
        assert order == sorted(order)
        assert all(len(found) == 1 for found in groups.values())
        assert came == {key: [at for at in range(count) if column[at] == key] for key in set(column)}


@pytest.mark.parametrize("events", [0, 1, 20_000, 2_000_000, 10**8, 256 * 10**6])
@pytest.mark.parametrize("parts_max", [1, 8, 200, 5000])
def test_a_plan_holds_few_states_and_leaves_no_task_without_work(events: int, parts_max: int) -> None:
    """PIPE-04: a group has at most 250,000 events on average, and every task has the same number of groups."""
    made = packets.plan(events, parts_max=parts_max)
    assert made is not None
    assert made.parts <= parts_max
    assert made.groups % made.parts == 0
    assert made.groups < packets.GROUPS_MAX + made.parts
    assert events / made.groups <= packets.GROUP_EVENTS_MAX
    assert packets.plan(packets.GROUPS_MAX * packets.GROUP_EVENTS_MAX + 1, parts_max=parts_max) is None


def test_all_parts_of_a_fold_are_computed_at_once(
    spark: SparkSession, files_url: str, make_log: MakeLog, plan: Callable[[PacketPlan | None], None]
) -> None:
    """PIPE-04: one job has all tasks that fold, so cores do not wait for each other's rows."""
    make_log(files_url, events=60)
    plan(PacketPlan(groups=6, parts=6))
    spark.sparkContext.setJobGroup("at once", "a fold")
    with cached(fold(spark, whole_log(files_url), Trail("stream"), Catalog())) as rows:
        tracker = spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("at once")]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        assert 6 in [stage.numTasks for stage in stages if stage is not None]
        assert rows.count() == 5
    assert not rows.is_cached
    assert rows.sparkSession is spark
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


# --- pieces ----------------------------------------------------------------------------------------------------------


def _source(spark: SparkSession, url: str, place: Path, *, bucket_events: int = 25) -> WholeLog:
    archive(spark, url, place, bucket_events=bucket_events)
    return whole_log(url, place)


def _read(found: list[LogPiece], reader: PieceReader, table_bytes: int = 2000) -> list[int]:
    return [
        at for piece in found for table in reader.tables(piece, table_bytes) for at in table["position"].to_pylist()
    ]


def test_the_numbers_of_packets_rise_with_positions(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path
) -> None:
    """PIPE-04: numbers rise over tables and pieces, also if a task is repeated, so they sort events by position."""
    make_log(files_url, events=150)
    source = _source(spark, files_url, tmp_path / "archive", bucket_events=40)
    found, reader = pieces.cut_pieces(source, Trail.types, cores=2)

    def pack(number: int) -> list[packets.Packet]:
        return list(packets._packets(reader, found[number], number, Trail("stream"), Catalog(), SMALL))

    made = [pack(number) for number in range(len(found))]
    numbers = [packet[2] for of_piece in made for packet in of_piece]
    assert len(numbers) > 20
    assert numbers == sorted(set(numbers))
    assert made[0] == pack(0)
    came: dict[str, int] = {}
    for packet in (packet for of_piece in made for packet in of_piece):
        for _, _, events in packets.unpack(iter([packets._batch([packet])]), Trail("stream"), Catalog()):
            for event in events:
                assert came.get(event.stream, 0) < event.position
                came[event.stream] = event.position


def _in_row_groups(source: WholeLog, *, rows: int) -> WholeLog:
    """Rewrite the files of an archive in row groups of this many rows."""
    assert source.manifest is not None
    assert source.storage is not None
    buckets = []
    for bucket in source.manifest.buckets:
        assert bucket.events is not None
        path = Path(str(source.storage)) / bucket.events.name
        pq.write_table(pq.read_table(path), path, row_group_size=rows)
        events = msgspec.structs.replace(bucket.events, sha256=archive_files.hash_of(path))
        buckets.append(msgspec.structs.replace(bucket, events=events))
    return msgspec.structs.replace(source, manifest=msgspec.structs.replace(source.manifest, buckets=buckets))


def test_small_files_are_read_together_and_large_ones_shared(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-04: there are enough pieces for the cores, but not twice as many; every event is read once, in order."""
    make_log(files_url, events=100)
    source = _in_row_groups(_source(spark, files_url, tmp_path / "archive"), rows=4)
    wanted = list(range(1, source.until + 1))
    ways = ((1000, 1000, 2, 1), (50, 1000, 2, 2), (1, 1000, 2, 4), (50, 5, 4, 8), (50, 1, 50, 100))
    for rows, least, cores, count in ways:
        monkeypatch.setattr(bucket_reader, "PIECE_ROWS", rows)
        monkeypatch.setattr(bucket_reader, "SHARE_ROWS_MIN", least)
        found, reader = pieces.cut_pieces(source, (), cores=cores)
        assert _read(found, reader) == wanted
        assert count <= len(found) < 2 * count  # files differ in size, so that some are cut once more


def test_events_that_weigh_much_are_packed_a_few_at_a_time(spark: SparkSession, files_url: str, tmp_path: Path) -> None:
    """PIPE-04: the part of a piece in memory is limited by bytes, not by rows."""
    dice = random.Random(1)
    with tallystick.open(files_url) as store:
        for _ in range(20):
            store.append("doc/1", [NewEvent("doc.saved", {"text": dice.randbytes(30_000).hex()}) for _ in range(20)])
    made = PacketPlan(groups=1, parts=1, table_bytes=1 << 20)
    archived = _source(spark, files_url, tmp_path / "archive", bucket_events=1000)
    for source in (archived, whole_log(files_url)):  # they are 24 MB
        found, reader = pieces.cut_pieces(source, (), cores=1)
        weights = [table.nbytes for piece in found for table in reader.tables(piece, made.table_bytes)]
        assert sum(weights) > 20 << 20
        assert max(weights) < 3 << 20


# --- files that are not what the manifest says -----------------------------------------------------------------------


def _swapped(table: pa.Table) -> pa.Table:
    return table.take(pa.array([1, 0, *range(2, table.num_rows)]))


def _late_swap(table: pa.Table) -> pa.Table:
    """Reverse whole row groups, each of which is in order."""
    return table.take(pa.array([*range(15, 25), *range(15)]))


def _shifted(table: pa.Table, by: int) -> pa.Table:
    moved = pa.array([position + by for position in table["position"].to_pylist()], pa.int64())
    return table.set_column(0, "position", moved)


CHANGES: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "a row less": (lambda table: table.slice(1), "has 24 rows, not 25"),
    "swapped": (_swapped, "does not have (its|what)"),
    "swapped far apart": (_late_swap, "does not have (its|what)"),
    "moved up": (lambda table: _shifted(table, 1), "does not have (its|what)"),
    "moved down": (lambda table: _shifted(table, -1), "does not have (its|what)"),
    "a column less": (lambda table: table.drop_columns(["link"]), "has no column link"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_file_that_holds_something_else_is_refused(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path, name: str
) -> None:
    """PIPE-04: even with the right hash, rows that are missing or out of order are not folded."""
    make_log(files_url, events=60)
    source = _source(spark, files_url, tmp_path / "archive")
    (piece, *_), reader = pieces.cut_pieces(source, (), cores=1)
    change, reason = CHANGES[name]
    path = tmp_path / "archive" / piece.files[1].name
    pq.write_table(change(pq.read_table(path)), path, row_group_size=5)
    file = msgspec.structs.replace(piece.files[1], sha256=archive_files.hash_of(path))
    with pytest.raises(errors.ArchiveDamaged, match=reason):
        _read([LogPiece(files=(file,))], reader)


def _flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(("damage", "reason"), [(Path.unlink, "is missing"), (_flipped, "is not the one")])
def test_a_file_that_was_changed_is_not_folded(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path, damage: Callable[[Path], None], reason: str
) -> None:
    """PIPE-04: one changed bit is refused by name, and the old rows stay."""
    make_log(files_url, events=60)
    archive(spark, files_url, tmp_path / "archive", bucket_events=25)
    bucket = manifest.load(tmp_path / "archive").buckets[1]
    assert bucket.events is not None
    damage(tmp_path / "archive" / bucket.events.name)
    with tallystick.open(files_url) as store, pytest.raises(errors.ArchiveDamaged, match=reason):
        rebuild(spark, store, Trail("stream"), tmp_path / "archive")


def test_buckets_that_overlap_are_refused(
    spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path
) -> None:
    """PIPE-04: buckets must follow each other, so that no event is folded twice or too early."""
    make_log(files_url, events=60)
    source = _source(spark, files_url, tmp_path / "archive")
    assert source.manifest is not None
    wrong: list[Bucket] = [source.manifest.buckets[0], *source.manifest.buckets]
    doubled = msgspec.structs.replace(source.manifest, buckets=wrong)
    manifest.save(tmp_path / "archive", doubled)
    with pytest.raises(errors.ArchiveDamaged, match="must begin at position"):
        whole_log(files_url, tmp_path / "archive")

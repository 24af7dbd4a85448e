"""A table that was changed by its own library or by hand: verify reports every row, and wrong bounds."""

from __future__ import annotations

import random
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import NewEvent, state
from tallystick.event import chain
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.lake.check import TableVerifyResult, verify
from tallystick.pipeline.lake.events import append
from tallystick.pipeline.lake.table import FORMATS, ListedFile, table_at
from tests.pipeline.lake_tables import Change, rewrite, rows_of

MakeLog = Callable[..., None]
Prune = Callable[..., None]
EVENTS = 60


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each format."""
    return str(request.param)


@pytest.fixture
def place(files_url: str, make_log: MakeLog, tmp_path: Path, kind: str) -> Path:
    """A table of a log, in three commits."""
    make_log(files_url, events=EVENTS)
    append(files_url, tmp_path / "table", kind, commit_events=25, buckets=4)
    return tmp_path / "table"


def without(at: int) -> Change:
    """A row dropped."""
    return lambda rows: pa.concat_tables([rows.slice(0, at), rows.slice(at + 1)])


def doubled(at: int) -> Change:
    """A row twice."""
    return lambda rows: pa.concat_tables([rows, rows.slice(at, 1)])


def exchanged(at: int, other: int) -> Change:
    """Exchange the positions of two rows."""

    def change(rows: pa.Table) -> pa.Table:
        found = rows["position"].to_pylist()
        found[at], found[other] = found[other], found[at]
        return rows.set_column(0, rows.schema.field("position"), pa.array(found, pa.int64()))

    return change


def changed(at: int, name: str, value: object) -> Change:
    """Another value in one place."""

    def change(rows: pa.Table) -> pa.Table:
        number = rows.schema.get_field_index(name)
        found = rows[name].to_pylist()
        assert found[at] != value
        found[at] = value
        return rows.set_column(number, rows.schema.field(name), pa.array(found, rows.schema.field(name).type))

    return change


def at_positions(found: TableVerifyResult) -> set[int]:
    """Where something is wrong."""
    return {problem.position for problem in found.problems}


def test_a_dropped_row_is_named(files_url: str, place: Path, kind: str) -> None:
    """PIPE-03: a missing row: the first, the last, and one in the middle."""
    for at in (0, 30, EVENTS - 1):
        before = rows_of(place, kind)
        rewrite(place, kind, without(at))
        found = verify(files_url, place)
        assert ("row", at + 1) in {(item.what, item.position) for item in found.problems}
        rewrite(place, kind, lambda rows, before=before: before)  # type: ignore[misc]
        assert verify(files_url, place).problems == []


def test_a_doubled_row_is_named(files_url: str, place: Path, kind: str) -> None:
    """PIPE-03: a repeated row, in one file or in two."""
    rewrite(place, kind, doubled(30))
    assert any("more than once" in item.reason and item.position == 31 for item in verify(files_url, place).problems)


def test_exchanged_rows_are_named(files_url: str, place: Path, kind: str) -> None:
    """PIPE-03: two events of different streams with exchanged positions: no link shows it, the log does."""
    streams = rows_of(place, kind)["stream"].to_pylist()
    other = next(at for at in range(31, EVENTS) if streams[at] != streams[30])
    rewrite(place, kind, exchanged(30, other))
    assert {31, other + 1} <= at_positions(verify(files_url, place))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("payload", '{"cents":1}'),
        ("payload", None),
        ("meta", '{"org":"evil"}'),
        ("type", "order.forged"),
        ("version", 7),
        ("time", 1),
        ("seq", 99),
        ("id", b"0123456789abcdef"),
        ("link", b"x" * 32),
        ("link", None),
        ("checksum", b"x" * 32),
        ("signature", b"x" * 64),
        ("kind", "run"),
        ("bucket", 77),
        *((name, None) for name in ("stream", "seq", "type", "version", "id", "time", "meta", "checksum", "kind")),
    ],
)
def test_a_changed_value_is_named(files_url: str, place: Path, kind: str, name: str, value: object) -> None:
    """PIPE-03: a changed value in every column, also in those that no link covers."""
    rewrite(place, kind, changed(30, name, value))
    found = verify(files_url, place)
    assert any(item.position == 31 and name in item.reason for item in found.problems if item.what == "row")


def test_rows_without_a_position_are_named(files_url: str, place: Path, kind: str) -> None:
    """PIPE-03: rows without a position: no window of positions has them, but a query without conditions would."""
    rewrite(place, kind, lambda rows: changed(EVENTS, "position", None)(doubled(3)(rows)))
    assert any("1 rows without a position" in item.reason for item in verify(files_url, place).problems)


def test_a_row_behind_the_mark_is_named(files_url: str, place: Path, kind: str) -> None:
    """PIPE-03: rows that were never appended, before the first position and after the last."""
    rewrite(place, kind, lambda rows: changed(EVENTS, "position", 0)(doubled(3)(rows)))
    assert 0 in at_positions(verify(files_url, place))
    rewrite(place, kind, lambda rows: changed(1, "position", 1000)(rows))
    assert {0, 1, 1000} <= at_positions(verify(files_url, place))


def test_random_damage_is_always_found(files_url: str, place: Path, kind: str) -> None:
    """PIPE-03: any dropped, repeated or exchanged rows are reported with their positions; once restored, nothing is."""
    chance = random.Random(17)
    whole = rows_of(place, kind)
    for _ in range(8):
        gone, twice = chance.sample(range(EVENTS), 2)
        rewrite(place, kind, lambda rows, gone=gone, twice=twice: without(gone)(doubled(twice)(rows)))  # type: ignore[misc]
        assert {gone + 1, twice + 1} <= at_positions(verify(files_url, place))
        rewrite(place, kind, lambda rows: whole)
    assert verify(files_url, place).ok


def test_a_pruned_history_is_held_by_its_chains(files_url: str, place: Path, kind: str, prune: Prune) -> None:
    """PIPE-03: without an archive only the table has these rows: a stream must end where the log was pruned."""
    prune(files_url, "order/o1", 3)
    whole = rows_of(place, kind)
    of_stream = pc.index_in(pa.array(["order/o1"]), whole["stream"]).to_pylist()[0]
    assert verify(files_url, place).problems == []
    rewrite(place, kind, changed(of_stream, "type", "order.forged"))
    assert of_stream + 1 in at_positions(verify(files_url, place))
    rewrite(place, kind, lambda rows: whole.filter(pc.not_equal(whole["stream"], "order/o1")))
    assert any(item.what == "head" and item.stream == "order/o1" for item in verify(files_url, place).problems)


def test_the_end_of_what_was_pruned_is_held_by_the_log(files_url: str, place: Path, kind: str, prune: Prune) -> None:
    """PIPE-03: the last pruned row was changed together with its link: the log has the link on record."""
    with tallystick.open(files_url) as store:
        store.append("order/new", [NewEvent("order.noted", {"cents": number}) for number in range(3)])
    append(files_url, place)
    with tallystick.open(files_url) as store:
        store.append("order/new", NewEvent("order.noted", {"cents": 4}))
    prune(files_url, "order/new", 3)
    assert verify(files_url, place).problems == []
    at = EVENTS + 2
    before, last = (rows_of(place, kind).slice(number, 1).to_pylist()[0] for number in (at - 1, at))
    parts = (last["stream"], 3, "order.forged", last["version"], last["id"].hex(), last["time"], last["meta"])
    text = "\n".join([chain.DOMAIN, before["link"].hex(), *map(str, parts), last["checksum"].hex()])
    link = sha256(text.encode()).digest()
    rewrite(place, kind, lambda rows: changed(at, "link", link)(changed(at, "type", "order.forged")(rows)))
    assert [(item.what, item.position) for item in verify(files_url, place).problems] == [("head", at + 1)]


def test_the_archive_says_what_was_pruned(
    spark: SparkSession, files_url: str, place: Path, kind: str, prune: Prune
) -> None:
    """PIPE-03: with the archive, exchanged positions in a pruned history are found too."""
    archive(spark, files_url, place.parent / "archive", bucket_events=25)
    streams = rows_of(place, kind)["stream"].to_pylist()
    first = streams.index("order/o1")
    prune(files_url, "order/o1", 3)
    rewrite(place, kind, changed(first, "signature", b"x" * 64))
    assert verify(files_url, place).problems == []
    assert first + 1 in at_positions(verify(files_url, place, place.parent / "archive"))


def data_files(place: Path) -> list[ListedFile]:
    """The data files of the newest version."""
    table = table_at(place)
    table.mark()
    return table.files()


def test_a_file_that_was_changed_by_hand_is_named(files_url: str, place: Path, kind: str) -> None:
    """PIPE-03: rows that were removed inside a file, a missing file, and one that is not Parquet."""
    dropped, missing, broken = data_files(place)[:3]
    rows = pq.ParquetFile(place / dropped.name).read()
    gone = rows["position"].to_pylist()
    pq.write_table(rows.slice(1), place / dropped.name)
    gone = gone[:1]
    for file in (missing, broken):
        gone += pq.ParquetFile(place / file.name).read(columns=["position"])["position"].to_pylist()
    (place / missing.name).unlink()
    (place / broken.name).write_bytes(b"no Parquet at all")
    found = verify(files_url, place)
    assert set(gone) <= at_positions(found)
    reasons = [item.reason for item in found.problems if item.what == "file"]
    for file in (dropped, missing, broken):
        assert any(file.name in reason for reason in reasons)


def test_bounds_that_would_hide_rows_are_named(
    files_url: str, place: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-03: engines skip files by the bounds that the table has for them, so the bounds are checked."""
    table = type(table_at(place))
    real = table.files

    def hiding(self: object) -> list[ListedFile]:
        first, *rest = real(self)  # type: ignore[arg-type]
        return [msgspec.structs.replace(first, last=first.first), *rest]

    monkeypatch.setattr(table, "files", hiding)
    found = verify(files_url, place)
    assert [item.what for item in found.problems] == ["file"]
    assert "the table says that it has the positions" in found.problems[0].reason


@pytest.mark.security
@pytest.mark.parametrize("lead", ["../outside.parquet", "data/../../outside.parquet", "/outside.parquet"])
def test_a_name_that_leads_out_of_the_table_is_not_followed(
    files_url: str, place: Path, kind: str, lead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SAFE-07, PIPE-03: the list of files may be forged: a name that leads out of the table is not read."""
    table = type(table_at(place))
    real = table.files
    (first, *_) = data_files(place)
    (place / first.name).rename(place.parent / "outside.parquet")
    name = lead.replace("/outside", f"{place.parent}/outside") if lead[0] == "/" else lead
    (place / "data").mkdir(exist_ok=True)

    def leading(self: object) -> list[ListedFile]:
        return [
            msgspec.structs.replace(file, name=name) if file.name == first.name else file
            for file in real(self)  # type: ignore[arg-type]
        ]

    monkeypatch.setattr(table, "files", leading)
    found = verify(files_url, place)
    assert any("leads out of the table" in item.reason for item in found.problems)
    assert any("does not have this event" in item.reason for item in found.problems)


def test_a_file_in_another_partition_is_named(
    files_url: str, place: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-03: engines skip partitions by what the table says of a file, so that is checked."""
    table = type(table_at(place))
    real = table.files

    def misplacing(self: object) -> list[ListedFile]:
        first, *rest = real(self)  # type: ignore[arg-type]
        return [msgspec.structs.replace(first, bucket=77), *rest]

    monkeypatch.setattr(table, "files", misplacing)
    found = verify(files_url, place)
    assert any("bucket" in item.reason for item in found.problems)


def test_a_payload_that_an_erasure_did_not_reach_is_no_secret(files_url: str, place: Path, kind: str) -> None:
    """PIPE-03: an erased payload that is put back after the run that removed it is a finding."""
    whole = rows_of(place, kind)
    with tallystick.open(files_url) as store:
        state.erase(store, "order/o1", 1, reason="asked")
    append(files_url, place)
    at = rows_of(place, kind)["payload"].to_pylist().index(None)
    rewrite(place, kind, changed(at, "payload", whole["payload"][at].as_py()))
    found = verify(files_url, place)
    assert [(item.what, item.position) for item in found.problems] == [("row", at + 1)]

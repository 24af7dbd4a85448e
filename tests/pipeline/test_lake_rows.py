"""The rows of a projection as a table: as of one position, replaced in one commit, and verified."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

import tallystick
from tallystick import errors, state
from tallystick.pipeline.lake.directory_catalog import DirectoryCatalog
from tallystick.pipeline.lake.events import append
from tallystick.pipeline.lake.projection_rows import replace, verify
from tallystick.pipeline.lake.schema import ROWS
from tallystick.pipeline.lake.table import FORMATS, table_at
from tallystick.pipeline.storage.port import storage_at
from tallystick.projections import Projection, ViewReader, rebuild
from tests.pipeline.lake_tables import bounded

MakeLog = Callable[..., None]


class Paid(Projection):
    """The payments of each customer; keys and notes come from payloads."""

    types = ("order.placed", "order.paid", "order.noted")
    key = "payload.customer_id"

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"cents": 0, "note": ""}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """One event more."""
        return {"cents": found["cents"] + event.data["cents"], "note": event.data["note"]}


@pytest.fixture(params=FORMATS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each format."""
    return str(request.param)


def catch_up(url: str) -> list[tuple[str, Any]]:
    """Run the projection; its rows."""
    with tallystick.open(url) as store:
        rebuild(store, Paid())
        return ViewReader(store, "Paid").rows()


def in_table(place: str | Path, kind: str) -> list[tuple[str, Any]]:
    """The rows as read by the format's own library."""
    if kind == "delta":
        found = pa.table(DeltaTable(str(place)).to_pyarrow_table())
    else:
        found = DirectoryCatalog(storage_at(place)).load_table().scan().to_arrow()
    pairs = zip(found["key"].to_pylist(), found["state"].to_pylist(), strict=True)
    return sorted((key, json.loads(state)) for key, state in pairs)


def rewrite(place: str | Path, kind: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write other rows by the format's own library, and keep the mark."""
    if kind == "delta":
        said = DeltaTable(str(place)).history(1)[0]["tallystick.fingerprint"]
        rows = change(pa.table(DeltaTable(str(place)).to_pyarrow_table()).cast(ROWS))
        more = CommitProperties(custom_metadata={"tallystick.fingerprint": said})
        write_deltalake(str(place), rows, mode="overwrite", commit_properties=more)
    else:
        table = DirectoryCatalog(storage_at(place)).load_table()
        table.overwrite(change(table.scan().to_arrow().cast(ROWS)))


def test_the_table_has_the_rows_of_the_log(url: str, make_log: MakeLog, tmp_path: Path, kind: str) -> None:
    """PIPE-04: with every engine, rows are replaced when they have changed, and not written again otherwise."""
    make_log(url, events=40)
    place = tmp_path / "table"
    rows = catch_up(url)
    done = replace(url, "Paid", place, kind)
    assert (done.changed, done.rows, done.position) == (True, len(rows), 40)
    assert in_table(place, kind) == rows
    assert not replace(url, "Paid", place).changed
    make_log(url, events=20, seed=2)
    rows = catch_up(url)
    waiting = verify(url, place)
    assert waiting.problems == []
    assert any("the table is at position 40" in text for text in waiting.unsure)
    assert replace(url, "Paid", place).changed
    assert in_table(place, kind) == rows
    found = verify(url, place)
    assert (found.problems, found.unsure, found.position) == ([], [], 60)


def test_damage_is_named_by_its_key(files_url: str, make_log: MakeLog, tmp_path: Path, kind: str) -> None:
    """PIPE-04: a row that is missing, repeated, made up, or has another state."""
    make_log(files_url, events=40)
    rows, place = catch_up(files_url), tmp_path / "table"
    replace(files_url, "Paid", place, kind)
    one = rows[0][0]
    row = pa.table({"key": [one], "state": ["{}"]}, schema=ROWS)
    other = pa.table({"key": ["nobody"], "state": ["{}"]}, schema=ROWS)
    before: list[pa.Table] = []

    def kept(found: pa.Table) -> pa.Table:
        before.append(found)
        return found

    changes: list[tuple[Callable[[pa.Table], pa.Table], str]] = [
        (lambda found: found.filter(pa.compute.not_equal(found["key"], one)), "does not have the key"),
        (lambda found: pa.concat_tables([found, found.slice(0, 1)]), "more than once"),
        (lambda found: pa.concat_tables([found, other]), "the log does not have the key 'nobody'"),
        (
            lambda found: pa.concat_tables([found.filter(pa.compute.not_equal(found["key"], one)), row]),
            "another state",
        ),
    ]
    for change, reason in changes:
        rewrite(place, kind, kept)
        rewrite(place, kind, change)
        found = verify(files_url, place)
        assert any(reason in item.reason for item in found.problems), reason
        assert any(item.what == "fingerprint" for item in found.problems)
        rewrite(place, kind, lambda _: before[0])
        assert verify(files_url, place).ok


@pytest.mark.security
def test_an_erasure_reaches_the_rows(files_url: str, make_log: MakeLog, tmp_path: Path, kind: str) -> None:
    """PIPE-04: no statistics contain a key or a state, and `forget` removes old files."""
    secret = "sixteen letters and more"
    with tallystick.open(files_url) as store:
        payload = {"customer_id": secret, "cents": 1, "note": secret}
        store.append("order/secret", tallystick.NewEvent("order.noted", payload))
    make_log(files_url, events=10)
    catch_up(files_url)
    place = tmp_path / "table"
    replace(files_url, "Paid", place, kind)
    assert [path.suffix for path in holders(place, secret)] == [".parquet"]
    assert bounded(place, kind) == set()
    with tallystick.open(files_url) as store:
        state.erase(store, "order/secret", 1, reason="asked")
    make_log(files_url, events=1, seed=2)
    catch_up(files_url)
    assert replace(files_url, "Paid", place).left == 1
    done = replace(files_url, "Paid", place, forget=True)
    assert (done.removed, done.left) == (1, 0)
    assert holders(place, secret) == []
    assert verify(files_url, place).problems == []


def holders(place: Path, secret: str) -> list[Path]:
    """The files that contain a key, in the dictionary or in the rows, which are compressed."""
    found = []
    for path in (item for item in place.rglob("*") if item.is_file()):
        is_data = path.suffix == ".parquet"
        text = str(pq.ParquetFile(path).read().to_pylist()) if is_data else path.read_bytes().decode(errors="replace")
        found += [path] if secret[:12] in text else []
    return found


def test_rows_that_move_meanwhile_are_read_again(
    files_url: str, make_log: MakeLog, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-04: the projection advances between fingerprint and rows: no mixture is committed."""
    make_log(files_url, events=30)
    catch_up(files_url)
    place = tmp_path / "table"
    kind_of = type(table_at(place, kind))
    real, moved = kind_of.replace, []

    def moving(self: Any, *given: Any) -> None:
        if not moved:
            make_log(files_url, events=10, seed=2)
            moved.append(catch_up(files_url))
        real(self, *given)

    monkeypatch.setattr(kind_of, "replace", moving)
    assert replace(files_url, "Paid", place, kind).position == 40
    assert in_table(place, kind) == moved[0]
    assert verify(files_url, place).ok


def test_older_rows_do_not_replace_newer_ones(files_url: str, make_log: MakeLog, tmp_path: Path, kind: str) -> None:
    """PIPE-04: newer rows are not replaced, and tables of events and of rows are not mixed up."""
    make_log(files_url, events=30)
    catch_up(files_url)
    place, other = tmp_path / "table", tmp_path / "events"
    append(files_url, other, kind)
    with pytest.raises(errors.WrongTable, match="it holds events"):
        replace(files_url, "Paid", other)
    with pytest.raises(errors.ProjectionNotFound), tallystick.open(files_url) as store:
        ViewReader(store, "Nobodys").get("x")
    replace(files_url, "Paid", place, kind)
    with pytest.raises(errors.WrongTable, match="the rows of 'Paid'"):
        append(files_url, place)
    table = table_at(place)
    mark = table.mark()
    assert mark is not None
    table.replace(iter(()), msgspec.structs.replace(mark, through=1000), ROWS)
    with pytest.raises(errors.WrongTable, match="position 1000"):
        replace(files_url, "Paid", place)


def test_a_table_of_rows_may_be_in_a_store(files_url: str, make_log: MakeLog, bucket_url: str, kind: str) -> None:
    """PIPE-04: over the protocol of S3."""
    make_log(files_url, events=30)
    rows = catch_up(files_url)
    replace(files_url, "Paid", bucket_url, kind)
    assert in_table(bucket_url.replace("s3a:", "s3:"), kind) == rows
    assert verify(files_url, bucket_url).ok

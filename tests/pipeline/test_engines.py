"""One source over four engines: the same events give the same table, and the limits of each engine hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick import NewEvent, errors
from tallystick.event.model import Event
from tallystick.pipeline import clear, read_events
from tallystick.pipeline.jobs import rebuild
from tallystick.pipeline.sink import by_stream, write_events
from tallystick.pipeline.source import adbc, data_source, partitions
from tallystick.pipeline.source.columns import COLUMNS, to_events
from tallystick.pipeline.source.log_query import LogQuery, open_for
from tallystick.pipeline.whole_log import WholeLog
from tallystick.projections import Projection
from tallystick.projections.rebuild import stage
from tallystick.store.selection import Selection
from tallystick.testing import builders, postgres

RowsOf = Callable[[DataFrame], list[Event]]
RUNS, EVENTS = 3, 30
TIME = 1_760_000_000_000_000_000


class Counts(Projection):
    """Counts the notes of each run."""

    types = ("run.noted",)
    key = "stream"

    def initial(self) -> dict[str, Any]:
        """None yet."""
        return {"notes": 0}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """One more."""
        return {"notes": found["notes"] + 1}


@pytest.fixture
def urls(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The same events, with ids and times, in a store of each engine."""
    with postgres.database() as database:
        places = {
            "files": f"files:{tmp_path}/log",
            "sqlite": f"sqlite:{tmp_path}/log.db",
            "postgres": database,
            "ndjson": f"ndjson:{tmp_path}/runs",
        }
        for url in places.values():
            with tallystick.open(url) as store:
                for number in range(1, EVENTS + 1):
                    store.append(f"run/r{number % RUNS}", _event(number))
        yield places


def _event(number: int) -> NewEvent:
    return NewEvent(
        "run.started" if number <= RUNS else "run.noted",
        {"n": number, "note": "é日" * number},
        meta={"org": "acme" if number % RUNS == 1 else "bolt"},
        id=builders.event_id(number),
        time=TIME + number,
    )


def _content(rows: list[Event]) -> list[tuple[object, ...]]:
    """All fields except the position, by stream: ndjson has positions per run."""
    return sorted((event.row[1:] for event in rows), key=lambda row: (row[0], row[1]))


def _table(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("tallystick").option("url", url).options(**options).load()


def test_the_same_events_are_the_same_table(spark: SparkSession, urls: dict[str, str], rows_of: RowsOf) -> None:
    """PIPE-01: every field of every event, whole and selected, over files, sqlite, postgres and ndjson."""
    for options in ({}, {"type": "run.noted", "stream": "run/r0,run/r1"}, {"tenant": "acme"}):
        found = {engine: rows_of(_table(spark, url, **options)) for engine, url in urls.items()}
        assert found["files"] == found["sqlite"] == found["postgres"]
        assert _content(found["files"]) == _content(found["ndjson"])
        assert len(found["files"]) == {0: EVENTS, 1: EVENTS // RUNS, 2: 2 * (EVENTS // RUNS - 1)}[len(options)]


def test_runs_are_read_one_by_one_up_to_where_they_were(spark: SparkSession, urls: dict[str, str]) -> None:
    """PIPE-01: ndjson has one partition per run, planned once: queries of one table agree while the runs grow."""
    table = read_events(spark, urls["ndjson"])
    assert table.rdd.getNumPartitions() == RUNS
    with tallystick.open(urls["ndjson"]) as store:
        store.append("run/r1", _event(EVENTS + 1))
        store.append("run/later", _event(EVENTS + 2))
    assert table.count() == EVENTS
    assert table.filter("stream = 'run/r1'").union(table.filter("stream <> 'run/r1'")).count() == EVENTS
    assert read_events(spark, urls["ndjson"]).count() == EVENTS + 2


def test_runs_have_no_order_to_follow(spark: SparkSession, urls: dict[str, str], tmp_path: Path) -> None:
    """PIPE-01: ndjson can be read in batches; `readStream` is refused by name."""
    write = spark.readStream.format("tallystick").option("url", urls["ndjson"]).load().writeStream
    with pytest.raises(errors.NotForSpark), clear():
        write.format("noop").option("checkpointLocation", f"{tmp_path}/c").start().awaitTermination()


def test_a_damaged_run_is_one_clear_error(urls: dict[str, str], tmp_path: Path) -> None:
    """PIPE-01: a damaged line, in the middle or at the end of a run, is named; the rest can be read on request."""
    (path,) = [path for path in tmp_path.glob("runs/**/events.ndjson") if "r2" in path.parts[-2]]
    lines = path.read_bytes().splitlines(keepends=True)
    for at in (3, len(lines) - 1):
        path.write_bytes(b"".join([*lines[:at], lines[at].replace(b'"n":', b'"m":'), *lines[at + 1 :]]))
        with pytest.raises(errors.Damaged):
            _rows(LogQuery(url=urls["ndjson"]))
        left = _rows(LogQuery(url=urls["ndjson"], over_holes=True))
        assert EVENTS - RUNS * 3 <= len(left) < EVENTS


def _rows(query: LogQuery) -> list[Event]:
    """What the source reads, without Spark."""
    with open_for(query) as store:
        parts = partitions.plan(store, query)
    return [
        event for part in parts for batch in data_source.read_range(query, COLUMNS, part) for event in to_events(batch)
    ]


def test_psycopg_reads_what_adbc_reads(urls: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-01: without ADBC, psycopg gives the same rows for every query."""
    chosen = Selection(types=frozenset({"run.noted"}), streams=frozenset({"run/r1", "run/r2"}), org="bolt")
    one = Selection(streams=frozenset({"run/r1"}), kinds=frozenset({"run"}), app=None)
    questions = [
        LogQuery(url=urls["postgres"], partition_events=7),
        LogQuery(url=urls["postgres"], selection=chosen, after=4, until=22),
        LogQuery(url=urls["postgres"], selection=one),
    ]
    assert adbc.is_installed()
    by_adbc = list(map(_rows, questions))
    monkeypatch.setattr(adbc, "is_installed", lambda: False)
    assert list(map(_rows, questions)) == by_adbc
    assert list(map(len, by_adbc)) == [EVENTS, 6, EVENTS // RUNS]


def test_a_tenant_is_held_by_row_security(spark: SparkSession, postgres_url: str) -> None:
    """PIPE-01, CP-05: the option `tenant` is the tenant in the database: the table has no events of no tenant."""
    with tallystick.open(postgres_url, infrastructure=("audit",)) as store:
        for number, stream in enumerate(("order/1", "audit/1", "order/2"), 1):
            org = "bolt" if stream == "order/2" else "acme"
            store.append(stream, builders.named(number, meta={"org": org}))
    found = _table(spark, postgres_url, tenant="acme").select("stream").collect()
    assert [row["stream"] for row in found] == ["order/1"]
    assert _table(spark, postgres_url).count() == 3


def test_tasks_write_into_postgres_beside_each_other(spark: SparkSession, urls: dict[str, str], tmp_path: Path) -> None:
    """PIPE-01: a stream from postgres into another log writes every event once, even if every batch is repeated."""
    copy = f"sqlite:{tmp_path}/copy.db"
    tallystick.open(copy).close()
    for place in ("one", "two"):  # the second query knows nothing of the first one's checkpoint
        read = spark.readStream.format("tallystick").option("url", urls["postgres"]).option("maxEventsPerTrigger", "20")
        write = by_stream(read.load(), order="position", tasks=2).writeStream.format("tallystick")
        write = write.options(url=copy, order="position", checkpointLocation=f"{tmp_path}/{place}")
        write.trigger(availableNow=True).start().awaitTermination()
    with tallystick.open(copy, readonly=True) as store, tallystick.open(urls["postgres"], readonly=True) as original:
        for info in original.streams():
            copied, first = (log.read_stream(info.stream) for log in (store, original))
            assert [event.link for event in copied] == [event.link for event in first]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("{server}/no_such_database", errors.StoreNotFound),
        ("{server}/postgres", errors.StoreNotFound),
        ("postgresql://nobody@/x?host=/does/not/exist", errors.NotReachable),
        ("postgresql://nobody@/x?colour=red", errors.UnknownUrl),
        ("ndjson:/does/not/exist", errors.StoreNotFound),
        ("sqlite:/does/not/exist.db", errors.StoreNotFound),
        (f"sqlite:{__file__}", errors.UnknownUrl),
    ],
    ids=["no database", "no log", "no server", "no such setting", "no runs", "no file", "no SQLite"],
)
def test_bad_input_is_one_clear_error_over_every_engine(
    spark: SparkSession, url: str, expected: type[errors.TallyError]
) -> None:
    """PIPE-01: a missing database, log, server, setting or file, or a wrong file: each is a one-line error."""
    server = postgres.server_url()
    given = postgres.with_database(server, url.rpartition("/")[2]) if "{server}" in url else url
    with pytest.raises(expected) as caught, clear():
        read_events(spark, given).count()
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_written_table_of_runs(spark: SparkSession, tmp_path: Path) -> None:
    """PIPE-01: ndjson can be written too; each run by the task with its rows."""
    url = f"ndjson:{tmp_path}/copy"
    tallystick.open(url).close()
    rows = [(f"run/r{n % 2}", "run.noted", f'{{"n":{n}}}', n) for n in range(10)]
    table = spark.createDataFrame(rows, "stream string, type string, payload string, at int")
    for _ in range(2):
        write_events(table, url, order="at", from_content=True)
    with tallystick.open(url, readonly=True) as store:
        for run in (0, 1):
            assert [event.data["n"] for event in store.read_stream(f"run/r{run}")] == list(range(run, 10, 2))


def test_a_rebuild_opens_the_log_with_the_password_that_its_url_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-04: workers log in as the store did, although a store never shows its password."""
    asked: list[str] = []

    def ask(url: str, _archive: object, **_options: object) -> WholeLog:
        asked.append(url)
        return WholeLog(url=url, until=0)

    monkeypatch.setattr(rebuild, "whole_log", ask)
    monkeypatch.setattr(rebuild, "fold_rows", lambda *_: None)
    monkeypatch.setattr(rebuild, "cached", nullcontext)
    monkeypatch.setattr(rebuild, "chunks", lambda _: ())
    with postgres.database() as database:
        parts = urlsplit(database)
        url = urlunsplit(parts._replace(netloc=f"{parts.username}:s3cret@{parts.netloc.rpartition('@')[2]}"))
        with tallystick.open(url) as store:
            projection = Counts()
            rebuild._fill(None, store, projection, stage(store, projection, store.log.views), None)  # type: ignore[arg-type]
            assert (asked, "s3cret" in store.log.url) == ([url], False)

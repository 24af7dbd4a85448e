"""SQL reads only what a query may need, and nothing of that leaks into the next query."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tallystick import errors
from tallystick.pipeline import clear, hints, read_events
from tallystick.pipeline.jobs import query as query_job
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.query import sql, view
from tallystick.pipeline.source import query_plan
from tallystick.pipeline.source.query_plan import QueryNeeds
from tallystick.pipeline.whole_log import WholeLog

MakeLog = Callable[..., None]

CONDITIONS: dict[str, QueryNeeds] = {
    "position > 20": QueryNeeds(after=20),
    "position >= 20 and position < 30": QueryNeeds(after=19, until=29),
    "20 < position and 30 >= position": QueryNeeds(after=20, until=30),
    "position between 7 and 9": QueryNeeds(after=6, until=9),
    "position = 7": QueryNeeds(after=6, until=7),
    "position in (7, 9, 12)": QueryNeeds(after=6, until=12),
    "position > -5": QueryNeeds(),
    "position < 0": QueryNeeds(until=0),
    "position > 20 or type = 'order.paid'": QueryNeeds(),
    "not position > 20": QueryNeeds(until=20),
    "position + 1 > 20": QueryNeeds(),
    "seq > 20": QueryNeeds(),
    "type = 'order.paid' and position > 3": QueryNeeds(after=3, types=frozenset({"order.paid"})),
    "type in ('order.paid', 'order.noted')": QueryNeeds(types=frozenset({"order.paid", "order.noted"})),
    "stream = 'order/o1'": QueryNeeds(streams=frozenset({"order/o1"})),
    "stream = 'is, no name'": QueryNeeds(),
    "type = 'order.paid' or stream = 'order/o1'": QueryNeeds(),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_what_a_condition_says_is_read_off_the_plan(spark: SparkSession, condition: str) -> None:
    """PIPE-10: bounds of positions, types and streams are understood; other conditions read everything."""
    query_plan.empty_events(spark).createOrReplaceTempView("some")
    found = query_plan.query_needs(spark.sql(f"select count(*) from some where {condition}"))
    assert found is not None
    wanted = CONDITIONS[condition]
    its, same = ((one.after, one.until, one.types, one.streams) for one in (found, wanted))
    assert its == same


QUERIES: dict[str, QueryNeeds | None] = {
    "select 1": None,
    "select max(position) from some a where position > 5 union all select 1 from some where position > 9": QueryNeeds(
        after=5
    ),
    "select 1 from some where position < 5 union all select 1 from some": QueryNeeds(),
    "select 1 from some where position > (select max(position) from some where position < 9)": QueryNeeds(),
    "select 1 from some a join some b using (stream) where a.position > 7 and b.position > 9": QueryNeeds(after=7),
    "with x as (select * from some where position > 9) select 1 from x where seq = 1": QueryNeeds(after=9),
    "select 1 from (select * from some limit 3) where position > 5": QueryNeeds(),
    "select 1 from (select position + 10 as position from some) where position > 15": QueryNeeds(),
    "select 1 from (select max(position) as position from some group by stream) where position > 5": QueryNeeds(),
    "select 1 from some a left join some b on a.position = b.position and b.position > 9": QueryNeeds(),
    "select 1 from some where position > 5 and rand() > 0.5": QueryNeeds(after=5),
}


@pytest.mark.parametrize("query", QUERIES)
def test_every_use_of_the_table_counts(spark: SparkSession, query: str) -> None:
    """PIPE-10: a query that uses the table twice reads what either use needs; conditions above a limit do not count."""
    query_plan.empty_events(spark).createOrReplaceTempView("some")
    found, wanted = query_plan.query_needs(spark.sql(query)), QUERIES[query]
    assert (found is None) == (wanted is None)
    if found is not None and wanted is not None:
        assert (found.after, found.until) == (wanted.after, wanted.until)


def test_columns_that_a_query_does_not_need_are_left_out(spark: SparkSession) -> None:
    """PIPE-10: also if only a subquery names them."""
    query_plan.empty_events(spark).createOrReplaceTempView("some")
    found = query_plan.query_needs(
        spark.sql("select s from (select stream as s, payload, seq from some) where seq > 2")
    )
    assert found is not None
    assert found.columns == {"stream", "seq"}


@pytest.fixture
def place(spark: SparkSession, files_url: str, make_log: MakeLog, tmp_path: Path) -> Path:
    """A log of 60 events, 40 of them archived in buckets of ten."""
    make_log(files_url, events=60, streams=4)
    archive(spark, files_url, tmp_path / "archive", until=40, bucket_events=10)
    return tmp_path / "archive"


def _random_query(chance: random.Random) -> str:
    low, high = sorted(chance.choices(range(-2, 65), k=2))
    conditions = [
        f"position > {low}",
        f"position <= {high}",
        f"position between {low} and {high}",
        "type = 'order.paid'",
        "type in ('order.noted', 'order.placed')",
        "stream = 'order/o2'",
        "stream <> 'order/o2'",
        f"data.cents > {chance.randrange(9000)}",
        "org = 'acme'",
    ]
    where = chance.choice([" and ", " or "]).join(chance.sample(conditions, chance.randrange(1, 4)))
    what = chance.choice(["count(*)", "stream, seq, payload", "max(position), min(type)", "*"])
    return f"select {what} from events where {where}"


def test_answers_are_those_of_the_whole_table(spark: SparkSession, files_url: str, place: Path) -> None:
    """PIPE-10: random queries, one after the other, over log and archive: none affects the next."""
    chance = random.Random(8)
    queries = [_random_query(chance) for _ in range(16)]
    answers = [(sql(spark, files_url, query, chance.choice([None, place])), query) for query in queries]
    found = [_rows(table) for table, _ in answers]  # asked once all are planned
    view(spark, files_url, place)
    assert found == [_rows(spark.sql(query)) for query in queries]
    (all_of_it,) = sql(spark, files_url, "select count(*) from events").collect()
    assert all_of_it[0] >= 60


def _rows(table: Any) -> list[str]:
    return sorted(map(str, table.collect()))


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("select count(*) from events where position > 50", QueryNeeds(after=50, columns=frozenset({"position"}))),
        (
            "select data.cents from events where position <= 12 and type = 'order.paid'",
            QueryNeeds(until=12, types=frozenset({"order.paid"}), columns=frozenset({"position", "type", "payload"})),
        ),
    ],
)
def test_no_more_is_read_than_a_query_needs(
    spark: SparkSession, files_url: str, place: Path, query: str, wanted: QueryNeeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PIPE-10: only these positions and columns are read from the log, and other buckets are not opened."""
    asked: list[QueryNeeds] = []
    plain = query_job._needed_events

    def noted(spark: SparkSession, source: WholeLog, needs: QueryNeeds) -> Any:
        asked.append(needs)
        for bucket in source.manifest.buckets if source.manifest is not None else ():
            if bucket.events is not None and (bucket.last <= needs.after or bucket.first > (needs.until or 60)):
                (place / bucket.events.name).unlink()
        return plain(spark, source, needs)

    monkeypatch.setattr(query_job, "_needed_events", noted)
    assert sql(spark, files_url, query, place).collect()
    assert asked == [wanted]


def test_a_table_says_which_options_would_read_less(spark: SparkSession, files_url: str, place: Path) -> None:
    """PIPE-10: hints for tables of the format itself; conditions that options cover already give no hint."""
    read_events(spark, files_url, partition_events=10).createOrReplaceTempView("plain")
    query = "select count(*) from plain where position > 50 and type in ('order.paid', 'order.noted')"
    (hint,) = hints(spark.sql(query))
    assert "with (after = '50', type = 'order.noted,order.paid')" in hint
    assert '.option("after", "50").option("type", "order.noted,order.paid")' in hint
    chosen = read_events(spark, files_url, after=50, types=["order.paid", "order.noted"])
    assert chosen.count() == spark.sql(query).collect()[0][0]
    assert hints(chosen.where("position > 50 and type in ('order.paid', 'order.noted')")) == []
    assert hints(spark.sql("select count(*) from plain where seq > 5")) == []
    both = spark.sql("select 1 from plain where position <= 9 union all select 2 from plain where position > 55")
    assert [hint.partition("with ")[2] for hint in hints(both)] == ["(until = '9')", "(after = '55')"]


def test_a_query_that_is_wrong_is_refused_as_such(spark: SparkSession, files_url: str, place: Path) -> None:
    """PIPE-10: it is refused with Spark's own error over the whole table."""
    with pytest.raises(errors.JobFailed, match="nothing"), clear():
        sql(spark, files_url, "select nothing from events where position > 5", place).collect()

"""`CREATE TABLE … USING tallystick`: a table of Spark's catalog can be read, or is refused when it is created."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from tallystick import errors
from tallystick.pipeline import clear

MakeLog = Callable[..., None]
HEAD = "select count(*), max(position) from logged"


@pytest.fixture
def log(spark: SparkSession, files_url: str, make_log: MakeLog) -> Iterator[str]:
    """A log of ten events; the table over it is dropped after the test."""
    make_log(files_url, events=10)
    yield files_url
    spark.sql("drop table if exists logged")


def answer(spark: SparkSession, query: str) -> tuple[int, ...]:
    """The one row of an answer."""
    with clear():
        (row,) = spark.sql(query).collect()
    return tuple(row)


def test_a_created_table_is_read_with_its_options(spark: SparkSession, log: str) -> None:
    """PIPE-01: the options of `CREATE TABLE` apply to every query, and the options of a query override them."""
    spark.sql(f"create table logged using tallystick options (url '{log}', until '6')")
    assert answer(spark, HEAD) == (6, 6)
    assert answer(spark, HEAD + " with (until = '3')") == (3, 3)
    assert answer(spark, "select count(*), max(position) from logged where type = 'nothing'") == (0, None)
    assert spark.table("logged").schema["position"].dataType.simpleString() == "bigint"


@pytest.mark.parametrize(
    "wrong",
    ["", "options (after '1')", "options (url 'files:x', until 'soon')", "location '/tmp/log'", "options (where 'a')"],
)
def test_a_table_that_could_not_be_read_is_not_created(spark: SparkSession, log: str, wrong: str) -> None:
    """PIPE-01: a missing URL, a wrong option or a path gives one clear error, and no table."""
    with pytest.raises((errors.InvalidValue, errors.NotForSpark)), clear():
        spark.sql(f"create table logged using tallystick {wrong}")
    assert not spark.catalog.tableExists("logged")


@pytest.mark.security
def test_a_table_does_not_keep_a_password(spark: SparkSession, log: str) -> None:
    """SAFE-07, PIPE-01: it would get into the footer of every Parquet file that is written from the table."""
    for url in ("postgresql://u:hush@localhost/db", "postgresql://u@localhost/db?password=hush"):
        with pytest.raises(errors.InvalidValue, match="PGPASSFILE") as caught, clear():
            spark.sql(f"create table logged using tallystick options (url '{url}')")
        assert "hush" not in str(caught.value)
        assert not spark.catalog.tableExists("logged")


def test_a_table_with_columns_of_its_own_says_how_to_read_it(spark: SparkSession, log: str) -> None:
    """PIPE-01: Spark does not ask the source if columns are listed, so the reader's error says what to do."""
    spark.sql(f"create table logged (position bigint) using tallystick options (url '{log}')")
    with pytest.raises(errors.InvalidValue, match="list of columns"):
        answer(spark, HEAD)
    assert answer(spark, f"{HEAD} with (url = '{log}')") == (10, 10)

"""One Spark session for all tests of the pipeline, and logs to read with it."""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import tallystick
from tallystick import NewEvent, Store, state
from tallystick.event.model import Event
from tallystick.pipeline import register
from tallystick.pipeline.source import columns
from tallystick.pipeline.spark.session import session
from tallystick.pipeline.storage import object_storage
from tallystick.state import Until, make, reducer
from tallystick.testing import postgres
from tests.pipeline import object_store

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores; a running session is used and not stopped."""
    running = SparkSession.getActiveSession()
    if running is not None:
        yield register(running)
        return
    started = session("local[2]", memory="1g", settings=SETTINGS)
    yield started
    started.stop()


@pytest.fixture(params=["files", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A URL for a log, once with each engine that has an order over all events."""
    if request.param != "postgres":
        yield url_of(request.param, tmp_path)
        return
    with postgres.database() as found:
        yield found


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """A new database."""
    with postgres.database() as found:
        yield found


@pytest.fixture
def files_url(tmp_path: Path) -> str:
    """A place for a file log."""
    return url_of("files", tmp_path)


def url_of(engine: str, place: Path) -> str:
    """A URL for a store of one engine."""
    return {"files": f"files:{place}/log", "sqlite": f"sqlite:{place}/log.db"}[engine]


def fill(store: Store, *, events: int = 60, streams: int = 5, seed: int = 1) -> None:
    """Append random orders in several commits: some large, some with unusual names."""
    chance = random.Random(seed)
    for number in range(events):
        stream = f"order/o{chance.randrange(streams)}"
        kind = chance.choice(["order.placed", "order.paid", "order.noted"])
        payload = {
            "customer_id": f"c{chance.randrange(7)}",
            "cents": chance.randrange(10_000),
            "note": chance.choice(["", "é", "日本", 'a "b" \\ c', "x" * chance.randrange(300)]),
            "number": number,
        }
        meta = {"org": "acme" if stream.endswith(("0", "2", "4")) else "bolt"}
        store.append(stream, NewEvent(kind, payload, meta=meta))


@pytest.fixture
def make_log() -> Callable[..., None]:
    """Makes a log with random orders at a URL."""

    def make(url: str, **options: int) -> None:
        with tallystick.open(url) as store:
            fill(store, **options)

    return make


@pytest.fixture
def stored() -> Callable[[str], list[Event]]:
    """Every event of a log, read by the store itself."""

    def read(url: str) -> list[Event]:
        with tallystick.open(url, readonly=True) as store:
            return list(store.log.read(limit=100_000, over_pruned=True).events)

    return read


@pytest.fixture
def rows_of() -> Callable[[DataFrame], list[Event]]:
    """The events of a table in order of position."""

    def collect(table: DataFrame) -> list[Event]:
        found = [_event(row) for row in table.select(*columns.COLUMNS).collect()]
        return sorted(found, key=lambda event: (event.position, event.stream))

    return collect


def _event(row: tuple[object, ...]) -> Event:
    values = dict(zip(columns.COLUMNS, row, strict=True))
    for name, value in values.items():
        if isinstance(value, bytearray):
            values[name] = bytes(value)
        elif name in ("payload", "meta") and isinstance(value, str):
            values[name] = value.encode()
    return Event(**values)  # type: ignore[arg-type]


@reducer(name="pipeline.sum", initial={"cents": 0, "erased": 0})
def total(sums: dict[str, int], event: Event) -> dict[str, int]:
    """Adds up amounts, and counts what was erased."""
    if event.data is None:
        return sums | {"erased": sums["erased"] + 1}
    return sums | {"cents": sums["cents"] + event.data.get("cents", 0)}


@pytest.fixture
def prune() -> Callable[..., None]:
    """Prunes a stream of a log up to a seq, after a snapshot."""

    def run(url: str, stream: str, through: int) -> None:
        with tallystick.open(url) as store:
            make(store, total, stream, until=Until(seq=through))
            state.prune(store, stream, before=through + 1, reducers=[total], accept=True)

    return run


@pytest.fixture
def jobs_of(spark: SparkSession) -> Callable[[Callable[[], object]], int]:
    """Counts the Spark jobs that some work starts."""

    def count(work: Callable[[], object]) -> int:
        group = f"counted-{random.random()}"
        spark.sparkContext.setJobGroup(group, "counted")
        try:
            work()
        finally:
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))

    return count


@pytest.fixture(scope="session")
def object_server() -> Iterator[object_store.Server]:
    """A server with the S3 protocol. Where it is required, its absence is a failure."""
    program = object_store.command(Path(__file__).parents[2])
    if program is None:
        assert not os.environ.get("TALLY_REQUIRE_S3"), "moto_server is missing: make .moto"
        pytest.skip("moto_server is not installed: make .moto")
    with object_store.serving(program) as server:
        yield server


@pytest.fixture
def objects(
    object_server: object_store.Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[object_store.Server]:
    """The server, with this process and Spark's workers set up for it."""
    for name, value in object_server.environment.items():
        monkeypatch.setenv(name, value)
    if "spark" in request.fixturenames:
        spark: SparkSession = request.getfixturevalue("spark")
        monkeypatch.setattr(
            spark.sparkContext, "environment", spark.sparkContext.environment | object_server.environment
        )
    object_server.between.clear()
    object_storage.disconnect()
    yield object_server
    object_storage.disconnect()


@pytest.fixture
def bucket_url(objects: object_store.Server) -> str:
    """An unused prefix in its bucket."""
    return f"s3a://{object_store.BUCKET}/{uuid.uuid4().hex}"

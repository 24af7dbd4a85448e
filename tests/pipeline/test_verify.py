"""`verify` on Spark: a clean log has no findings, and every mutation of an archived log is found where it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tallystick
from tallystick import NewEvent, state
from tallystick.community import EventLog
from tallystick.event import canonical, chain
from tallystick.event.model import Event
from tallystick.pipeline.archive import manifest
from tallystick.pipeline.jobs.archive import archive
from tallystick.pipeline.jobs.verify import VerifyResult, verify
from tallystick.pipeline.source import columns
from tallystick.state import Reducer, as_reducer
from tallystick.store import facts
from tallystick.testing.community.people import keys

Rows = list[dict[str, Any]]
Mutation = Callable[[Rows, str, random.Random], None]
STREAMS, EVENTS = 60, 9


class Count:
    """Counts events."""

    name, version = "pipeline.count", 1

    def initial(self) -> dict[str, int]:
        """None yet."""
        return {"events": 0}

    def apply(self, counted: dict[str, int], event: Any) -> dict[str, int]:
        """One more."""
        return {"events": counted["events"] + 1}


@pytest.fixture
def counter() -> Reducer:
    """A reducer to seal and snapshot with."""
    return as_reducer(Count)


@pytest.fixture
def archived(spark: SparkSession, tmp_path: Path, counter: Reducer) -> tuple[str, Path]:
    """A log with seals, snapshots, a pruned and an erased event, archived except for its last events."""
    url, place = f"files:{tmp_path}/log", tmp_path / "archive"
    with tallystick.open(url) as store:
        for number in range(EVENTS):
            for stream in range(STREAMS):
                store.append(f"run/r{stream}", NewEvent("run.stepped", {"number": number, "text": "é" * stream}))
        for stream in range(50, 53):
            state.seal(store, counter, f"run/r{stream}")
        state.make(store, counter, "run/r53", until=state.Until(seq=3))
        state.prune(store, "run/r53", before=4, reducers=[counter], accept=True)
        state.erase(store, "run/r54", 2, reason="asked")
    archive(spark, url, place, bucket_events=400)
    with tallystick.open(url) as store:
        store.append("run/r55", NewEvent("run.stepped", {"number": 99}))
        state.erase(store, "run/r56", 2, reason="asked")
    return url, place


def of(rows: Rows, stream: str) -> Rows:
    """The rows of a stream in order."""
    return sorted((row for row in rows if row["stream"] == stream), key=lambda row: row["seq"])


def payload_byte(rows: Rows, stream: str, chance: random.Random) -> None:
    """Change one character of a payload."""
    row = chance.choice(of(rows, stream))
    row["payload"] = row["payload"].replace("number", "numbeR")


def other_link(rows: Rows, stream: str, chance: random.Random) -> None:
    """Change one bit of a link."""
    row = chance.choice(of(rows, stream))
    row["link"] = bytes([row["link"][0] ^ 1]) + row["link"][1:]


def null_link(rows: Rows, stream: str, chance: random.Random) -> None:
    """A link is gone."""
    chance.choice(of(rows, stream))["link"] = None


def other_meta(rows: Rows, stream: str, chance: random.Random) -> None:
    """Somebody else did it."""
    chance.choice(of(rows, stream))["meta"] = '{"actor_id":"mallory"}'


def dropped_row(rows: Rows, stream: str, chance: random.Random) -> None:
    """Remove a row in the middle."""
    rows.remove(chance.choice(of(rows, stream)[1:-1]))


def swapped_rows(rows: Rows, stream: str, chance: random.Random) -> None:
    """Exchange two neighbours."""
    one, other = chance.sample(of(rows, stream), 2)
    one["seq"], other["seq"] = other["seq"], one["seq"]


def dropped_stream(rows: Rows, stream: str, chance: random.Random) -> None:
    """Remove every row of a stream."""
    for row in of(rows, stream):
        rows.remove(row)


def dropped_tail(rows: Rows, stream: str, chance: random.Random) -> None:
    """Remove the last rows of a stream."""
    for row in of(rows, stream)[-chance.randrange(1, 4) :]:
        rows.remove(row)


def duplicated_row(rows: Rows, stream: str, chance: random.Random) -> None:
    """A row stands there twice."""
    row = chance.choice(of(rows, stream))
    rows.append(row | {"position": row["position"]})


def fake_erasure(rows: Rows, stream: str, chance: random.Random) -> None:
    """Remove a payload without a control fact."""
    chance.choice(of(rows, stream))["payload"] = None


def told_erasure(rows: Rows, stream: str, chance: random.Random) -> None:
    """Remove a payload, and forge a fact, with the right link, that it was erased."""
    row = chance.choice(of(rows, stream))
    row["payload"] = None
    fact = {"stream": stream, "seq": row["seq"], "checksum": row["checksum"].hex(), "position": row["position"]}
    rows.append(linked(forged(row, stream, facts.ERASED, fact)))


def forged_tombstone(rows: Rows, stream: str, chance: random.Random) -> None:
    """Remove the beginning of a stream, and forge a fact that it was pruned."""
    gone = of(rows, stream)[:3]
    for row in gone:
        rows.remove(row)
    fact = {"stream": stream, "through": 3, "link": gone[-1]["link"].hex(), "count": 3}
    rows.append(forged(gone[0], stream, facts.PRUNED, fact))


def linked_tombstone(rows: Rows, stream: str, chance: random.Random) -> None:
    """The same, with the right link."""
    forged_tombstone(rows, stream, chance)
    linked(rows[-1])


def forged(row: dict[str, Any], stream: str, type_: str, fact: dict[str, Any]) -> dict[str, Any]:
    """Replace a row by a control fact that the log never recorded."""
    payload = canonical.encode(fact)
    changes = {"stream": facts.stream_about(stream), "seq": 1, "type": type_, "payload": payload.decode()}
    made = int.from_bytes(row["id"], "big") ^ 1
    return row | changes | {"checksum": chain.checksum(payload), "id": made.to_bytes(16, "big")}


def linked(row: dict[str, Any]) -> dict[str, Any]:
    """The first event of a stream, with the right link."""
    names = [name for name in columns.COLUMNS if name != "signature"]
    texts = {"meta": row["meta"].encode(), "payload": None}
    row["link"] = chain.link(Event(**{name: row[name] for name in names} | texts), chain.GENESIS)
    return row


MUTATIONS: tuple[Mutation, ...] = (
    payload_byte,
    other_link,
    null_link,
    other_meta,
    dropped_row,
    swapped_rows,
    dropped_stream,
    dropped_tail,
    duplicated_row,
    fake_erasure,
    told_erasure,
    forged_tombstone,
    linked_tombstone,
)
FORGERIES = (told_erasure, forged_tombstone, linked_tombstone)


def mutate(place: Path, change: Callable[[Rows], None]) -> None:
    """Change the rows of an archive, but not the manifest."""
    paths = [place / bucket.events.name for bucket in manifest.load(place).buckets if bucket.events]
    tables = [pq.read_table(path) for path in paths]
    rows = [row | {"file": number} for number, table in enumerate(tables) for row in table.to_pylist()]
    change(rows)
    for number, (path, table) in enumerate(zip(paths, tables, strict=True)):
        its = [{name: row[name] for name in table.schema.names} for row in rows if row["file"] == number]
        pq.write_table(pa.Table.from_pylist(its, schema=table.schema), path)


def places(found: VerifyResult) -> set[str]:
    """The streams with findings."""
    return {problem.stream for problem in found.problems if problem.stream}


def test_a_clean_log_raises_no_alarm(spark: SparkSession, archived: tuple[str, Path]) -> None:
    """PIPE-03: pruned and erased events are counted and are no findings, with and without the archive."""
    url, place = archived
    found = verify(spark, url, place)
    assert found.problems == []
    assert (found.erased, found.pruned) == (2, 3)
    assert found.archived < found.until
    alone = verify(spark, url)
    assert alone.problems == []
    assert alone.events == found.events


def test_fifty_mutations_are_found_at_their_places(spark: SparkSession, archived: tuple[str, Path]) -> None:
    """PIPE-03: each of 50 random mutations is found in its stream, and no other stream has findings."""
    url, place = archived
    chance = random.Random(7)
    victims = [f"run/r{number}" for number in range(50)]
    chosen = [MUTATIONS[number % len(MUTATIONS)] for number in range(50)]

    def change(rows: Rows) -> None:
        for mutation, stream in zip(chosen, victims, strict=True):
            mutation(rows, stream, chance)

    mutate(place, change)
    found = verify(spark, url, place)
    named = places(found)
    assert [pair for pair in zip(chosen, victims, strict=True) if pair[1] not in named] == []
    forgeries = {facts.stream_about(stream) for one, stream in zip(chosen, victims, strict=True) if one in FORGERIES}
    assert {(stream, 1) for stream in forgeries} <= {(problem.stream, problem.seq) for problem in found.problems}
    assert named <= {*victims, *forgeries}


def test_the_place_of_each_mutation_is_named(spark: SparkSession, archived: tuple[str, Path]) -> None:
    """PIPE-03: a finding names the event that was changed or removed, the one before it, and what is wrong."""
    url, place = archived

    def change(rows: Rows) -> None:
        of(rows, "run/r1")[3]["payload"] = None
        of(rows, "run/r2")[3]["link"] = None
        rows.remove(of(rows, "run/r3")[3])
        forged_tombstone(rows, "run/r4", random.Random(1))

    mutate(place, change)
    found = {(item.stream, item.seq, item.what): item for item in verify(spark, url, place).problems if item.stream}
    assert ("run/r1", 4, "erasure") in found
    assert ("run/r2", 4, "link") in found
    assert ("run/r2", 5, "link") in found
    assert "seq 5 follows 3 (after position" in found["run/r3", 5, "sequence"].reason
    assert "(after position 0)" in found["run/r4", 4, "sequence"].reason
    assert {what for stream, seq, what in found if (stream, seq) == (facts.stream_about("run/r4"), 1)} >= {
        "link",
        "fact",
    }


def test_signatures_of_a_community_are_checked(spark: SparkSession, tmp_path: Path) -> None:
    """PIPE-03, COM-03: a feed signed by its author has no findings; a changed, missing or foreign signature does."""
    url, place, founder = f"sqlite:{tmp_path}/log.db", tmp_path / "archive", keys(1)
    with tallystick.open(url, profile="community") as store:
        log = EventLog(store, founder.node, node=founder.node)
        for number in range(8):
            log.append_local("community.created" if number == 0 else "chat.message.sent", {"number": number}, founder)
        feed = log.replica.streams.feed(founder.node)
    archive(spark, url, place)
    clean = verify(spark, url, place)
    assert (clean.problems, clean.signed) == ([], 8)
    assert not any("sign" in text for text in clean.unsure)

    def change(rows: Rows) -> None:
        mine = of(rows, feed)
        mine[1]["signature"] = None
        mine[3]["signature"], mine[4]["signature"] = mine[4]["signature"], mine[3]["signature"]
        mine[6]["signature"] = keys(2).sign(b"something else")

    mutate(place, change)
    found = [item for item in verify(spark, url, place).problems if item.stream]
    assert [(item.what, item.seq) for item in found] == [("signature", seq) for seq in (2, 4, 5, 7)]


def test_positions_swapped_between_streams_are_found(spark: SparkSession, archived: tuple[str, Path]) -> None:
    """PIPE-03: no chain covers which event is at which position, but the manifest does."""
    url, place = archived

    def swap(rows: Rows) -> None:
        one, other = of(rows, "run/r1")[4], of(rows, "run/r2")[4]
        one["position"], other["position"] = other["position"], one["position"]

    mutate(place, swap)
    found = verify(spark, url, place)
    assert {problem.what for problem in found.problems} == {"archive", "block"}

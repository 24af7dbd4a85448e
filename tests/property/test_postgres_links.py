"""The chain computed in SQL is the chain computed in Python, for whatever events there can be."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tallystick
from tallystick import Event, NewEvent, Store
from tallystick.event import chain, profiles
from tallystick.store.verify import verify
from tallystick.testing import postgres

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "golden" / "chain.json").read_text("utf-8"))[
    "events"
]
NUMBERS = itertools.count()  # examples share the store, so each has streams of its own
LINK = "SELECT tally.link(%s, %s, %s, %s, %s, %s, %s, %s, %s)"

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12).filter(lambda text: "\0" not in text)
values = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False) | texts
finite = values.filter(lambda value: value not in (float("inf"), float("-inf")))
payloads = st.dictionaries(texts, finite | st.lists(finite, max_size=3), max_size=5)
metas = st.dictionaries(
    texts.filter(lambda key: key and key not in profiles.TEXT_KEYS | profiles.NUMBER_KEYS | {"tags"}),
    finite,
    max_size=4,
)
events = st.builds(
    NewEvent,
    type=st.from_regex(r"[A-Za-z][A-Za-z0-9_.-]{0,20}", fullmatch=True).filter(
        lambda name: not name.startswith("tally.")
    ),
    payload=payloads,
    meta=st.none() | metas,
    version=st.integers(1, (1 << 31) - 1),
    time=st.integers(0, (1 << 63) - 1),
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """One database for all of them."""
    with postgres.database() as url:
        tallystick.open(url).close()
        yield url


@pytest.fixture(scope="module")
def connection(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection past the engine."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def store(url: str) -> Iterator[Store]:
    """One store for all of them: every example has a stream of its own."""
    with tallystick.open(url, secrets="off") as store:
        yield store


@pytest.mark.parametrize("vector", GOLDEN, ids=lambda vector: f"{vector['stream']}@{vector['seq']}")
def test_the_golden_links_come_out_in_sql(connection: psycopg.Connection[Any], vector: dict[str, Any]) -> None:
    """CP-01: the function of the schema gives the links and checksums of the vectors."""
    checksum = bytes.fromhex(vector["checksum"])
    fields = (vector["stream"], vector["seq"], vector["type"], vector["version"], uuid.UUID(vector["id"]))
    given_ = (bytes.fromhex(vector["previous"]), *fields, vector["time"], vector["canonical_meta"], checksum)
    row = connection.execute(LINK, given_).fetchone()
    assert row is not None
    assert row[0].hex() == vector["link"]
    found = connection.execute("SELECT sha256(convert_to(%s, 'UTF8'))", (vector["canonical_payload"],)).fetchone()
    assert found == (checksum,)


def test_appending_the_vectors_gives_their_links(store: Store) -> None:
    """CP-01: what the database computes at the append of each vector is its golden link."""
    for vector in GOLDEN:
        fields = {key: vector[key] for key in ("type", "payload", "meta", "version", "time")}
        done = store.append(vector["stream"], NewEvent(**fields, id=uuid.UUID(vector["id"])))
        assert (done.seq, done.link.hex()) == (vector["seq"], vector["link"])


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(new=st.lists(events, min_size=1, max_size=4))
def test_links_are_the_same_in_sql_and_in_python(store: Store, new: list[NewEvent]) -> None:
    """CP-01: one by one (computed in SQL) and in a batch (checked in SQL), links are those of Python."""
    number = next(NUMBERS)
    single, batch = f"single/{number}", f"batch/{number}"
    for event in new:
        store.append(single, event)
    store.append(batch, new)
    for stream in (single, batch):
        previous = chain.GENESIS
        stored: list[Event] = store.read_stream(stream)
        assert len(stored) == len(new)
        for event in stored:
            assert event.payload is not None
            assert event.checksum == chain.checksum(event.payload)
            assert event.link == chain.link(event, previous)
            previous = event.link


def test_everything_of_the_above_verifies(store: Store) -> None:
    """PIPE-03: the whole store, as verification sees it."""
    assert verify(store.log).problems == []

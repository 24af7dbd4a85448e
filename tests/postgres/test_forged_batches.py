"""The functions that write a batch refuse any values that the ledger did not pass."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.engines.postgres import arrays, batches
from tallystick.engines.postgres.shortcuts import Shortcuts
from tallystick.engines.postgres.writer import Writer
from tallystick.event.model import Row
from tallystick.store.ledger import Ledger
from tallystick.store.verify import verify
from tallystick.testing import postgres

COLUMNS = ("seq", "type", "version", "id", "time", "payload", "meta", "link", "signature")
FIRST = {"append_batch": 1, "write_stream": 1, "write_batch": 4}  # where the columns begin among the parameters
EVENTS = [NewEvent("thing.done", {"n": number}, meta={"org": "acme"}) for number in range(3)]
OTHER = b"\x01" * 32


class Forged(arrays.Blobs):
    """An array that is not counted from 1, or has two dimensions."""

    def __init__(self, array: arrays.Array, *, begin: int = 1, dimensions: int = 1) -> None:
        head, rest = array.data[:12], array.data[20:]
        count = struct.unpack_from("!i", array.data, 12)[0]
        more = struct.pack("!ii", 1, 1) * (dimensions - 1)
        super().__init__(struct.pack("!i", dimensions) + head[4:] + struct.pack("!ii", count, begin) + more + rest)


def _links(*links: bytes | None) -> arrays.Blobs:
    return arrays.blobs(list(links))


def _none(kind: type[arrays.Array]) -> arrays.Array:
    return kind(None)  # type: ignore[arg-type]  # sent as NULL


# The column, and what is handed over instead, of the links that are right.
FORGERIES: dict[str, tuple[str, Callable[[list[bytes]], Any]]] = {
    "another last link": ("link", lambda link: _links(link[0], link[1], OTHER)),
    "another first link": ("link", lambda link: _links(OTHER, link[1], link[2])),
    "links counted from 2": ("link", lambda link: Forged(_links(*link), begin=2)),
    "links counted from 2, the last another": ("link", lambda link: Forged(_links(*link[:2], OTHER), begin=2)),
    "links counted from 3, the last another": ("link", lambda link: Forged(_links(*link[:2], OTHER), begin=3)),
    "links counted from 0, the last another": ("link", lambda link: Forged(_links(*link[:2], OTHER), begin=0)),
    "links in two dimensions": ("link", lambda link: Forged(_links(*link), dimensions=2)),
    "a link too few": ("link", lambda link: _links(*link[:2])),
    "a null for the last link": ("link", lambda link: _links(*link[:2], None)),
    "a null for the links": ("link", lambda link: _none(arrays.Blobs)),
    "an id too few": ("id", lambda link: arrays.uuids([bytes(16), b"\x01" * 16])),
    "no ids": ("id", lambda link: arrays.uuids([])),
    "a null for the ids": ("id", lambda link: _none(arrays.Uuids)),
    "payloads of others": ("payload", lambda link: arrays.texts([b"{}"] * 3)),
    "a payload too few": ("payload", lambda link: arrays.texts([b'{"n":0}', b'{"n":1}'])),
    "metas of another org": ("meta", lambda link: arrays.texts([b'{"org":"bolt"}'] * 3)),
    "other types": ("type", lambda link: arrays.texts([b"thing.undone"] * 3)),
    "other times": ("time", lambda link: arrays.bigints([1, 2, 3])),
}


def _handing(patched: pytest.MonkeyPatch, statement: str, change: Callable[[list[Row], list[Any]], None]) -> None:
    """Send the next appends through one statement, with changed values."""
    one, several = batches.of_one_stream, batches._of_several

    def forged(rows: list[Row], right: tuple[Any, ...]) -> tuple[Any, ...]:
        values = list(right)
        change(rows, values)
        return tuple(values)

    def written_by(ledger: Ledger, *, recorded: int) -> tuple[str, tuple[Any, ...]]:
        right = one(ledger.rows, recorded) if statement == "write_stream" else several(ledger, recorded)
        return statement, forged(ledger.rows, right)

    if statement == "append_batch":
        patched.setattr(batches, "of_one_stream", lambda rows, recorded: forged(rows, one(rows, recorded)))
    else:
        patched.setattr(batches, "written_by", written_by)
        patched.setattr(Shortcuts, "_one_batch", lambda *given: None)


def _not_that_way(*given: Any) -> None:
    raise errors.InvalidValue(what="a batch", value="refused", must="what the database takes")


@pytest.fixture(scope="module")
def shared() -> Iterator[Store]:
    """One store for all forgeries: a refused one leaves nothing in it."""
    with postgres.database() as url, tallystick.open(url) as store:
        yield store


@pytest.mark.parametrize("before", [0, 2], ids=["a new stream", "a stream that goes on"])
@pytest.mark.parametrize("statement", FIRST)
@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES.keys())
def test_what_does_not_follow_is_refused(
    shared: Store, statement: str, forgery: tuple[str, Callable[[list[bytes]], Any]], before: int
) -> None:
    """CP-01, CP-05: a service that calls the functions directly cannot store what does not follow the chain."""
    stream = f"order/{secrets.token_hex(8)}"
    if before:
        shared.append(stream, EVENTS[:before])  # a batch, so that the handle knows where the stream ends
    head = shared.head()
    column, instead = forgery
    at = FIRST[statement] + COLUMNS.index(column)
    handed: list[bytes] = []

    def change(rows: list[Row], values: list[Any]) -> None:
        handed.extend(row[10] for row in rows)
        values[at] = instead(handed)

    with pytest.MonkeyPatch.context() as patched, pytest.raises(errors.TallyError):
        _handing(patched, statement, change)
        if statement == "append_batch":
            patched.setattr(Writer, "_commit_by_ledger", _not_that_way)
        shared.append(stream, EVENTS)
    assert len(handed) == 3
    assert shared.head() == head
    done = shared.append(stream, EVENTS)
    assert (done.first_seq, done.last_seq) == (before + 1, before + 3)
    assert verify(shared.log).ok


NOT_OF_A_STREAM = {
    "a first seq of 0": ("seq", 0),
    "a seq that is taken": ("seq", 1),
    "a gap": ("seq", 3),
    "no first seq": ("seq", None),
    "a link too many": ("link", _links(OTHER, OTHER, OTHER, OTHER)),
    "a signature too many": ("signature", _links(None, None, None, OTHER)),
}


@pytest.mark.parametrize(("column", "instead"), NOT_OF_A_STREAM.values(), ids=NOT_OF_A_STREAM.keys())
def test_a_batch_of_a_stream_is_whole_and_begins_where_the_stream_ends(store: Store, column: str, instead: Any) -> None:
    """CP-05: it cannot overwrite events, leave a gap, or have more of any value than it has events."""
    store.append("order/a", EVENTS[:1])

    def change(rows: list[Row], values: list[Any]) -> None:
        values[1 + COLUMNS.index(column)] = instead

    with pytest.MonkeyPatch.context() as patched, pytest.raises(errors.TallyError):
        _handing(patched, "write_stream", change)
        store.append("order/a", EVENTS)
    assert store.stream_head("order/a").seq == 1
    assert store.append("order/a", EVENTS).last_seq == 4


@pytest.mark.parametrize("statement", FIRST)
def test_both_ways_of_writing_store_the_same(store: Store, statement: str) -> None:
    """CP-03, CP-05: rows, heads and orgs are the same, with the statement for one stream and with that for several."""
    with pytest.MonkeyPatch.context() as patched:
        _handing(patched, statement, lambda rows, values: None)
        done = [store.append("order/a", EVENTS), store.append("order/a", EVENTS)]
        store.append("order/b", [NewEvent("thing.done", {}), NewEvent("thing.done", {}, meta={"org": "acme"})])
        with pytest.raises(errors.OrgMismatch):
            store.append("order/b", [NewEvent("thing.done", {}, meta={"org": "bolt"})] * 2)
    assert [(each.first_seq, each.last_seq, each.last_position) for each in done] == [(1, 3, 3), (4, 6, 6)]
    assert [event.position for event in store.read().events] == list(range(1, 9))
    assert verify(store.log).ok

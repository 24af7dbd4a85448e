"""A task of `stream`, without a session: it fills a batch with the right rows, for any pages and histories."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.engines.tables import views
from tallystick.event.catalog import Catalog
from tallystick.event.model import Event
from tallystick.pipeline.fold.keys import KEY, key_name
from tallystick.pipeline.source import columns
from tallystick.pipeline.stream import batch_rows
from tallystick.pipeline.stream.batch_rows import Batch, Filler, ProjectionJob, filler_task
from tallystick.projections import Live, Projection, ViewReader, model
from tallystick.projections import rebuild as rebuild_in_process
from tallystick.projections.places import PlaceKeeper
from tallystick.projections.summary import Summary, latest, payload, sum_
from tallystick.store.selection import Selection
from tallystick.testing.shop import PAID, PLACED, CustomerBalance, MergedFeed, OrderTotals, order_event


class Paid(Summary):
    """The payments of each customer, and the latest amount."""

    types = (PLACED, PAID)
    key = payload.customer
    total = sum_(payload.amount, of=PAID)
    last = latest(payload.amount)


PROJECTIONS = [OrderTotals(), CustomerBalance(), MergedFeed(), Paid()]


def pages(store: Store, projection: Any, after: int, until: int, size: int) -> Iterator[pa.RecordBatch]:
    """The events of a batch as Spark passes them to a task: by key, in the order of the projection, in pages."""
    chosen = store.events(after=after, until=until, selection=Selection(types=frozenset(projection.types)))
    keyed = [(model.key_of(projection, event), event) for event in chosen]
    there = [(key, event) for key, event in keyed if key is not None]
    if projection.order == model.BY_POSITION:
        there.sort(key=lambda pair: (pair[0], pair[1].position))
    else:
        there.sort(key=lambda pair: (pair[0], pair[1].metadata["lamport"], pair[1].id))
    for number in range(0, len(there), size):
        yield page_of(projection, there[number : number + size])


def page_of(projection: Any, some: Sequence[tuple[str, Event]]) -> pa.RecordBatch:
    """An Arrow page, with a column for the key unless the key is the stream."""
    page = columns.batch_maker(columns.COLUMNS)([event for _, event in some])
    if key_name(projection) != KEY:
        return page
    keys = pa.array([key for key, _ in some], pa.string())
    return pa.RecordBatch.from_arrays([*page.columns, keys], [*columns.COLUMNS, KEY])


def apply(store: Store, projection: Any, until: int, chance: random.Random) -> Batch:
    """Bring the rows to a position as a step of `stream` does, with one task."""
    views = store.log.views
    place = PlaceKeeper(store, projection, views).live()
    batch = Batch(chance.randbytes(16), place, until)
    filler = Filler(store, ProjectionJob("", projection, Catalog()), batch)
    for page in pages(store, projection, place.position, until, chance.randint(1, 9)):
        filler.take(page)
    views.write_batch(place.moved(until, None), batch.number, rows=filler.end(), previous=place.position)
    return batch


def fill(store: Store, chance: random.Random, events: int) -> None:
    """Orders of few customers, some with a much lower lamport."""
    for _ in range(events):
        kind, customer = chance.choice([PLACED, PAID]), f"c{chance.randrange(4)}"
        made = order_event(kind, customer=customer, amount=chance.randrange(99), lamport=chance.randrange(1, 40))
        store.append(f"order/{chance.randrange(3)}", made)


def stored(store: Store, name: str) -> list[tuple[str, Any]]:
    """The live rows."""
    return ViewReader(store, name).rows()


@pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda item: item.name)
@pytest.mark.parametrize("seed", range(6))
def test_rows_do_not_depend_on_pages(
    projection: Projection, seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """PIPE-07: with keys over many pages, few keys at a time and late events, every batch gives the rows of a fold."""
    chance = random.Random(seed)
    monkeypatch.setattr(batch_rows, "KEYS_MAX", chance.choice([1, 2, 1000]))
    with tallystick.open(f"sqlite:{tmp_path}/log.db") as store:
        for _ in range(4):
            fill(store, chance, 25)
            apply(store, projection, store.head(), chance)
        found = stored(store, projection.name)
        rebuild_in_process(store, projection)
        assert found == stored(store, projection.name)


def test_a_dropped_state_is_folded_once_over_many_pages(tmp_path: Path) -> None:
    """PIPE-07: a key that is folded again gets all events of its batch; those on later pages are then skipped."""
    chance = random.Random(1)
    for projection in PROJECTIONS:
        with tallystick.open(f"sqlite:{tmp_path}/{projection.name}.db") as store:
            fill(store, chance, 40)
            Live(store, projection).catch_up()
            expected_keys = [key for key, _ in stored(store, projection.name)]
            store.log.views.drop(projection.name, expected_keys)
            fill(store, chance, 40)
            apply(store, projection, store.head(), chance)
            found = stored(store, projection.name)
            rebuild_in_process(store, projection)
            assert found == stored(store, projection.name)


class Large(Projection):
    """A large state for each stream."""

    types = ("order.noted",)
    key = "stream"

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"text": ""}

    def apply(self, found: dict[str, Any], event: Any) -> dict[str, Any]:
        """A large text."""
        return {"text": event.data["mark"] * 10_000}


def test_few_keys_are_held_where_states_are_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-07: after the first rows a task knows their size, and loads only as many as fit."""
    monkeypatch.setattr(batch_rows, "STATES_BYTES", 50_000)
    monkeypatch.setattr(batch_rows, "KEYS_MAX", 10)
    with tallystick.open(f"sqlite:{tmp_path}/log.db") as store:
        for number in range(40):
            store.append(f"order/{number}", NewEvent("order.noted", {"mark": "x"}))
        asked: list[int] = []
        read = store.log.views.rows

        def counting(*arguments: Any, **options: Any) -> Any:
            asked.append(len(options["keys"]))
            return read(*arguments, **options)

        place = PlaceKeeper(store, Large(), store.log.views).live()
        monkeypatch.setattr(store.log.views, "rows", counting)
        filler = Filler(store, ProjectionJob("", Large(), Catalog()), Batch(b"one", place, 40))
        for page in pages(store, Large(), 0, 40, 20):
            filler.take(page)
        assert filler.end() == 40
        assert asked[0] == 10
        assert max(asked[1:]) <= 5


def test_a_task_of_an_older_batch_is_refused(tmp_path: Path) -> None:
    """PIPE-07: a task that still runs after its batch, or a later one, was published changes nothing."""
    chance = random.Random(2)
    with tallystick.open(f"sqlite:{tmp_path}/log.db") as store:
        fill(store, chance, 30)
        late = Filler(
            store,
            ProjectionJob("", OrderTotals(), Catalog()),
            Batch(b"late", PlaceKeeper(store, OrderTotals(), store.log.views).live(), 30),
        )
        apply(store, OrderTotals(), store.head(), chance)
        before = stored(store, "OrderTotals")
        with pytest.raises(errors.ViewMoved):
            for page in pages(store, OrderTotals(), 0, 30, 7):
                late.take(page)
            late.end()
        assert stored(store, "OrderTotals") == before


def test_tasks_of_one_process_count_the_rows_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-07: each task opens the log itself, but a process counts the rows only once."""
    url, projection, chance = f"sqlite:{tmp_path}/log.db", OrderTotals(), random.Random(3)
    counted: list[int] = []
    count = views._counted

    def counting(*arguments: Any) -> int:
        counted.append(1)
        return count(*arguments)

    monkeypatch.setattr(views, "_counted", counting)
    with tallystick.open(url) as store:
        fill(store, chance, 30)
        for number in range(4):
            batch = Batch(b"%d" % number, PlaceKeeper(store, projection, store.log.views).live(), 30)
            found = list(pages(store, projection, 0, 30, 50))
            (rows,) = filler_task(ProjectionJob(url, projection, Catalog()), batch)(iter(found))
            assert rows.column(0).to_pylist() == [3]
    assert len(counted) == 1

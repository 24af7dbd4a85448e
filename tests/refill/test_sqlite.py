"""A SQLite log that lost pages, rows or the truth of one: named, served around, refilled from a donor, or refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tallystick
from tallystick import NewEvent, Store, errors
from tallystick.cli.main import tally
from tallystick.engines.sqlite import migrations, refill
from tallystick.event import line as ndjson
from tallystick.event.model import Event
from tallystick.store import control
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing import builders, upkeep

EVENTS = 200
TIME = 1_760_000_000_000_000_000
PAGE_BYTES = 4096

Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store: three streams, an org, a source, a run with its lease, a prune, an erasure and a snapshot."""
    path = tmp_path_factory.mktemp("whole") / "log.db"
    with tallystick.open(f"sqlite:{path}") as store:
        store.submit([Request([Part(*_event(number))]) for number in range(EVENTS)])
        upkeep.prune(store, "order/2", 3)
        upkeep.erase(store, "order/1", 20)
        upkeep.snapshot(store, "order/0", b'{"sum":1}')
    return path


def _event(number: int) -> tuple[str, list[NewEvent]]:
    meta = {"source": "s", "source_seq": number + 1} if number % 3 else {"org": "acme"}
    stream = f"order/{number % 3}" if number % 10 else "run/one"
    return stream, [NewEvent("thing.happened", {"number": number, "text": "x" * 300}, meta=meta)]


@pytest.fixture
def log(whole: Path, tmp_path: Path) -> Path:
    """That store, for one test."""
    path = tmp_path / "log.db"
    path.write_bytes(whole.read_bytes())
    return path


@pytest.fixture
def copy(log: Path) -> Path:
    """A copy of the store, made while it was whole."""
    path = log.with_name("copy.db")
    path.write_bytes(log.read_bytes())
    return path


@pytest.fixture
def export(log: Path) -> Path:
    """An export of the store."""
    path = log.with_name("export.ndjson")
    with tallystick.open(f"sqlite:{log}", readonly=True) as store:
        path.write_bytes(ndjson.lines(store.log.read(limit=1000, over_pruned=True).events))
    return path


def content(path: Path) -> list[Event]:
    """Everything that the store holds but the facts about repairs; it must verify."""
    with tallystick.open(f"sqlite:{path}", readonly=True) as store:
        assert verify(store.log).problems == []
        return [event for event in store.events(over_pruned=True) if event.stream != control.REPAIRS_STREAM]


def beside(path: Path) -> dict[str, list[Any]]:
    """The rows of every table but those that a repair adds to."""
    with closing(sqlite3.connect(path)) as raw:
        names = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        kept = [name for name in names if name not in ("events", "writers", "sqlite_sequence")]
        rows = {name: raw.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall() for name in kept}
    rows["streams"] = [row for row in rows["streams"] if row[0] != control.REPAIRS_STREAM]
    return rows


def leaves(path: Path, name: str) -> list[int]:
    """The leaf pages of a table or index that has more than one."""
    with closing(sqlite3.connect(path)) as raw:
        (root,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    page = path.read_bytes()[(root - 1) * PAGE_BYTES : root * PAGE_BYTES]
    pointers = [int.from_bytes(page[12 + 2 * cell : 14 + 2 * cell], "big") for cell in range(page[3] * 256 + page[4])]
    return [int.from_bytes(page[pointer : pointer + 4], "big") for pointer in pointers]


def overwritten(path: Path, page: int, content: bytes = bytes(PAGE_BYTES)) -> None:
    """Another page in the place of one."""
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(content)


def changed(path: Path, statement: str) -> None:
    """What another program does that has dropped the triggers."""
    with closing(sqlite3.connect(path)) as raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        raw.execute(statement)
        raw.commit()


def zeroed_page(path: Path) -> None:
    """A page of the table of events is zeroes."""
    overwritten(path, leaves(path, "events")[4])


def swapped_page(path: Path) -> None:
    """A page of the table of events holds what another one holds."""
    pages = leaves(path, "events")
    other = path.read_bytes()[(pages[8] - 1) * PAGE_BYTES : pages[8] * PAGE_BYTES]
    overwritten(path, pages[3], other)


def damaged_index(path: Path) -> None:
    """A page of the index of ids is zeroes: every event is there, and nothing can be looked up."""
    overwritten(path, leaves(path, "sqlite_autoindex_events_2")[0])


def deleted_rows(path: Path) -> None:
    """Rows in the middle are gone."""
    changed(path, "DELETE FROM events WHERE position BETWEEN 50 AND 57")


def deleted_end(path: Path) -> None:
    """The newest rows are gone."""
    changed(path, "DELETE FROM events WHERE position > 190")


def changed_payload(path: Path) -> None:
    """A payload is another one."""
    changed(path, "UPDATE events SET payload = x'7b7d' WHERE position = 77")


def changed_type(path: Path) -> None:
    """An event is of another type; its payload has its checksum."""
    changed(path, "UPDATE events SET type = 'thing.undone' WHERE position = 78")


def changed_link(path: Path) -> None:
    """The link of an event is another one."""
    changed(path, "UPDATE events SET link = checksum WHERE position = 81")


def pretended_erasure(path: Path) -> None:
    """A payload is gone, and nothing says that it was erased."""
    changed(path, "UPDATE events SET payload = NULL WHERE position = 83")


DAMAGES: dict[str, Damage] = {
    damage.__name__: damage
    for damage in (
        zeroed_page,
        swapped_page,
        damaged_index,
        deleted_rows,
        deleted_end,
        changed_payload,
        changed_type,
        changed_link,
        pretended_erasure,
    )
}


@pytest.fixture(params=DAMAGES)
def damage(request: pytest.FixtureRequest) -> Damage:
    """Every kind of damage, one after the other."""
    return DAMAGES[request.param]


@pytest.fixture
def opened() -> Iterator[Callable[..., Store]]:
    """Open stores that are closed at the end."""
    found: list[Store] = []

    def open_(path: Path, **options: Any) -> Store:
        found.append(tallystick.open(f"sqlite:{path}", **options))
        return found[-1]

    yield open_
    for store in found:
        store.close()


@pytest.mark.parametrize("kind", ["copy", "export"])
def test_what_is_damaged_is_named_and_refilled(
    damage: Damage, kind: str, log: Path, request: pytest.FixtureRequest
) -> None:
    """LH-16, settled 15: verify names it; from a copy or an export the same rows come back, and it is writable."""
    donor: Path = request.getfixturevalue(kind)
    before, rows = content(log), beside(log)
    damage(log)
    image = log.read_bytes()
    with tallystick.open(f"sqlite:{log}", readonly=True) as store:
        assert verify(store.log).problems
    refilled = tallystick.refill(f"sqlite:{log}", f"sqlite:{donor}" if kind == "copy" else str(donor))
    assert refilled.made == ("log.db",)
    assert content(log) == before
    assert beside(log) == rows
    with tallystick.open(f"sqlite:{log}") as store:
        (fact,) = store.read_stream(control.REPAIRS_STREAM)
        assert (fact.type, fact.data["source"]) == (control.REPAIRED, refilled.source)
        store.append("order/0", NewEvent("thing.happened", {}, meta={"source": "s"}))
        with pytest.raises(errors.OrgMismatch):
            store.append("order/0", NewEvent("thing.happened", {}, meta={"org": "other"}))
    (kept,) = log.parent.glob("log.db.damaged-*")
    assert kept.read_bytes()[100:] == image[100:]  # the header counts changes
    assert kept.stat().st_mode & 0o077 == 0
    assert not list(log.parent.glob("log.db.refilling*"))


@pytest.mark.parametrize(
    ("damaged", "lost"),
    [("zeroed_page", None), ("deleted_rows", 55), ("changed_payload", 77), ("changed_type", 78), ("deleted_end", 195)],
)
def test_a_donor_that_lacks_one_event_is_refused(damaged: str, lost: int | None, log: Path, export: Path) -> None:
    """Settled 15: a donor must hold exactly the range; without one event nothing is done, and it says why."""
    DAMAGES[damaged](log)
    if lost is None:
        with tallystick.open(f"sqlite:{log}", readonly=True) as store:
            with pytest.raises(errors.Damaged):
                list(store.events(over_pruned=True))
            lost = store.holes()[0].last
    lines = export.read_bytes().splitlines(keepends=True)
    export.write_bytes(b"".join(line for line in lines if b'"position":%d,' % lost not in line))
    image = log.read_bytes()
    said = "does not follow" if damaged == "changed_type" else f"does not hold positions {lost} to"
    with pytest.raises(errors.RefillRefused, match=said):
        tallystick.refill(f"sqlite:{log}", str(export))
    assert log.read_bytes() == image
    assert {path.name for path in log.parent.glob("log.db.*")} <= {"log.db.damage", "log.db.mark"}


def test_a_fork_is_refused(log: Path, copy: Path) -> None:
    """Settled 15: a copy that went its own way has other events at the end, which do not lead to the recorded end."""
    for path, whose in ((log, "ours"), (copy, "theirs")):
        with tallystick.open(f"sqlite:{path}") as store:
            store.append("order/0", NewEvent("thing.happened", {"whose": whose}, meta={"org": "acme"}))
            end = store.head()
    changed(log, f"DELETE FROM events WHERE position = {end}")
    with pytest.raises(errors.RefillRefused, match="order/0 would end"):
        tallystick.refill(f"sqlite:{log}", f"sqlite:{copy}")


def test_what_stands_nowhere_else_must_be_whole(log: Path, copy: Path) -> None:
    """Settled 15: a page of the pruned ids cannot be made again, so nothing is done and nothing is lost."""
    with closing(sqlite3.connect(log)) as raw:
        (root,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'pruned'").fetchone()
    overwritten(log, root)
    image = log.read_bytes()
    with pytest.raises(errors.RefillRefused, match="replace the store with a complete copy"):
        tallystick.refill(f"sqlite:{log}", f"sqlite:{copy}")
    assert log.read_bytes() == image


def test_an_open_store_is_not_refilled(log: Path, copy: Path, opened: Callable[..., Store]) -> None:
    """Settled 15: no other process may have the file open, because it is rebuilt."""
    opened(log, readonly=True).head()
    with pytest.raises(errors.RefillRefused, match="open"):
        tallystick.refill(f"sqlite:{log}", f"sqlite:{copy}")


def test_a_whole_store_is_left_alone(log: Path, copy: Path) -> None:
    """Settled 15: where nothing is damaged nothing is made."""
    image = log.read_bytes()
    assert tallystick.refill(f"sqlite:{log}", f"sqlite:{copy}").made == ()
    assert log.read_bytes() == image


def test_missing_rows_are_not_read_over(log: Path, opened: Callable[..., Store]) -> None:
    """Settled 15: deleted rows are a hole; everything around it is served, and nothing is appended."""
    deleted_rows(log)
    store = opened(log)
    with pytest.raises(errors.Damaged):
        list(store.events(over_pruned=True))
    assert [(hole.first, hole.last) for hole in store.holes()] == [(50, 57)]
    page = store.read(after=49, over_holes=True, over_pruned=True, limit=10)
    assert page.events[0].position == 58
    with pytest.raises(errors.Damaged):
        store.read_stream("order/0", limit=1000)
    with pytest.raises(errors.Damaged):
        store.append("order/0", NewEvent("thing.happened", {}))


def test_a_stream_without_its_end_is_not_served_as_whole(log: Path, opened: Callable[..., Store]) -> None:
    """Settled 15: a stream whose newest rows were deleted is damaged, and the rows before them can be read."""
    deleted_end(log)
    store = opened(log)
    with pytest.raises(errors.Damaged):
        store.read_stream("order/0", limit=1000)
    assert len(store.read_stream("order/0", limit=10)) == 10


def test_doctor_refills(log: Path, copy: Path) -> None:
    """`tally doctor` names missing rows and ends with 1; with --repair --from it refills, says so, and ends with 0."""
    deleted_rows(log)
    run = CliRunner()
    found = run.invoke(tally, ["doctor", f"sqlite:{log}"])
    assert found.exit_code == 1
    assert "positions 50 to 57" in found.output
    done = run.invoke(tally, ["doctor", f"sqlite:{log}", "--repair", "--from", f"sqlite:{copy}"])
    assert done.exit_code == 0, done.output
    assert "refilled: positions 50 to 57" in done.output


def test_every_table_is_copied_or_made_again() -> None:
    """Settled 15: a table that a migration adds must not be forgotten by a refill."""
    known = {*refill.COPIED, *refill.REBUILT} - {"sqlite_sequence"}
    assert set(migrations.expected_schema("table")) == known


def test_a_donor_that_has_the_same_streams_in_another_order_is_refused(tmp_path: Path) -> None:
    """LH-16: positions are restored as they were; a chain does not say where its events were."""
    orders = {"log": [1, 2, 3, 4, 5, 6], "other": [1, 2, 4, 3, 5, 6]}
    for name, order in orders.items():
        with tallystick.open(f"sqlite:{tmp_path / name}.db") as store:
            for number in order:
                given = NewEvent("thing.done", {"number": number}, id=builders.event_id(number), time=TIME + number)
                store.append(f"order/{number % 2}", given)
    log = tmp_path / "log.db"
    for number in (3, 4):
        log.write_bytes(log.read_bytes().replace(b'{"number":%d}' % number, b'{"number":9}'))
    damaged = log.read_bytes()
    with pytest.raises(errors.RefillRefused, match="at position 3 was at position 4 here"):
        tallystick.refill(f"sqlite:{log}", f"sqlite:{tmp_path / 'other'}.db")
    assert log.read_bytes() == damaged

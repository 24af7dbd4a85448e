"""The index of tags: it finds what the model finds, scans nothing for it, and is not believed when it is wrong."""

from __future__ import annotations

import random
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import chain, islice
from pathlib import Path

import pytest

import tallystick
from tallystick import NewEvent, Query, Selection, Store, errors, match
from tallystick.engines.sqlite import matches, queries
from tallystick.store.query import Condition
from tallystick.store.verify import verify
from tallystick.testing import upkeep

TAGS = [f"{name}:{number}" for name, count in (("all", 1), ("half", 2), ("rare", 40)) for number in range(count)]
TYPES = ("a.x", "a.y", "b.z")
ORGS = (None, "acme", "bolt")


def _random_event(chosen: random.Random, org: str | None) -> NewEvent:
    given = ["all:0", f"half:{chosen.randrange(2)}", f"rare:{chosen.randrange(40)}"][: chosen.randrange(4)]
    return NewEvent(chosen.choice(TYPES), {}, meta={"org": org} if org else None, tags=given, time=chosen.randrange(9))


def _random_query(chosen: random.Random) -> Query:
    items = [
        match(
            types=chosen.sample([*TYPES, "c.none"], chosen.choice((0, 0, 1, 2))),
            tags=chosen.sample([*TAGS[:6], "no:such"], chosen.choice((0, 1, 1, 2, 3))),
        )
        for _ in range(chosen.choice((1, 1, 2, 4)))
    ]
    whole = items[0]
    for item in items[1:]:
        whole |= item
    return whole


def _fill(store: Store, chosen: random.Random) -> None:
    for _ in range(12):
        for number, org in enumerate(ORGS):
            store.append(f"order/{number}", [_random_event(chosen, org) for _ in range(chosen.randrange(1, 9))])
    for number in range(2):
        upkeep.prune(store, f"order/{number}", chosen.randrange(1, 20))


@pytest.mark.parametrize("seed", range(6))
def test_it_finds_what_the_model_finds(store: Store, seed: int) -> None:
    """TAG-01, TAG-02: any query with any other condition, page by page and within bounds; pruned events count."""
    chosen = random.Random(seed)
    with tallystick.open("memory:") as model:
        _fill(store, random.Random(seed))
        _fill(model, random.Random(seed))
        for _ in range(150):
            query, org, after = _random_query(chosen), chosen.choice(ORGS), chosen.choice((0, 0, chosen.randrange(150)))
            condition = Condition(query, after, org=org)
            for limit in (1, 3, 1000):
                asked = [log.matches(condition, limit=limit) for log in (store.log, model.log)]  # type: ignore[attr-defined]
                assert asked[0] == asked[1], query
            selection = Selection(
                query=query,
                org=org,
                types=frozenset(chosen.choice(((), (), TYPES[:1], TYPES[:2]))),
                time_from=chosen.choice((None, None, 4)),
                streams=frozenset(chosen.choice(((), (), ("order/1",), ("order/1", "order/2")))),
            )
            until, limit = chosen.choice((None, chosen.randrange(200))), chosen.choice((1, 2, 7, 1000))
            for _ in range(3):
                pages = [
                    each.read(after=after, until=until, selection=selection, limit=limit, over_pruned=True)
                    for each in (store, model)
                ]
                places = [([event.position for event in page.events], page.through) for page in pages]
                assert places[0] == places[1], selection
                after = pages[0].through


def _steps(store: Store, run: Callable[[sqlite3.Connection], object]) -> int:
    """How many instructions of SQLite's machine it takes, in hundreds."""
    counted = [0]

    def count() -> None:
        counted[0] += 1

    with store.log._database.snapshot() as connection:  # type: ignore[attr-defined]
        connection.set_progress_handler(count, 100)
        try:
            run(connection)
        finally:
            connection.set_progress_handler(None, 0)
    return counted[0]


@pytest.fixture
def large(store: Store) -> Store:
    """20,000 events with a tag that all have. Of 102 more, one has a rare tag, one a rare type, and 100 a warm tag."""
    for start in range(0, 20_000, 2000):
        store.append("order/a", [NewEvent("thing.done", {}, tags=["hot:1", "hot:2"])] * 2000)
        if start == 10_000:
            store.append("order/b", NewEvent("thing.done", {}, tags=["hot:1", "rare:1"]))
            store.append("order/b", NewEvent("thing.else", {}, tags=["hot:1"]))
            store.append("order/b", [NewEvent("thing.done", {}, tags=["hot:1", "warm:1"])] * 100)
    return store


FEW_STEPS = 120  # a walk over 20,000 rows takes more than 1,000
RARE = {
    "a rare tag": match(tags=["rare:1"]),
    "with a hot one": match(tags=["hot:1", "hot:2", "rare:1"]),
    "with its type": match(types=["thing.done", "thing.lost"], tags=["hot:1", "rare:1"]),
    "a rare type of a hot tag": match(types=["thing.else"], tags=["hot:1"]),
    "a type that is not there": match(types=["thing.lost"], tags=["hot:1"]) | match(types=["thing.lost"]),
    "a warm tag, never with a hot one": match(tags=["hot:2", "warm:1"]),
    "several": match(tags=["rare:1"]) | match(types=["thing.else"]) | match(tags=["no:such", "hot:1"]),
}


@pytest.mark.parametrize("name", RARE)
def test_nothing_is_scanned_for_what_is_rare(large: Store, name: str) -> None:
    """TAG-01, TAG-02: a page and a condition take as long as what they find."""
    selection = Selection(query=RARE[name])
    page = lambda connection: queries.page(connection, selection, first=1, until=large.head(), limit=1000)  # noqa: E731
    assert _steps(large, page) < FEW_STEPS
    condition = Condition(RARE[name])
    assert _steps(large, lambda found: matches.positions(found, condition, limit=1, pruned=True)) < FEW_STEPS


def test_a_page_of_what_is_common_ends_at_its_limit(large: Store) -> None:
    """TAG-01: the first page of 20,000 matching events reads 10 of them."""
    for query in (match(tags=["hot:1"]), match(types=["thing.done"]), match(tags=["hot:1"]) | match(types=["a.b"])):
        selection = Selection(query=query)
        page = lambda connection: queries.page(connection, selection, first=1, until=20_000, limit=10)  # noqa: B023, E731
        assert _steps(large, page) < FEW_STEPS
    newest = Condition(match(tags=["hot:1", "hot:2"]) | match(types=["thing.done"]) | match(), large.head() - 5)
    assert _steps(large, lambda found: matches.positions(found, newest, limit=9, pruned=True)) < FEW_STEPS


@pytest.fixture
def loosely(path: str) -> Callable[..., None]:
    """Run statements on the file of the store without the triggers, which are restored."""

    def run(*statements: str) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as raw:
            triggers = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                raw.execute(f"DROP TRIGGER {name}")
            for statement in chain(statements, (sql for _, sql in triggers)):
                raw.execute(statement)

    return run


@pytest.mark.security
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO event_tags VALUES ('a:2', 'thing.done', 1, NULL)",
        "UPDATE event_tags SET tag = 'a:2' WHERE position = 2 AND tag = 'a:1'",
        "UPDATE event_tags SET org = 'evil' WHERE tag = 'a:2'",
        "DELETE FROM events WHERE position = 3",
    ],
    ids=["an extra posting", "another tag", "another org", "an event taken away"],
)
def test_what_the_index_says_is_compared_with_the_events(
    store: Store, loosely: Callable[..., None], statement: str
) -> None:
    """SAFE-01, TAG-01: no event is served, and none left out, because the index names a wrong one."""
    for tag in ("a:1", "a:1", "a:2"):
        store.append("order/a", NewEvent("thing.done", {}, tags=[tag]))
    loosely(statement)
    query, org = match(tags=["a:2"]), "evil" if "evil" in statement else None
    ways = (
        lambda: store.consult(query, org=org),
        lambda: list(store.events(selection=Selection(query=query, org=org))),
    )
    for ask in ways:
        with pytest.raises(errors.Damaged):
            ask()
    with pytest.raises(errors.Damaged):
        store.append("order/a", NewEvent("thing.done", {}))
    assert not verify(store.log).ok


@pytest.mark.security
def test_a_posting_that_a_killed_writer_lost_is_found_at_opening(
    path: str, reopen: Callable[..., Store], spawn: Callable[..., object], loosely: Callable[..., None]
) -> None:
    """SAFE-01, TAG-02: the tags of the newest events are compared, like their checksums and links."""
    _leave_uncleanly(path, spawn)
    loosely("DELETE FROM event_tags WHERE tag = 'n:3'")
    store = reopen()
    with pytest.raises(errors.Damaged, match="lacks a tag"):
        store.append("order/a", NewEvent("thing.done", {}))


_DIE = """
import sys, tallystick
store = tallystick.open("sqlite:" + sys.argv[1])
for n in range(5):
    store.append("order/b", tallystick.NewEvent("thing.done", {}, tags=["a:1", f"n:{n}"]))
print("ready", flush=True)
sys.stdin.readline()
"""


def _leave_uncleanly(path: str, spawn: Callable[..., object]) -> None:
    child = spawn(_DIE, path)
    assert child.stdout.readline() == "ready\n"  # type: ignore[attr-defined]
    child.send_signal(signal.SIGKILL)  # type: ignore[attr-defined]
    child.wait()  # type: ignore[attr-defined]


def test_a_killed_writer_leaves_a_whole_index(
    path: str, reopen: Callable[..., Store], spawn: Callable[..., object]
) -> None:
    """TAG-02: events and postings are in one transaction."""
    _leave_uncleanly(path, spawn)
    store = reopen()
    assert verify(store.log).problems == []
    assert len(store.consult(match(tags=["a:1"])).events) == 5
    with pytest.raises(errors.ConditionFailed):
        store.append("order/a", NewEvent("thing.done", {}), unless=match(tags=["n:4"]))


def _damage_index(path: str) -> None:
    """Overwrite a page in the middle of the index with zeros."""
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (root,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'event_tags'").fetchone()
    content = Path(path).read_bytes()
    page = content[(root - 1) * 4096 : root * 4096]
    child = int.from_bytes(page[12:14], "big")
    leaf = int.from_bytes(page[child : child + 4], "big")
    with open(path, "r+b") as file:
        file.seek((leaf - 1) * 4096)
        file.write(bytes(4096))


@pytest.fixture
def damaged(path: str, reopen: Callable[..., Store], tmp_path: Path) -> str:
    """A store whose index of tags has a page of zeros, and the path of a copy from before."""
    store = reopen()
    for start in range(0, 1500, 500):
        store.append("order/a", [NewEvent("thing.done", {"n": n}, tags=[f"n:{n}"]) for n in range(start, start + 500)])
    store.append("account/1", [NewEvent("account.opened", {}, tags=["name:ada"]), NewEvent("account.used", {})])
    upkeep.prune(store, "account/1", 1)
    store.close()
    copy = tmp_path / "copy.db"
    copy.write_bytes(Path(path).read_bytes())
    _damage_index(path)
    return str(copy)


def test_a_damaged_page_of_the_index_is_an_error(damaged: str, reopen: Callable[..., Store]) -> None:
    """SAFE-01, SAFE-02: no condition passes over it, and the events are served by other ways to read."""
    store = reopen()
    refused = 0
    for number in islice(range(1500), 0, None, 50):
        try:
            assert len(store.consult(match(tags=[f"n:{number}"])).events) == 1
        except errors.Damaged:
            refused += 1
    assert refused
    assert len(store.read_stream("order/a")) == 1500
    assert len(list(store.events(over_pruned=True))) == store.head() - 1
    for number in range(1500):
        with pytest.raises((errors.Damaged, errors.ConditionFailed)):
            store.append("order/b", NewEvent("thing.done", {}), unless=match(tags=[f"n:{number}"]))


def test_a_refill_builds_the_index_again(damaged: str, path: str, reopen: Callable[..., Store]) -> None:
    """SAFE-02, TAG-03: from the events, and from what the prune kept."""
    tallystick.refill(f"sqlite:{path}", f"sqlite:{damaged}")
    store = reopen()
    assert verify(store.log).problems == []
    assert [len(store.consult(match(tags=[f"n:{number}"])).events) for number in (0, 700, 1499)] == [1, 1, 1]
    with pytest.raises(errors.ConditionFailed):
        store.append("account/2", NewEvent("account.opened", {}), unless=match(tags=["name:ada"]))

"""Rows and dead letters that a search in a damaged table does not find."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

import tallystick
from tallystick import Store, errors
from tallystick.projections import Live, ViewReader
from tallystick.store.deadletters import DeadLetter
from tallystick.store.side_check import side_problems
from tallystick.testing.builders import events
from tallystick.testing.contract.tampered import EventCount

STREAMS = [f"run/{name}" for name in "abcdefgh"]
LETTERS = 8
PLACES: dict[str, str] = {"sqlite": "log", "files": "log/beside.db"}


def _made(engine: str, place: Path) -> Path:
    """A closed store with rows and letters; returns the database that they are in."""
    with tallystick.open(f"{engine}:{place}/log") as store:
        for stream in STREAMS:
            store.append(stream, events(2))
        Live(store, EventCount()).catch_up()
        for position in range(1, LETTERS + 1):
            store.log.dead_letters.park(DeadLetter("mailer", position, "run/a", 1, "thing.happened", 1, 1, "why"))
    return place / PLACES[engine]


def _flipped(database: Path, name: bytes) -> Iterator[Callable[[], None]]:
    """Every place in the file that has the name, with one bit of it flipped."""
    whole = database.read_bytes()
    at = whole.find(name)
    while at >= 0:
        changed = bytearray(whole)
        changed[at + 3] ^= 0x10
        yield lambda changed=changed: database.write_bytes(changed)  # type: ignore[misc]
        at = whole.find(name, at + 1)


@pytest.mark.parametrize("engine", PLACES)
def test_a_search_that_is_led_astray_is_noticed(tmp_path: Path, engine: str) -> None:
    """SAFE-01: a flipped bit in the name of one row hides others from a search. None of them is missing silently."""
    database = _made(engine, tmp_path)
    wanted, damages = {key: {"n": 2} for key in STREAMS}, list(_flipped(database, b"EventCount"))
    assert len(damages) > len(STREAMS)
    for damage in damages:
        damage()
        with suppress(errors.TallyError), tallystick.open(f"{engine}:{tmp_path}/log", readonly=True) as store:
            view = ViewReader(store, "EventCount")
            for stream in STREAMS:
                with suppress(errors.RowsDamaged, errors.ProjectionNotFound, errors.ReadFailed):
                    assert view.get(stream) == {"n": 2}
            with suppress(errors.RowsDamaged, errors.ProjectionNotFound, errors.ReadFailed):
                assert dict(view.items()) == wanted


@pytest.mark.parametrize("engine", PLACES)
def test_dead_letters_that_a_search_does_not_find_are_noticed(tmp_path: Path, engine: str) -> None:
    """SAFE-01: a flipped bit in the key of one letter hides no other one. Letters have no checksum."""
    database = _made(engine, tmp_path)
    for damage in _flipped(database, b"mailer"):
        damage()
        with suppress(errors.TallyError), tallystick.open(f"{engine}:{tmp_path}/log", readonly=True) as store:
            letters, missing = store.log.dead_letters, 0
            for position in range(1, LETTERS + 1):
                with suppress(errors.DeadLettersDamaged, errors.ReadFailed):
                    missing += letters.load("mailer", position) is None
            assert missing <= 1
            with suppress(errors.DeadLettersDamaged, errors.ReadFailed):
                assert len(letters.letters(limit=100)) == LETTERS


def _count(store: Store) -> tuple[dict[str, object], int]:
    return dict(ViewReader(store, "EventCount").items()), len(store.log.dead_letters.letters(limit=100))


@pytest.mark.parametrize("engine", PLACES)
def test_rows_and_letters_of_a_database_without_a_number_are_counted(tmp_path: Path, engine: str) -> None:
    """EVT-10: rows are counted when a side database gets its number. A row that vanishes later is noticed."""
    database = _made(engine, tmp_path)
    with closing(sqlite3.connect(database, isolation_level=None)) as raw:
        if engine != "sqlite":
            raw.execute("PRAGMA user_version = 0")
    with tallystick.open(f"{engine}:{tmp_path}/log") as store:
        assert _count(store) == ({key: {"n": 2} for key in STREAMS}, LETTERS)
        assert side_problems(store.log) == []
    with closing(sqlite3.connect(database, isolation_level=None)) as raw:
        raw.execute("DELETE FROM view_rows WHERE key = 'run/c'")
        raw.execute("DELETE FROM dead_letters WHERE position = 3")
    with tallystick.open(f"{engine}:{tmp_path}/log") as store:
        assert [problem.what for problem in side_problems(store.log)] == ["rows", "dead letters"]


def test_a_row_that_only_lost_its_state_is_missed(tmp_path: Path) -> None:
    """SAFE-01: a listing leaves out rows that were dropped, and nothing else."""
    database = _made("sqlite", tmp_path)
    with closing(sqlite3.connect(database, isolation_level=None)) as raw:
        raw.execute("UPDATE view_rows SET state = NULL WHERE key = 'run/c'")
    with tallystick.open(f"sqlite:{tmp_path}/log") as store, pytest.raises(errors.RowsDamaged):
        dict(ViewReader(store, "EventCount").items())

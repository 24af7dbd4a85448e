"""With a donor named, opening finds everything that is damaged and heals it; the service and the command offer that."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tallystick
from tallystick import Store, errors
from tallystick.cli.main import tally
from tallystick.engines.disk import Disk
from tallystick.engines.files.compressed import CompressedFile, open_segment
from tallystick.server.service import open_service
from tallystick.server.settings import Settings
from tallystick.store import control
from tallystick.store.verify import verify
from tests.torture import damage as torture
from tests.torture import sample

SEED, CASES, PARTS = 31, 120, 4


def events_of(store: Store) -> list[Any]:
    """Everything but the facts about repairs."""
    return [event for event in store.events(over_pruned=True) if event.stream != control.REPAIRS_STREAM]


def test_opening_heals_every_damage_of_the_lab(
    lab: Any, damage: Callable[[Path], None], log: Path, request: pytest.FixtureRequest
) -> None:
    """LH-16, settled 15: also damage that opening does not notice; all events are there again."""
    copy: Path = request.getfixturevalue("copy")
    before = lab.content(log)
    damage(log)
    with tallystick.open(f"files:{log}", refill_from=f"files:{copy}") as store:
        assert verify(store.log).problems == []
        assert events_of(store) == before
        store.append("order/0", tallystick.NewEvent("thing.happened", {}))


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed file log and a killed one, with everything that a store can hold."""
    place = tmp_path_factory.mktemp("samples")
    for end in sample.ENDS:
        sample.made("files", end, place / end)
    return place


@pytest.mark.parametrize("part", range(PARTS))
def test_opening_heals_random_damages(samples: Path, tmp_path: Path, part: int) -> None:
    """LH-16, LH-19: after a random damage to any file verify finds nothing, and the donor's events are there."""
    for number in range(part, CASES, PARTS):
        end, place = sample.ENDS[number % 2], tmp_path / str(number)
        donor, log = (Path(shutil.copytree(samples / end, place / name)) for name in ("donor", "log"))
        with sample.opened("files", donor) as store:
            before = events_of(store)
        what = torture.damaged(log, random.Random(f"{SEED}/{number}"))
        with tallystick.open(f"files:{log}/log", refill_from=f"files:{donor}/log") as store:
            assert verify(store.log).problems == [], what
            assert events_of(store) == before, what
        shutil.rmtree(place)


@pytest.mark.parametrize("from_end", [1, 8, 20])
def test_a_damaged_table_of_compressed_members_is_written_again(samples: Path, tmp_path: Path, from_end: int) -> None:
    """LH-16: every event can still be read without the table, but verification names it until it is written again."""
    log = Path(shutil.copytree(samples / "killed" / "log", tmp_path / "log"))
    path = next(each for each in sorted(log.glob("*_*.log")) if is_compressed(each))
    content = bytearray(path.read_bytes())
    content[-from_end] ^= 1
    path.write_bytes(content)
    with tallystick.open(f"files:{log}", readonly=True) as store:
        assert any("table of compressed members" in problem.reason for problem in verify(store.log).problems)
    with tallystick.open(f"files:{log}", refill_from=f"files:{samples / 'killed' / 'log'}") as store:
        assert verify(store.log).problems == []


def is_compressed(path: Path) -> bool:
    """Whether a segment has its frames in gzip members."""
    _, file = open_segment(Disk(), str(path))
    file.close()
    return isinstance(file, CompressedFile)


@pytest.mark.parametrize("engine", sample.ENGINES)
def test_the_body_of_a_snapshot_is_put_back(tmp_path: Path, engine: str) -> None:
    """LH-16: a snapshot that a prune needs is nowhere else; a copy has it, and its fact says what it must be."""
    sample.made(engine, "closed", tmp_path / "log")
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    url, copy = (sample.url_of(engine, tmp_path / name) for name in ("log", "copy"))
    with tallystick.open(url, readonly=True) as store:
        bodies = {id_: store.log.snapshots.load(id_) for id_ in store.log.snapshots.ids()}
    assert bodies
    spoil_snapshots(engine, tmp_path / "log")
    refilled = tallystick.refill(url, copy)
    assert len(refilled.made) >= len(bodies)
    with tallystick.open(url) as store:
        assert {id_: store.log.snapshots.load(id_) for id_ in store.log.snapshots.ids()} == bodies
        assert verify(store.log).problems == []


def spoil_snapshots(engine: str, place: Path) -> None:
    """Change a byte of every body."""
    if engine == "files":
        for path in (place / "log" / "snapshots").iterdir():
            path.write_bytes(path.read_bytes()[:-9] + bytes(9))
        return
    with closing(sqlite3.connect(place / "log.db")) as raw:
        statement = "SELECT sql FROM sqlite_master WHERE name = 'snapshots_are_not_changed'"
        (trigger,) = raw.execute(statement).fetchone()
        raw.execute("DROP TRIGGER snapshots_are_not_changed")
        raw.execute("UPDATE snapshots SET state_payload = zeroblob(body_bytes)")
        raw.execute(trigger)
        raw.commit()


def test_opening_refuses_another_history(lab: Any, log: Path, tmp_path: Path) -> None:
    """Settled 15: what opening by itself would not have noticed is not filled from somewhere else either."""
    with tallystick.open(f"files:{tmp_path}/other") as other:
        for number in range(lab.events):
            other.append("order/0", tallystick.NewEvent("thing.happened", {"number": number}))
    lab.damages["hole_in_the_middle"](log)
    with pytest.raises(errors.RefillRefused, match="does not follow"):
        tallystick.open(f"files:{log}", refill_from=f"files:{tmp_path}/other")


@pytest.mark.parametrize("how", ["option", "variable"])
def test_doctor_takes_the_donor_by_option_and_variable(
    lab: Any, how: str, log: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LH-16: one name for it everywhere; without --repair the variable changes nothing."""
    copy: Path = request.getfixturevalue("copy")
    lab.damages["hole_in_the_middle"](log)
    run, given = CliRunner(), ["--refill-from", f"files:{copy}"]
    if how == "variable":
        monkeypatch.setenv("TALLY_REFILL_FROM", given.pop())
        given.clear()
        assert run.invoke(tally, ["doctor", f"files:{log}"]).exit_code == 1
    done = run.invoke(tally, ["doctor", f"files:{log}", "--repair", *given])
    assert done.exit_code == 0, done.output
    assert "refilled: positions" in done.output


@pytest.mark.parametrize("is_good", [True, False])
def test_a_service_heals_its_store_at_the_start(
    lab: Any, log: Path, is_good: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """LH-16, settled 15: without an operator; with a donor that does not fit it serves what is left, and says why."""
    copy: Path = request.getfixturevalue("copy")
    lab.damages["hole_in_the_middle"](log)
    donor = f"files:{copy}" if is_good else f"files:{tmp_path}/nothing"
    service = open_service(Settings(url=f"files:{log}", refill_from=donor))
    with service.store as store:
        assert bool(service.not_refilled) is not is_good
        if is_good:
            assert verify(store.log).problems == []
        else:
            assert "nothing" in service.not_refilled
            with pytest.raises(errors.Damaged):
                store.append("order/0", tallystick.NewEvent("thing.happened", {}))

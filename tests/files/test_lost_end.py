"""The end of a log that is gone: whatever else knows of a higher head is evidence, and no position is used again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import errors, state
from tallystick.engines.files.directory import accept_loss_files
from tallystick.projections import Live
from tallystick.store.verify import verify
from tallystick.testing.builders import events
from tallystick.testing.shop import PLACED, CustomerBalance, order_event

pytestmark = pytest.mark.security


class Count:
    """A reducer that counts."""

    name, version, step_types = "count", 1, ("order.placed",)

    def initial(self) -> Any:
        return 0

    def apply(self, value: Any, event: Any) -> Any:
        return value + 1


COUNT = state.as_reducer(Count)


def filled(store: tallystick.Store) -> None:
    """Forty events in several segments."""
    for number in range(40):
        store.append("order/1", order_event(PLACED, customer="c", amount=number))


def refused(directory: Path, head: int) -> None:
    """Reading to the end, verifying and appending are refused by name, by a reader and by every writer."""
    for readonly in (True, False, False, True):
        with tallystick.open(f"files:{directory}", readonly=readonly) as store:
            assert store.head() == head
            assert [hole.last for hole in store.holes()] == [head]
            with pytest.raises(errors.Damaged):
                list(store.events())
            found = verify(store.log)
            assert not found.ok
            with pytest.raises(errors.TallyError):
                store.append("order/1", events(1))
            assert store.head() == head


@pytest.mark.parametrize("left", ["index", "snapshots", "beside.db", "quarantine", "damage.json"])
def test_what_is_left_of_a_log_is_not_taken_for_a_new_store(
    opened: Any, directory: Path, tmp_path: Path, left: str
) -> None:
    """SAFE-04: a directory without its segments and its mark is refused by name, and nothing is made in it."""
    with opened(segment_bytes_max=3000) as store:
        filled(store)
        store.save_checkpoint("mailer", 40)
        state.make(store, COUNT, "order/1")
    (directory / "quarantine" / "current.log.1.1").write_bytes(b"torn")
    (directory / "damage.json").write_bytes(b"{}")
    bare = tmp_path / "bare"
    bare.mkdir()
    for each in ("index", "snapshots", "quarantine"):
        (bare / each).mkdir()
    copy = shutil.copytree if (directory / left).is_dir() else shutil.copy
    copy(directory / left, bare / left, **({"dirs_exist_ok": True} if copy is shutil.copytree else {}))
    for readonly in (True, False):
        with pytest.raises(errors.Damaged, match="no segment"):
            tallystick.open(f"files:{bare}", readonly=readonly)
    assert not list(bare.glob("*.log"))
    assert not (bare / "synced").exists()


def test_empty_folders_are_no_evidence(directory: Path, opened: Any) -> None:
    """A crash before the first segment leaves folders: the store is made then."""
    for each in ("index", "snapshots", "quarantine"):
        (directory / each).mkdir(parents=True)
    (directory / "lock").touch()
    assert opened().append("order/1", events(1)).position == 1


@pytest.mark.parametrize("sealed_too", [False, True], ids=["current.log", "and the last sealed segment"])
def test_an_index_that_outlives_its_segment_is_evidence(opened: Any, directory: Path, sealed_too: bool) -> None:
    """SAFE-04: current.log and the mark are gone: the indexes know how far the log reached."""
    with opened(segment_bytes_max=3000) as store:
        filled(store)
    remove_end(directory, sealed_too=sealed_too)
    refused(directory, 40)


def remove_end(directory: Path, *, sealed_too: bool, indexes: bool = False) -> None:
    """Take the newest segments and the mark away, and the indexes of these segments if asked to."""
    gone = ["current"] + ([sorted(directory.glob("2*.log"))[-1].stem] if sealed_too else [])
    for name in gone:
        (directory / f"{name}.log").unlink()
        if indexes:
            (directory / "index" / f"{name}.idx").unlink(missing_ok=True)
    (directory / "synced").unlink()


UNKNOWN = {
    "current.log": lambda directory: remove_end(directory, sealed_too=False, indexes=True),
    "and the last sealed segment": lambda directory: remove_end(directory, sealed_too=True, indexes=True),
    "its header": lambda directory: spoilt(directory, ("synced", "current.log")),
    "and every index": lambda directory: spoilt(directory, ("synced", "current.log", "index/*")),
}


def spoilt(directory: Path, names: tuple[str, ...]) -> None:
    """Fill files with zeros."""
    for path in [path for name in names for path in directory.glob(name)]:
        path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize("lost", UNKNOWN)
def test_an_end_that_nothing_knows_of_is_refused(opened: Any, directory: Path, lost: str) -> None:
    """SAFE-04: without current.log and the mark, the log is not taken to end where the rest of it does."""
    with opened(segment_bytes_max=3000) as store:
        filled(store)
    UNKNOWN[lost](directory)
    for readonly in (True, False, False):
        with tallystick.open(f"files:{directory}", readonly=readonly) as store:
            (hole,) = store.holes()
            assert 1 < hole.first <= hole.last <= 40
            assert len(store.read(limit=100).events) == hole.first - 1
            for ask in (
                lambda: list(store.events()),
                lambda: store.read(after=hole.last),  # noqa: B023
                lambda: store.stream_head("order/1"),
                lambda: store.append("order/1", events(1)),
            ):
                with pytest.raises(errors.TallyError):
                    ask()
            assert not verify(store.log).ok


@pytest.mark.parametrize("lost", [name for name in UNKNOWN if name != "its header"])
def test_an_end_that_nothing_knows_of_is_not_refilled(opened: Any, directory: Path, tmp_path: Path, lost: str) -> None:
    """SAFE-04: it is not known whether a copy has everything, so it is put in place as a whole, or not at all."""
    with opened(segment_bytes_max=3000) as store:
        filled(store)
    shutil.copytree(directory, tmp_path / "copy")
    UNKNOWN[lost](directory)
    with pytest.raises(errors.RefillRefused, match="where the log ended"):
        tallystick.refill(f"files:{directory}", f"files:{tmp_path}/copy")
    with pytest.raises(errors.AcceptRefused, match="where the log ended"):
        accept_loss_files(str(directory), clock=lambda: 1, dry_run=False)


EVIDENCE: dict[str, Callable[[tallystick.Store], object]] = {
    "a checkpoint": lambda store: store.save_checkpoint("mailer", 40),
    "a projection": lambda store: Live(store, CustomerBalance()).catch_up(),
    "a snapshot": lambda store: state.make(store, COUNT, "order/1"),
}


@pytest.mark.parametrize("what", EVIDENCE)
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_what_stands_beside_the_log_is_evidence(
    opened: Any, directory: Path, tmp_path: Path, what: str, closed: bool
) -> None:
    """SAFE-04: with the indexes gone too, a checkpoint, rows or a snapshot that is further than the log say so."""
    store = opened(segment_bytes_max=3000)
    filled(store)
    EVIDENCE[what](store)
    if closed:
        store.close()
    copy = Path(shutil.copytree(directory, tmp_path / "copy"))
    remove_end(copy, sealed_too=True, indexes=True)
    refused(copy, 40)


def test_refilling_restores_an_end_of_which_only_an_index_knows(opened: Any, directory: Path, tmp_path: Path) -> None:
    """LH-16: the lost end is restored from a copy, and appends continue after it."""
    with opened(segment_bytes_max=3000) as store:
        filled(store)
        wanted = [item.link for item in store.events()]
    shutil.copytree(directory, tmp_path / "copy")
    remove_end(directory, sealed_too=True)
    tallystick.refill(f"files:{directory}", f"files:{tmp_path}/copy")
    with opened() as store:
        assert [item.link for item in store.events(until=40)] == wanted
        assert store.append("order/1", events(1)).seq == 41
        assert verify(store.log).ok


def test_evidence_of_another_store_is_none(opened: Any, directory: Path, tmp_path: Path) -> None:
    """What belongs to another store says nothing about this one."""
    with opened() as store:
        store.append("order/1", events(3))
    with tallystick.open(f"files:{tmp_path}/other", segment_bytes_max=3000) as other:
        filled(other)
        other.save_checkpoint("mailer", 40)
    shutil.copy(tmp_path / "other" / "beside.db", directory / "beside.db")
    for path in (tmp_path / "other" / "index").iterdir():
        if path.name != "current.idx":
            shutil.copy(path, directory / "index")
    with opened() as store:
        assert store.append("order/1", events(1)).position == 4
        assert verify(store.log).ok

"""A damaged file log, and what it can be refilled from."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import tallystick
from tallystick import NewEvent
from tallystick.event import line as ndjson
from tallystick.event.model import Event
from tallystick.store import control
from tallystick.store.verify import verify

SEGMENT_BYTES_MAX = 4096
EVENTS = 60

Damage = Callable[[Path], None]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where the log of this test lies; nothing is there yet."""
    return tmp_path / "log"


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed log of several segments: three streams, sources, a run with its lease, and an org."""
    directory = tmp_path_factory.mktemp("whole") / "log"
    with tallystick.open(f"files:{directory}", segment_bytes_max=SEGMENT_BYTES_MAX) as store:
        for number in range(EVENTS):
            meta = {"source": "s", "source_seq": number + 1} if number % 3 else {"org": "acme"}
            stream = f"order/{number % 3}" if number % 10 else "run/one"
            store.append(stream, NewEvent("thing.happened", {"number": number, "text": "x" * 100}, meta=meta))
    assert len(segments(directory)) >= 4
    return directory


@pytest.fixture
def log(whole: Path, directory: Path) -> Path:
    """That log, for one test."""
    return Path(shutil.copytree(whole, directory))


@pytest.fixture
def copy(log: Path) -> Path:
    """A copy of the log, made while it was whole."""
    return Path(shutil.copytree(log, log.with_name("copy")))


@pytest.fixture
def export(log: Path) -> Path:
    """An export of the log."""
    path = log.with_name("export.ndjson")
    with tallystick.open(f"files:{log}", readonly=True) as store:
        path.write_bytes(ndjson.lines(store.log.read(limit=1000).events))
    return path


def segments(directory: Path) -> list[Path]:
    """The sealed segments in order of their names."""
    return sorted(directory.glob("2*.log"))


def content(directory: Path) -> list[Event]:
    """Everything that a log holds but the facts about repairs; it must verify."""
    with tallystick.open(f"files:{directory}") as store:
        assert store.holes() == []
        assert verify(store.log).problems == []
        return [event for event in store.events(over_pruned=True) if event.stream != control.REPAIRS_STREAM]


def bitten(path: Path, *places: float) -> None:
    """Flip bits at these parts of a file."""
    data = bytearray(path.read_bytes())
    for place in places:
        data[int(place * len(data))] ^= 4
    path.write_bytes(data)


def hole_in_the_middle(log: Path) -> None:
    """Two frames of a sealed segment are damaged."""
    bitten(segments(log)[1], 0.3, 0.7)


def missing_segment(log: Path) -> None:
    """A sealed segment is gone."""
    segments(log)[1].unlink()


def missing_first_segment(log: Path) -> None:
    """The first segment is gone, and its index."""
    first = segments(log)[0]
    first.unlink()
    (log / "index" / first.with_suffix(".idx").name).unlink()


def two_missing_segments(log: Path) -> None:
    """Two segments that follow each other are gone."""
    for path in segments(log)[1:3]:
        path.unlink()


def shortened_segment(log: Path) -> None:
    """A sealed segment lost its second half."""
    path = segments(log)[2]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def shortened_last_sealed_segment(log: Path) -> None:
    """The segment before current.log lost its second half and its index: only current.log says where it ended."""
    path = segments(log)[-1]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (log / "index" / path.with_suffix(".idx").name).unlink()


def damaged_header(log: Path) -> None:
    """The header of a sealed segment cannot be read."""
    bitten(segments(log)[1], 0.0)


def damaged_current(log: Path) -> None:
    """A frame in the middle of current.log is damaged."""
    bitten(log / "current.log", 0.5)


def shortened_current(log: Path) -> None:
    """The end of current.log is gone, before the synced mark."""
    path = log / "current.log"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def headless_current(log: Path) -> None:
    """The header of current.log cannot be read."""
    bitten(log / "current.log", 0.0)


def missing_current(log: Path) -> None:
    """current.log is gone."""
    (log / "current.log").unlink()


def compressed(log: Path) -> Path:
    """The second segment, compressed."""
    with tallystick.open(f"files:{log}", segment_bytes_max=SEGMENT_BYTES_MAX) as store:
        assert store.log.reclaim(compress_before=1 << 62, progress=lambda done: None).done
    return segments(log)[1]


def damaged_member(log: Path) -> None:
    """A compressed segment is damaged in the middle."""
    bitten(compressed(log), 0.5)


def damaged_header_of_a_compressed_one(log: Path) -> None:
    """The header of a compressed segment cannot be read, so that nothing of it can."""
    bitten(compressed(log), 0.0)


def several(log: Path) -> None:
    """Much is wrong at once."""
    hole_in_the_middle(log)
    segments(log)[0].unlink()
    shortened_current(log)


DAMAGES: dict[str, Damage] = {
    damage.__name__: damage
    for damage in (
        hole_in_the_middle,
        missing_segment,
        missing_first_segment,
        two_missing_segments,
        shortened_segment,
        shortened_last_sealed_segment,
        damaged_header,
        damaged_current,
        shortened_current,
        headless_current,
        missing_current,
        damaged_member,
        damaged_header_of_a_compressed_one,
        several,
    )
}


@pytest.fixture(params=DAMAGES)
def damage(request: pytest.FixtureRequest) -> Damage:
    """Every kind of damage, one after the other."""
    return DAMAGES[request.param]


class Lab:
    """What test modules use of this file."""

    segment_bytes_max = SEGMENT_BYTES_MAX
    events = EVENTS
    damages = DAMAGES
    segments: Callable[[Path], list[Path]] = staticmethod(segments)
    content: Callable[[Path], list[Event]] = staticmethod(content)
    bitten: Callable[..., None] = staticmethod(bitten)


@pytest.fixture(scope="session")
def lab() -> Lab:
    """The functions above, for test modules."""
    return Lab()

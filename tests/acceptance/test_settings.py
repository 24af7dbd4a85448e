"""Every documented setting, set through the environment, changes what a store, a node or a command then does."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tallystick
from tallystick import NewEvent, Store, errors, state
from tallystick.cli.main import tally
from tallystick.commands import CommandKey, Commands
from tallystick.community import EventLog, SnapshotStore, build_snapshot
from tallystick.community import config as places
from tallystick.community.settings import settings as community_settings
from tallystick.community.upkeep import NodeUpkeep
from tallystick.scheduler import CLEANUP, Scheduler
from tallystick.server import logs
from tallystick.state import as_reducer
from tallystick.state.policy import policy
from tallystick.state.retention import retain
from tallystick.testing.builders import text
from tallystick.testing.clock import ManualClock
from tallystick.testing.community.people import engine_over, keys
from tests.projections import victims

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| (`TALLY_[^|]*) \|", re.MULTILINE)
NAME = re.compile(r"`(TALLY_[A-Z_]+)`")
START = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
HOURS, DAYS = 3600, 86_400
CODE = """
from tallystick.state import reducer

@reducer(name="count", initial={"events": 0})
def count(state, event):
    return {"events": state["events"] + 1}
"""


def documented() -> list[str]:
    """Every variable in a table of the documentation, but the limits of the service, which have tests of their own."""
    pages = "\n".join(path.read_text("utf-8") for path in sorted(DOCS.glob("*.md")))
    names = {name for row in ROW.findall(pages) for name in NAME.findall(row)}
    return sorted(name for name in names if not name.startswith("TALLY_SERVE_"))


class Count:
    """Counts the events of each stream."""

    name, version = "count", 1

    def initial(self) -> dict[str, Any]:
        """None yet."""
        return {"events": 0}

    def apply(self, state: dict[str, Any], event: Any) -> dict[str, Any]:
        """One more."""
        return {"events": state["events"] + 1}


class CountAll(Count):
    """Counts the events of the store."""

    name, scope = "all", "store"


EACH, ALL = as_reducer(Count()), as_reducer(CountAll())


class Life:
    """A file log under a clock that is turned by hand, and its scheduler as the environment sets it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.clock = ManualClock(int(START.timestamp()) * 1_000_000_000)
        self.store: Store = tallystick.open(f"files:{place}/log", clock=self.clock)

    def append(self, count: int = 1, *, stream: str = "order/1", size: int = 10) -> None:
        """Events of one commit each."""
        for number in range(count):
            self.store.append(stream, NewEvent("thing.happened", {"text": text(size, seed=number)}))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds=int(seconds))

    def fired(self) -> list[str]:
        """What is due now, and done."""
        return [item.job for item in Scheduler(self.store, [EACH, ALL], policy()).tick()]

    def segments(self) -> int:
        """How many files the log has."""
        return len(list((self.place / "log").glob("*.log")))

    def compressed(self) -> int:
        """How many of them are compressed."""
        return sum(b"\x1f\x8b" in path.read_bytes()[188:200] for path in (self.place / "log").glob("*.log"))


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Callable[[], Life]]:
    """Begin a life, once the environment is set."""
    begun: list[Life] = []

    def begin() -> Life:
        begun.append(Life(tmp_path / str(len(begun))))
        return begun[-1]

    yield begin
    for one in begun:
        one.store.close()


def _grown(one: Life) -> int:
    one.append(40, size=100)
    return one.segments()


def _compressed_in_the_background(one: Life) -> int:
    one.append(40, size=100)
    one.wait(25 * HOURS)
    one.append()
    one.store.log._compressor.wait()
    return one.compressed()


def _aged(one: Life) -> int:
    for _ in range(3):
        one.append()
        one.wait(2 * HOURS)
    return one.segments()


def _stream_snapshots(one: Life) -> bool:
    one.append(5)
    return "stream snapshot" in one.fired()


def _after(seconds: float, *, count: int = 1, size: int = 10, job: str = "store snapshot") -> Callable[[Life], bool]:
    def observe(one: Life) -> bool:
        one.append(count, size=size)
        one.wait(seconds)
        return job in one.fired()

    return observe


def _quiet(one: Life) -> bool:
    os.environ["TALLY_SNAPSHOT_STORE_HOURS"] = "1"  # put back by the fixture of the test
    return _after(1.5 * HOURS)(one)


def _pruned(one: Life) -> bool:
    one.append(3)
    state.make(one.store, EACH, "order/1")
    state.make_all(one.store, [ALL])
    one.wait(8 * DAYS)
    one.fired()
    return one.store.cut("order/1") is not None


def _compressed(one: Life) -> bool:
    one.append(100, size=200)
    one.wait(2 * DAYS)
    one.append()
    one.wait(2 * DAYS)
    one.fired()
    return one.compressed() > 0


def _snapshots_after(seconds: float, *, every: float) -> Callable[[Life], int]:
    def observe(one: Life) -> int:
        for _ in range(6):
            one.append()
            state.make(one.store, EACH, "order/1")
            one.wait(every)
        one.wait(seconds)
        retain(one.store, [EACH], policy())
        return len(list(state.entries(one.store, "order/1")))

    return observe


def _validated(one: Life) -> bool:
    return _after(2 * HOURS, job="validation")(one)


def _remembered(one: Life) -> bool:
    key = CommandKey("acme", "ada", "deploy", "k")
    Commands(one.store).run(key=key, request="r", handler=victims.decide)
    one.wait(30 * HOURS)
    one.fired()
    return one.store.log.commands.load(key) is not None


def _cleaned_up(one: Life) -> bool:
    one.append()
    return CLEANUP in one.fired()


def _cli(one: Life, *arguments: str) -> Any:
    return CliRunner().invoke(tally, list(arguments), prog_name="tally")


def _state_by_reducer(one: Life) -> int:
    one.append(2)
    one.store.close()
    return _cli(one, "snapshot", f"files:{one.place}/log", "order/1").exit_code


def _catalog(one: Life) -> int:
    one.append()
    one.store.close()
    return _cli(one, "state", f"files:{one.place}/log", "order/1", "--reducer", "counted:count").exit_code


def _actor(one: Life) -> bool:
    one.append()
    one.store.close()
    url = f"files:{one.place}/log"
    assert _cli(one, "erase", url, "order/1", "1", "--reason", "asked").exit_code == 0
    return "tally.erased" in _cli(one, "audit", url, "--actor", "ada").stdout


def _archive(one: Life) -> int:
    one.append()
    one.store.close()
    return _cli(one, "retain", f"files:{one.place}/log", "--dry-run").exit_code


class Node:
    """The founder's node of a community, with 50 events."""

    def __init__(self, one: Life) -> None:
        one.place.mkdir(exist_ok=True)
        self.key, self.directory = keys(1), one.place / "club"
        self.directory.mkdir()
        places.save(self.directory, places.CommunityConfig(self.key.node))
        self.store = tallystick.open(f"sqlite:{self.directory}/log.db", profile="community", clock=one.clock)
        self.log = EventLog(self.store, self.key.node, node=self.key.node)
        self.log.append_local("community.created", {"name": "test"}, self.key)
        for number in range(50):
            self.log.append_local("chat.message.sent", {"n": number}, self.key)
        self.files = SnapshotStore(self.directory / "snapshots", self.key.node)
        self.upkeep = NodeUpkeep(self.log, engine_over(self.log), self.files, self.key, self.directory)


def _lag(one: Life) -> int:
    node = Node(one)
    return build_snapshot(node.log, engine_over(node.log), node.key).covers_events_up_to


def _hour(one: Life) -> int:
    return Node(one).upkeep.schedule.next_snapshot(START).hour


def _kept(one: Life) -> int:
    node = Node(one)
    for lamport in range(10, 50, 4):
        node.files.write(build_snapshot(node.log, engine_over(node.log), node.key, lamport))
    node.upkeep.retain()
    return len(node.files.list())


def _left(one: Life) -> bool:
    """Whether events that a floor covers are gone after a week."""
    os.environ["TALLY_COMMUNITY_SNAPSHOT_LAG"] = "5"  # put back by the fixture of the test
    node = Node(one)
    for _ in range(3):
        node.upkeep.daily()
        one.wait(7 * DAYS)
    node.upkeep.daily()
    return node.store.cut(node.log.replica.streams.feed(node.key.node)) is not None


def _wait_of(*, emergency: bool) -> Callable[[Life], float]:
    def observe(one: Life) -> float:
        schedule = Node(one).upkeep.schedule
        schedule.emergency = emergency
        return schedule.wait_s

    return observe


def _state_dir(one: Life) -> bool:
    """Whether a relative directory is made in the state directory."""
    os.chdir(one.place.parent)
    assert _cli(one, "community", "init", f"club{one.place.name}").exit_code == 0
    return (one.place.parent / "states" / f"club{one.place.name}" / "community.json").exists()


def _refilled(one: Life) -> int:
    """The exit status of a repair that has to refill a damaged event."""
    one.append(3)
    one.store.close()
    log = one.place / "log" / "current.log"
    shutil.copytree(log.parent, "copy", dirs_exist_ok=True)
    written = bytearray(log.read_bytes())
    written[len(written) // 2] ^= 1
    log.write_bytes(written)
    return _cli(one, "doctor", f"files:{log.parent}", "--repair").exit_code


def _level(one: Life) -> int:
    return logs.level_from(os.environ)


# variable: (what it is set to, what is looked at, what is seen then); without the variable something else must be seen
EFFECTS: dict[str, tuple[str, Callable[[Life], Any], Any]] = {
    "TALLY_REFILL_FROM": ("files:copy", _refilled, 0),
    "TALLY_SEGMENT_BYTES_MAX": ("8000", _grown, 2),
    "TALLY_SEGMENT_HOURS_MAX": ("1.5", _aged, 3),
    "TALLY_COMPRESS_BYTES_MIN": ("1000", _compressed_in_the_background, 1),
    "TALLY_PRESET": ("keep-7-days", _pruned, True),
    "TALLY_SNAPSHOT_STREAM_EVENTS": ("5", _stream_snapshots, True),
    "TALLY_SNAPSHOT_STORE_EVENTS": ("5", _after(0, count=5), True),
    "TALLY_SNAPSHOT_STORE_HOURS": ("2", _after(3 * HOURS), True),
    "TALLY_SNAPSHOT_STORE_BYTES": ("20000", _after(0, size=30_000), True),
    "TALLY_SNAPSHOT_QUIET_SECONDS": ("7200", _quiet, False),
    "TALLY_PRUNE_DAYS": ("7", _pruned, True),
    "TALLY_COMPRESS_DAYS": ("1", _compressed, True),
    "TALLY_SNAPSHOTS_KEEP_ALL_HOURS": ("5", _snapshots_after(0, every=2 * HOURS), 2),
    "TALLY_SNAPSHOTS_KEEP_DAILY_DAYS": ("30", _snapshots_after(0, every=12 * HOURS), 4),
    "TALLY_SNAPSHOTS_KEEP_WEEKLY_DAYS": ("365", _snapshots_after(0, every=4 * DAYS), 4),
    "TALLY_SNAPSHOTS_KEEP_COUNT": ("3", _snapshots_after(0, every=1), 3),
    "TALLY_RETAIN_HOURS": ("5", _after(2 * HOURS, job="retention"), False),
    "TALLY_VALIDATE_HOURS": ("1", _validated, True),
    "TALLY_COMMANDS_HOURS": ("48", _remembered, True),
    "TALLY_CLEANUP_FREE_BYTES": (str(1 << 60), _cleaned_up, True),
    "TALLY_REDUCERS": ("counted:count", _state_by_reducer, 0),
    "TALLY_CATALOG": ("nowhere:catalog", _catalog, 2),
    "TALLY_ARCHIVE": ("nowhere", _archive, 2),
    "TALLY_ACTOR": ("ada", _actor, True),
    "TALLY_COMMUNITY_SNAPSHOT_LAG": ("20", _lag, 31),
    "TALLY_COMMUNITY_SNAPSHOT_HOUR": ("17", _hour, 17),
    "TALLY_COMMUNITY_SNAPSHOTS_KEEP": ("3", _kept, 3),
    "TALLY_COMMUNITY_RETENTION_DAYS": ("6", _left, True),
    "TALLY_COMMUNITY_INTERVAL_SECONDS": ("60", _wait_of(emergency=False), 60),
    "TALLY_COMMUNITY_EMERGENCY_SECONDS": ("10", _wait_of(emergency=True), 10),
    "TALLY_COMMUNITY_STATE_DIR": ("states", _state_dir, True),
    "TALLY_LOG": ("debug", _level, 10),
}


@pytest.fixture
def quiet_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of ours is set; the directory of the test is where modules are looked for."""
    for name in [name for name in os.environ if name.startswith("TALLY_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    for name in ("TALLY_SNAPSHOT_STORE_HOURS", "TALLY_COMMUNITY_SNAPSHOT_LAG"):  # set by an observation: put back
        monkeypatch.setenv(name, "1")
        monkeypatch.delenv(name)
    (tmp_path / "counted.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("variable", documented())
def test_each_documented_setting_has_its_effect(
    variable: str, life: Callable[[], Life], quiet_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LH-09, COM-08: the same life with the variable and without it ends differently, and as the documentation says."""
    value, observe, expected = EFFECTS[variable]
    assert observe(life()) != expected
    monkeypatch.setenv(variable, value)
    assert observe(life()) == expected


def test_no_setting_is_left_out() -> None:
    """A setting that is documented is tried above, and one that is tried is documented."""
    assert documented() == sorted(EFFECTS)


@pytest.mark.parametrize("variable", ["TALLY_SEGMENT_BYTES_MAX", "TALLY_SEGMENT_HOURS_MAX"])
@pytest.mark.parametrize("value", ["", "many", "-1", "0", "1e99", "nan"])
def test_nonsense_is_refused_by_the_name_of_the_variable(
    variable: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad input: the error names the variable, and no store is made."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(errors.InvalidValue, match=variable):
        tallystick.open(f"files:{tmp_path}/log")
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    "name", ["SNAPSHOT_LAG", "SNAPSHOT_HOUR", "SNAPSHOTS_KEEP", "RETENTION_DAYS", "INTERVAL_SECONDS"]
)
def test_nonsense_about_a_community_is_refused(name: str) -> None:
    """Bad input: the same for a community's node."""
    with pytest.raises(errors.InvalidValue, match=f"TALLY_COMMUNITY_{name}"):
        community_settings({f"TALLY_COMMUNITY_{name}": "-1"})

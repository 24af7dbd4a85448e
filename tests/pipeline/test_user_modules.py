"""How a user's modules reach the workers, and how a session is set up on the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tallystick.cli.main import tally as group

MakeLog = Callable[..., None]
PROJECTION = """
{how}
from tallystick.projections import Projection

class Paid(Projection):
    types = ("order.paid",)
    key = "stream"
    def initial(self):
        return {{"cents": 0}}
    def apply(self, state, event):
        {late}
        return {{"cents": {call}(state["cents"], event.data["cents"])}}
"""
HELPER = "from carried_deeper import DEEP\n{lock}def add(one, other):\n    return one + other + DEEP\n"
LOCK = "import threading\nHELD = threading.Lock()\n"
NAMES = ("carried_shop", "carried_helper", "carried_deeper")


@pytest.fixture
def modules(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Writes a projection and the modules that it imports into a directory that only this process can import from."""
    before = list(sys.path)

    def write(how: str, call: str, *, late: str = "pass", lock: str = "") -> Path:
        place = tmp_path / "code"
        place.mkdir()
        (place / "carried_shop.py").write_text(PROJECTION.format(how=how, call=call, late=late))
        (place / "carried_helper.py").write_text(HELPER.format(lock=lock))
        (place / "carried_deeper.py").write_text("DEEP = 0\n")
        return place

    yield write
    sys.path[:] = before
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("how", "call"),
    [
        ("from carried_helper import add", "add"),
        ("import carried_helper", "carried_helper.add"),
        ("from carried_helper import *", "add"),
    ],
)
def test_what_a_module_imports_travels_with_it(
    spark: SparkSession, files_url: str, make_log: MakeLog, modules: Callable[..., Path], how: str, call: str
) -> None:
    """PIPE-09: a projection whose module imports another one, which imports a third."""
    make_log(files_url, events=20)
    sys.path.insert(0, str(modules(how, call)))
    done = CliRunner().invoke(group, ["pipeline", "rebuild", files_url, "carried_shop:Paid"])
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("form", ["directory", "file"])
def test_files_are_sent_to_the_workers(
    spark: SparkSession, files_url: str, make_log: MakeLog, modules: Callable[..., Path], form: str
) -> None:
    """PIPE-09: modules imported inside functions, and modules that cannot be pickled, are sent as files."""
    make_log(files_url, events=20)
    late = "from carried_helper import add" if form == "directory" else "pass"
    how = "" if form == "directory" else "import carried_helper"
    place = modules(how, "add" if form == "directory" else "carried_helper.add", late=late, lock=LOCK)
    paths = [place] if form == "directory" else [place / f"{name}.py" for name in NAMES]
    sent = [part for path in paths for part in ("--py-files", str(path))]
    done = CliRunner().invoke(group, ["pipeline", "rebuild", files_url, "carried_shop:Paid", *sent])
    assert done.exit_code == 0, done.stderr


def test_a_setting_reaches_the_session(spark: SparkSession, files_url: str, make_log: MakeLog) -> None:
    """PIPE-09: `--conf` sets Spark's own settings."""
    make_log(files_url, events=3)
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        chosen = ["--conf", "spark.sql.shuffle.partitions=3"]
        done = CliRunner().invoke(group, ["pipeline", "growth", files_url, *chosen])
        assert done.exit_code == 0, done.stderr
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before or "2")


@pytest.mark.parametrize("wrong", [["--conf", "shuffle=3"], ["--conf", "spark.x"], ["--py-files", "/nowhere.py"]])
def test_a_setting_that_is_none_is_refused(files_url: str, wrong: list[str]) -> None:
    """CLI-02: a wrong setting gives exit status 2 before a session is started."""
    done = CliRunner().invoke(group, ["pipeline", "growth", files_url, *wrong])
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_sparks_page_is_named(spark: SparkSession, files_url: str, make_log: MakeLog) -> None:
    """PIPE-09: `--ui` prints the address of Spark's page, or that the running session has none."""
    make_log(files_url, events=3)
    done = CliRunner().invoke(group, ["pipeline", "growth", files_url, "--ui"])
    assert done.exit_code == 0, done.stderr
    assert "Spark's page: " in done.stderr

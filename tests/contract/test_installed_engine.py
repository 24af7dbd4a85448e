"""An engine in its own package, as CONTRIBUTING.md shows it. Its URL opens it, and it passes the contract."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tallystick
from tallystick import errors

ROOT = Path(__file__).parents[2]
SHOWN = re.compile(r"^`(\S+)`[^`]*:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A directory with the files that the page shows, installed as pip would, without a network."""
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## A new engine\n")[1].split("\n## ")[0]
    section = re.sub(r"^.*?(`pyproject.toml`)", r"\1", section, count=1, flags=re.DOTALL)
    files = dict(SHOWN.findall(section))
    assert set(files) == {"pyproject.toml", "mine.py", "test_mine.py"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    project = tomllib.loads(files["pyproject.toml"])["project"]
    info = tmp_path / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in points.items())])
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups) + "\n")
    return tmp_path


def run(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in a process that has the package on its path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, *arguments]
    environment["PYTHONPATH"] = str(package)
    return subprocess.run(command, cwd=package, env=environment, capture_output=True, text=True, timeout=280)


def test_its_url_opens_it_with_its_options(package: Path) -> None:
    """The scheme names the entry point; capabilities are those of the log; another option is refused by name."""
    done = run(
        package,
        "-c",
        """if True:
        import tallystick
        with tallystick.open("mine:anything", size_max=5) as store:
            store.append("order/1", tallystick.NewEvent("order.placed", {}))
            print(store.log.engine, store.log.url, store.head(), "durable" in store.log.capabilities)
        try:
            tallystick.open("mine:anything", busy_ms=5)
        except tallystick.errors.InvalidValue as refused:
            print(refused.message)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "mine mine:anything 1 False"
    assert "size_max" in done.stdout


def test_the_command_line_opens_it(package: Path) -> None:
    """`tally` takes the URL like any other."""
    done = run(package, "-c", "from tallystick.cli.main import main; main()", "verify", "mine:anything")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ok: 0 events")


def test_it_passes_the_contract(package: Path) -> None:
    """The test that the page shows runs every theme of the contract, and every test passes or names a capability."""
    done = run(package, "-m", "pytest", "-q", "-rsfE", "-p", "no:cacheprovider", "test_mine.py")
    assert done.returncode == 0, done.stdout[-9000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 500
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert [line for line in skipped if "the mine engine lacks the capability" not in line] == []


def test_a_package_that_is_not_installed_is_refused() -> None:
    """Without it, the URL names no engine."""
    with pytest.raises(errors.UnknownUrl, match="there is no engine 'mine'"):
        tallystick.open("mine:anything")

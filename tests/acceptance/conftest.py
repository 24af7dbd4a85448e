"""The real `tally`, as a user runs it: in another process, in its own directory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tallystick
from tallystick import errors

SCRIPT = str(Path(sys.executable).with_name("tally"))
SECONDS = 60


def environment() -> dict[str, str]:
    """The environment without what would change the output."""
    drop = ("TALLY_DEBUG", "PYTHONWARNINGS", "FORCE_COLOR", "NO_COLOR", "COLUMNS")
    return {key: value for key, value in os.environ.items() if key not in drop}


@pytest.fixture
def tally(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `tally` to its end. It never prints a stack trace."""

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [SCRIPT, *arguments],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            cwd=tmp_path,
            env=environment(),
            timeout=SECONDS,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode in (0, 1, 2), done.returncode
        return done

    return run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `tally` and return; processes that still run at the end of the test are killed."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [SCRIPT, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            cwd=tmp_path,
            env=environment(),
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def head_of(tmp_path: Path) -> Callable[[str], int]:
    """The head that another process sees now; 0 while there is no store."""

    def look(url: str) -> int:
        engine, _, place = url.partition(":")
        try:
            with tallystick.open(f"{engine}:{tmp_path / place}", readonly=True) as store:
                return store.head()
        except errors.TallyError:
            return 0

    return look


@pytest.fixture(params=["files:log", "sqlite:log.db"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a store, once with each engine."""
    return str(request.param)

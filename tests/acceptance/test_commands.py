"""Each command as a user sees it: exit status, output and errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = str(Path(sys.executable).with_name("tally"))


def test_a_first_day_with_a_store(tally, url):
    """Append, conflict, read, tail, streams, audit, verify, doctor, migrate: statuses and shapes."""
    first = tally("append", url, "order/42", "order.placed", '{"total":10}', "--meta", "org=acme", "--json")
    assert first.returncode == 0
    assert json.loads(first.stdout)["position"] == 1
    conflict = tally("append", url, "order/42", "order.paid", "--expected", "none")
    assert (conflict.returncode, conflict.stdout) == (1, "")
    assert conflict.stderr.startswith("error: stream 'order/42' is at seq 1, expected 0\n  ")
    assert tally("append", url, "order/42", "order.paid", "-", "--expected", "1", stdin='{"by":"card"}').returncode == 0
    assert [json.loads(line)["type"] for line in tally("read", url, "--json").stdout.splitlines()] == [
        "order.placed",
        "order.paid",
    ]
    assert tally("tail", url, "-n", "1").stdout.split()[2:] == ["order/42#2", "order.paid", '{"by":"card"}']
    assert json.loads(tally("streams", url, "--json").stdout)["org"] == "acme"
    assert json.loads(tally("verify", url, "--json").stdout)["events"] == 2
    assert json.loads(tally("doctor", url, "--repair", "--json").stdout)["ok"] is True
    assert tally("migrate", url).stdout.startswith("nothing to do")


def test_a_missing_store_leaves_nothing_behind(tally, tmp_path, url):
    """Reading a store that does not exist exits with 2 and creates no file."""
    done = tally("read", url)
    assert done.returncode == 2
    assert "there is no store" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_piped_output_is_plain_and_whole(tally):
    """Without a terminal there are no colours and nothing is cut, however small COLUMNS is."""
    url = "files:log"
    text = "word " * 100
    tally("append", url, "order/1", "order.placed", json.dumps({"text": text}))
    shown = tally("read", url).stdout + tally("streams", url).stdout + tally("doctor", url).stdout
    assert text in shown
    assert "\x1b" not in shown
    assert "…" not in shown
    assert json.loads(tally("streams", url, "--json").stdout)["link"] in shown


def test_a_reader_that_hangs_up_is_no_error(tally, tmp_path):
    """`tally export … | head -1` is quiet and exits with 0."""
    url = "files:log"
    line = '{"stream":"order/1","type":"order.placed","payload":{"text":"%s"}}\n' % ("x" * 500)
    tally("import", url, "-", stdin=line * 3000)
    exporting = subprocess.Popen([SCRIPT, "export", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    assert exporting.stdout is not None
    assert exporting.stderr is not None
    assert json.loads(exporting.stdout.readline())["position"] == 1
    exporting.stdout.close()
    assert exporting.wait(60) == 0
    assert exporting.stderr.read() == b""
    exporting.stderr.close()


def test_a_verdict_outlives_its_reader(tally, tmp_path):
    """A reader that closes the pipe does not turn "damaged" into "fine"."""
    line = '{"stream":"order/1","type":"order.placed","payload":{"text":"to be damaged %d"}}\n'
    tally("import", "files:log", "-", "--batch", "1", stdin="".join(line % number for number in range(6)))
    path = tmp_path / "log" / "current.log"
    path.write_bytes(path.read_bytes().replace(b"damaged 2", b"damaged 9"))
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [SCRIPT, "verify", "files:log"], stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, timeout=60
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_terminal_gets_a_progress_bar_and_lines_that_fit(tally, tmp_path):
    """On a terminal a long job shows a bar, lines are cut to the width, and neither reaches a pipe."""
    import pty

    line = '{"stream":"order/1","type":"order.placed","payload":{"text":"%s"}}\n' % ("x" * 500)
    (tmp_path / "in.ndjson").write_text(line * 2000)
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [SCRIPT, "import", "sqlite:log.db", "in.ndjson", "--batch", "100"],
        stderr=theirs, stdout=subprocess.PIPE, cwd=tmp_path, timeout=60,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    assert b"importing" in os.read(ours, 1 << 16)
    assert done.stdout == b"imported 2000 events from 2000 lines; head 2000\n"
    subprocess.run(
        [SCRIPT, "tail", "sqlite:log.db", "-n", "3"], stdout=theirs, cwd=tmp_path, timeout=60,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode().splitlines()
    os.close(ours)
    assert [(len(row), row[-1]) for row in shown if "order.placed" in row] == [(100, "…")] * 3


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is not a signal to one process there")
def test_an_interrupted_import_says_how_far_it_came(start, head_of):
    """Ctrl-C in the middle prints one line with what is stored, and no stack trace."""
    url = "files:log"
    writer = start("import", url, "-", "--batch", "2")
    writer.stdin.write('{"stream":"order/1","type":"order.placed","payload":{}}\n' * 3)
    writer.stdin.flush()
    while head_of(url) < 2:
        assert writer.poll() is None
    writer.send_signal(signal.SIGINT)
    assert writer.wait(60) == 2
    assert writer.stderr.read() == "interrupted: imported 2 events from 2 lines\n"


def test_an_old_terminal_gets_escapes(tmp_path):
    """Characters that the encoding of the terminal lacks are escaped."""
    plain = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}
    for arguments in (["append", "sqlite:a.db", "order/1", "order.placed", '{"a":"é☃"}'], ["read", "sqlite:a.db"]):
        done = subprocess.run(
            [SCRIPT, *arguments], capture_output=True, timeout=60, cwd=tmp_path, env=os.environ | plain
        )
        assert done.returncode == 0, done.stderr
    assert b"\xe9\\u2603" in done.stdout


def test_completion_comes_with_the_command(tmp_path):
    """The shell can ask `tally` for its completions."""
    done = subprocess.run(
        [SCRIPT], capture_output=True, text=True, timeout=60, cwd=tmp_path,
        env=os.environ | {"_TALLY_COMPLETE": "bash_complete", "COMP_WORDS": "tally ex", "COMP_CWORD": "1"},
    )  # fmt: skip
    assert done.stdout == "plain,export\n"


def test_files_have_one_writer_and_many_readers(tally, start, head_of):
    """EVT-09: a second writer of a file log is told who writes and exits with 2; readers are not disturbed."""
    writer = start("import", "files:log", "-", "--batch", "1")
    writer.stdin.write('{"stream":"order/1","type":"order.placed","payload":{}}\n' * 2)
    writer.stdin.flush()
    while head_of("files:log") < 2:
        assert writer.poll() is None
    second = tally("append", "files:log", "order/1", "order.placed")
    assert second.returncode == 2
    assert str(writer.pid) in second.stderr
    assert tally("verify", "files:log").returncode == 0
    writer.communicate(timeout=60)
    assert writer.returncode == 0


def test_two_imports_into_one_database_lose_nothing(tally, start):
    """Writers of different processes take turns; both files arrive whole and in their order."""
    line = '{"stream":"order/%d","type":"order.placed","payload":{"n":%d}}\n'
    writers = [start("import", "sqlite:log.db", "-", "--batch", "50") for _ in range(2)]
    for number, writer in enumerate(writers):
        writer.stdin.write("".join(line % (number, n) for n in range(1000)))
        writer.stdin.close()
        writer.stdin = None
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert tally("verify", "sqlite:log.db").stdout == "ok: 2000 events in 2 streams, head 2000\n"
    for number in range(2):
        found = tally("export", "sqlite:log.db", "--stream", f"order/{number}").stdout.splitlines()
        assert [json.loads(text)["payload"]["n"] for text in found] == list(range(1000))

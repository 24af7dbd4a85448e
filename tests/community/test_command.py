"""`tally community`, in this process, with nodes that listen in processes of their own over loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tallystick
from tallystick.cli.main import tally as group

SECONDS_MAX = 60
PROGRAM = [sys.executable, "-c", "from tallystick.cli.main import main; main()", "community"]

Tally = Callable[..., Any]


@pytest.fixture
def tally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tally:
    """Run `tally community …` in this process and give back what it printed, as JSON where it is."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, status: int = 0, stdin: str | None = None) -> Any:
        done = CliRunner().invoke(group, ["community", *arguments], input=stdin, prog_name="tally")
        assert done.exit_code == status, done.output
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return lines[0] if len(lines) == 1 else lines

    return run


class Listener:
    """A node that listens in a process of its own."""

    def __init__(self, place: Path, directory: str, *options: str, port: int = 0) -> None:
        command = [*PROGRAM, "sync", directory, "--listen", f"127.0.0.1:{port}", *options]
        self.process = subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        said = self.process.stderr.readline().decode()
        assert said.startswith("listening on"), said
        self.port = int(said.split()[2].rpartition(":")[2])

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Callable[..., Listener]]:
    """Start a node that listens; all are ended at the end."""
    started: list[Listener] = []

    def start(directory: str, *options: str, port: int = 0) -> Listener:
        started.append(Listener(tmp_path, directory, *options, port=port))
        return started[-1]

    yield start
    for listener in started:
        listener.kill()


def invited(tally: Tally, listener: Listener, *options: str, scheme: str = "http") -> str:
    """An invitation of the node that listens."""
    return json.dumps(tally("invite", "a", "--address", f"{scheme}://127.0.0.1:{listener.port}", *options))


@pytest.mark.parametrize("snapshot", [(), ("--snapshot",)], ids=["whole log", "snapshot"])
def test_five_commands_to_a_synced_pair(
    tally: Tally, listening: Callable[..., Listener], tmp_path: Path, snapshot: tuple[str, ...]
) -> None:
    """COM-10: init, invite, sync --listen; join, sync: both nodes have the same fingerprint."""
    tally("init", "a", "--name", "Club", "--json")
    invitation = invited(tally, listening("a"), *snapshot)
    tally("join", "b", "-", "--allow-private", "--json", stdin=invitation)
    tally("sync", "b", "--json")
    mine, theirs = tally("status", "b", "--json"), tally("status", "a", "--json")
    assert mine["fingerprint"] == theirs["fingerprint"]
    assert mine["members"] == theirs["members"] == 2
    assert (mine["floor"] == theirs["floor"] != "") if snapshot else mine["floor"] == ""
    said = tally("append", "b", "chat.message.sent", '{"text":"hi"}', "--json")
    assert said["seq"] == 2
    assert tally("status", "a", "--json")["head"] == said["lamport"], "it was handed on at once"
    assert tally("sync", "b", "--json")["sent_count"] == 0
    roles = sorted(facts["role"] for facts in tally("status", "a", "--members", "--json").values())
    assert roles == ["member", "owner"]
    assert (tmp_path / "a" / "key").stat().st_mode & 0o077 == 0


def test_a_pair_converges_though_one_is_killed_in_the_middle(
    tally: Tally, listening: Callable[..., Listener], tmp_path: Path
) -> None:
    """COM-09, COM-10: the listener dies by SIGKILL during a round; after its restart a round makes both equal."""
    from tallystick.cli import community_directory

    tally("init", "a", "--json")
    first = listening("a")
    tally("join", "b", "-", "--allow-private", "--json", stdin=invited(tally, first))
    tally("sync", "b", "--json")
    with community_directory.opened(tmp_path / "b", offline=True) as community:
        for number in range(1500):
            community.log.append_local("chat.message.sent", {"n": number}, community.keys)
    round_ = subprocess.Popen(
        [*PROGRAM, "sync", "b"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with tallystick.open(f"sqlite:{tmp_path / 'a' / 'log.db'}", readonly=True) as store:
        before, deadline = store.head(), time.monotonic() + SECONDS_MAX
        while store.head() == before and time.monotonic() < deadline:
            time.sleep(0.002)
        assert store.head() > before, "the first batch of the round has arrived"
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    round_.wait(SECONDS_MAX)
    listening("a", port=first.port)
    tally("sync", "b", "--json")
    mine, theirs = tally("status", "b", "--json"), tally("status", "a", "--json")
    assert mine["fingerprint"] == theirs["fingerprint"]
    assert mine["events"] == theirs["events"] == 1503


def test_a_restored_backup_asks_for_its_own_head(
    tally: Tally, listening: Callable[..., Listener], tmp_path: Path
) -> None:
    """COM-03: a node whose disk is older than what its peers have of it takes that back before it writes."""
    tally("init", "a", "--json")
    tally("join", "b", "-", "--allow-private", "--json", stdin=invited(tally, listening("a")))
    tally("sync", "b", "--json")
    shutil.copytree(tmp_path / "b", tmp_path / "backup")
    tally("append", "b", "chat.message.sent", '{"n":1}', "--json")
    tally("sync", "b", "--json")
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "backup").rename(tmp_path / "b")
    again = tally("append", "b", "chat.message.sent", '{"n":2}', "--json")
    assert again["seq"] == 3
    tally("sync", "b", "--json")
    assert tally("status", "a", "--json")["forks"] == {}


def test_retention_is_written_down(tally: Tally, tmp_path: Path) -> None:
    """COM-12: what is due goes, the directory remembers where its log begins now, and shows the same fingerprint."""
    from tallystick.cli import community_directory

    tally("init", "a", "--json")
    for number in range(5):
        tally("append", "a", "chat.message.sent", f'{{"n":{number}}}', "--json")
    tally("invite", "a", "--snapshot")
    before = tally("status", "a", "--json")
    with community_directory.opened(tmp_path / "a") as community:
        states = community.engine.states()
        community.upkeep().retain()
        assert community.log.disk.floor() == 0, "nothing is 30 days old"
        community.upkeep().retain(days=0)
        assert community.log.disk.floor() > 0
    assert tally("status", "a", "--json") == before
    assert tally("append", "a", "chat.message.sent", "{}", "--json")["seq"] == 9
    with community_directory.opened(tmp_path / "a") as community:
        messages = community.engine.states()["chat"]["messages"]
        assert states["chat"]["messages"].items() < messages.items()
        assert community.config.base == community.log.replica.base.lamport


def test_every_insert_gives_a_line_if_that_is_asked_for(
    tally: Tally, listening: Callable[..., Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    """COM-01: what is written here and what a peer sends, also in a node that listens; never what an event says."""

    def told(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
        for line in lines:
            assert "a secret" not in line
            if '"an event was inserted"' in line:
                found = json.loads(line)
                yield found["type"], found["origin"]

    def logged(*arguments: str, stdin: str | None = None) -> list[tuple[str, str]]:
        done = CliRunner().invoke(group, ["community", *arguments], input=stdin, prog_name="tally")
        assert done.exit_code == 0, done.output
        return list(told(done.stderr.splitlines()))

    monkeypatch.setenv("TALLY_LOG", "info")
    assert logged("init", "a") == [("community.created", "local")]
    assert logged("append", "a", "chat.message.sent", '{"text":"a secret"}') == [("chat.message.sent", "local")]
    listener = listening("a")
    joined = logged("join", "b", "-", "--allow-private", stdin=invited(tally, listener))
    assert ("community.member.joined", "local") in joined
    assert ("community.created", "received") in [*joined, *logged("sync", "b")]
    assert listener.process.stderr is not None
    heard = told(line.decode() for line in listener.process.stderr)
    assert ("community.member.joined", "received") in heard
    monkeypatch.delenv("TALLY_LOG")
    assert logged("append", "a", "chat.message.sent", '{"text":"more"}') == []


def test_mistakes_are_named(tally: Tally) -> None:
    """Exit status 2 where there is no community, 1 where the answer is no."""
    tally("status", "nowhere", status=2)
    tally("init", "a", "--json")
    tally("init", "a", status=1)
    tally("append", "a", "federation.peer.added", status=1)
    tally("append", "a", "chat.message.sent", "[]", status=1)
    tally("sync", "a", "--peer", "nonsense", status=2)
    tally("sync", "a", "--peer", f"ed25519:{'0' * 64}@http://127.0.0.1:1", status=2)
    tally("sync", "a", "--peer", f"ed25519:{'0' * 64}@http://127.0.0.1:1", "--allow-private", status=1)
    tally("join", "c", "-", status=1, stdin="{}")


@pytest.fixture
def pem(tmp_path: Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1 that nobody but itself vouches for, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: it makes the certificate")
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(made, check=True, capture_output=True)
    return cert, key


def test_https_is_verified(
    tally: Tally, listening: Callable[..., Listener], tmp_path: Path, pem: tuple[str, str]
) -> None:
    """COM-09: a node listens over https with its certificate; a peer refuses one that nobody vouches for, and one for
    another name, unless the authority is named."""
    tally("init", "a", "--json")
    listener = listening("a", "--tls-cert", pem[0], "--tls-key", pem[1])
    invitation = invited(tally, listener, scheme="https")
    tally("join", "b", "-", "--allow-private", "--json", stdin=invitation)
    assert "CERTIFICATE_VERIFY_FAILED" in tally("sync", "b", "--json", status=1)["failed"]
    done = tally("sync", "b", "--tls-ca", pem[0], "--json")
    assert done["received_count"] == 2
    assert tally("status", "b", "--json")["fingerprint"] == tally("status", "a", "--json")["fingerprint"]
    peer = json.loads(invitation)["peer"]
    wrong_name = f"{peer['key']}@https://localhost:{listener.port}"
    tally("sync", "b", "--peer", wrong_name, "--json", status=1)


def test_a_certificate_needs_its_key(tally: Tally, pem: tuple[str, str], tmp_path: Path) -> None:
    """Exit status 2, before anything listens."""
    tally("init", "a", "--json")
    tally("sync", "a", "--listen", "127.0.0.1:0", "--tls-cert", pem[0], status=2)
    tally("sync", "a", "--listen", "127.0.0.1:0", "--tls-cert", pem[0], "--tls-key", pem[0], status=2)
    (tmp_path / "not.pem").write_text("nothing")
    tally("sync", "a", "--tls-ca", "not.pem", "--peer", f"ed25519:{'0' * 64}@https://127.0.0.1:1", "--allow-private",
          status=1)  # fmt: skip

"""What was written into the file behind a community's back is not served, and an honest node is not called damaged."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tallystick
from tallystick import errors
from tallystick.cli.main import tally
from tallystick.community import EventLog, KeyPair, signatures
from tallystick.community.views.projections import Chat
from tallystick.projections import Live
from tallystick.testing.community.people import Author

pytestmark = pytest.mark.security

FORGED = b'{"text":"forged"}'


class Club:
    """A community in a directory, as `tally community` makes it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.log_url = f"sqlite:{place / 'log.db'}"
        self.run("init", str(place), "--name", "Club")
        self.keys = KeyPair.load(place / "key")
        self.say("one")
        self.say("two")

    def run(self, *arguments: str) -> Any:
        """`tally community …` in this process."""
        return CliRunner().invoke(tally, ["community", *arguments], prog_name="tally")

    def say(self, text: str) -> None:
        """An event of the founder."""
        done = self.run("append", str(self.place), "chat.message.sent", json.dumps({"text": text}))
        assert done.exit_code == 0, done.output

    def log(self, store: tallystick.Store) -> EventLog:
        """The log over an open store."""
        return EventLog(store, self.keys.node, node=self.keys.node)

    def change(self, statement: str, *values: Any) -> None:
        """Write into the file, past everything."""
        with sqlite3.connect(self.place / "log.db") as connection:
            triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                connection.execute(f'DROP TRIGGER "{name}"')
            assert connection.execute(statement, values).rowcount == 1
            for _, text in triggers:
                connection.execute(text)
        connection.close()

    def statuses(self) -> dict[str, int]:
        """The exit status of everything that verifies."""
        verify = CliRunner().invoke(tally, ["verify", self.log_url, "--json"], prog_name="tally")
        status = self.run("status", str(self.place), "--verify", "--json")
        return {"verify": verify.exit_code, "status --verify": status.exit_code}


@pytest.fixture
def club(tmp_path: Path) -> Club:
    """A founder with three events."""
    return Club(tmp_path / "a")


@pytest.fixture
def forged(club: Club) -> Club:
    """The last payload was replaced; checksum, link and signature are as they were."""
    club.change("UPDATE events SET payload = ? WHERE position = (SELECT max(position) FROM events)", FORGED)
    return club


def test_a_forged_payload_is_not_opened(forged: Club) -> None:
    """COM-04: whoever opens the log rehashes what it reads: db_corrupt, and the event is named."""
    with tallystick.open(forged.log_url) as store, pytest.raises(errors.EventLogError) as refusal:
        forged.log(store)
    assert refusal.value.code == "db_corrupt"
    assert "seq 3" in refusal.value.reason


def test_a_payload_that_is_forged_while_a_log_is_open_is_not_served(club: Club) -> None:
    """COM-04: news are rehashed as they are read, and nothing of them is taken in."""
    with tallystick.open(club.log_url) as store:
        log = club.log(store)
        club.say("three")
        club.change("UPDATE events SET payload = ? WHERE position = (SELECT max(position) FROM events)", FORGED)
        with pytest.raises(errors.Damaged, match="seq 4"):
            log.refresh()
        assert [event.data.get("text") for event in log.replay(event_types=["chat.message.sent"])] == ["one", "two"]


def test_a_view_is_not_folded_over_a_forged_payload(forged: Club) -> None:
    """COM-07: the runners of projections read the log as the log itself does."""
    with tallystick.open(forged.log_url) as store, pytest.raises(errors.Damaged, match="seq 3"):
        Live(store, Chat()).catch_up()


def test_every_verification_finds_a_forged_payload(forged: Club) -> None:
    """COM-04: `tally verify`, `status --verify` and whatever else checks signatures rehash what was signed."""
    with tallystick.open(forged.log_url, readonly=True) as store:
        assert [(each.what, each.seq) for each in signatures.problems(store)] == [("signature", 3)]
    assert forged.statuses() == {"verify": 1, "status --verify": 1}
    said = json.loads(forged.run("status", str(forged.place), "--verify", "--json").stdout)
    assert 3 in {problem["seq"] for problem in said["problems"]}


# --- what is kept aside ----------------------------------------------------------------------------------------------


@pytest.fixture
def forked(club: Club) -> Club:
    """A member has written two events for one place, and the node keeps the proof."""
    with tallystick.open(club.log_url) as store:
        log = club.log(store)
        liar = Author(KeyPair.generate(), club.keys.node)
        log.append_local("community.member.invited", {"node": liar.node}, club.keys)
        liar.lamport = log.head()
        log.append_received(liar.write("community.member.joined", {"invite": liar.node}))
        log.take_in(log.replica.plan([liar.entry(data={"n": 1}), liar.entry(data={"n": 2})]))
        assert log.replica.forks() == {liar.node: 2}
    return club


def test_a_fork_of_a_member_does_not_damage_an_honest_node(forked: Club) -> None:
    """COM-05: the proof that is kept beside the feed is signed inside, and every verification says that all is well."""
    with tallystick.open(forked.log_url, readonly=True) as store:
        assert list(signatures.problems(store)) == []
    assert forked.statuses() == {"verify": 0, "status --verify": 0}


def test_a_proof_that_nobody_signed_is_found(forked: Club) -> None:
    """COM-05: what is kept aside is checked by what is signed inside: nobody is called a liar by a forged pair."""
    from tallystick.event import canonical, chain

    with tallystick.open(forked.log_url, readonly=True) as store:
        aside = next(event for event in store.events() if "/aside." in event.stream)
    document = json.loads(aside.payload or b"")
    document["one"]["data"] = {"n": 3}
    payload = canonical.encode(document)
    link = chain.checksum(chain.text(aside, chain.GENESIS).replace(aside.checksum.hex().encode(),
                                                                   chain.checksum(payload).hex().encode()))  # fmt: skip
    values = (payload, chain.checksum(payload), link, aside.position)
    forked.change("UPDATE events SET payload = ?, checksum = ?, link = ? WHERE position = ?", *values)
    with tallystick.open(forked.log_url, readonly=True) as store:
        assert [each.what for each in signatures.problems(store)] == ["signature"]
    assert forked.statuses()["status --verify"] == 1


def test_nothing_can_be_put_aside_past_the_log(club: Club) -> None:
    """COM-04: a program that appends to the store cannot put an unsigned event where the log would read it."""
    with tallystick.open(club.log_url) as store:
        stream = next(store.events()).stream.replace("/", "/aside.")
        meta = {"lamport": 9, "author": club.keys.node, "alg": "ed25519"}
        catalog_free = tallystick.NewEvent("community.aside.event", {"event": {}}, meta=meta)
        with pytest.raises(errors.TallyError):
            store.append(stream, catalog_free)
        assert store.head() == 3

"""Accepting a loss: the damaged range is given up by a recorded decision, and the rest of the log works."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tallystick
from tallystick import NO_STREAM, NewEvent, errors
from tallystick.cli.main import tally
from tallystick.engines.files.directory import accept_loss_files
from tallystick.server.service import open_service
from tallystick.server.settings import Settings
from tallystick.server.tokens import Tokens
from tallystick.store import control
from tallystick.store.loss import ACCEPTED, KIND
from tallystick.store.verify import verify
from tallystick.testing import upkeep

WITHOUT_LOSS = ("damaged_header", "headless_current")
"""Every frame can still be read."""


def left_of(log: Path) -> tuple[list[Any], int]:
    """The events that are left of a damaged log, and its head."""
    with tallystick.open(f"files:{log}", readonly=True) as store:
        return list(store.read(limit=1000, over_holes=True).events), store.head()


def test_what_is_damaged_is_given_up_and_the_log_goes_on(lab: Any, damage: Callable[[Path], None], log: Path) -> None:
    """Settled 15, SAFE-02: all that was left is there, the log is writable, verify names the loss and is content."""
    damage(log)
    damaged = {path.name: path.read_bytes() for path in log.glob("*.log")}
    left, head = left_of(log)
    accepted = tallystick.accept_loss(f"files:{log}")
    assert bool(accepted.losses) is (damage.__name__ not in WITHOUT_LOSS)
    lost = {position for loss in accepted.losses for position in range(loss.first, loss.last + 1)}
    for _ in range(2):
        with tallystick.open(f"files:{log}") as store:
            found = verify(store.log)
            assert found.problems == []
            assert [(hole.first, hole.last) for hole in found.accepted] == [
                (loss.first, loss.last) for loss in accepted.losses
            ]
            there = [event for event in store.read(limit=1000, over_holes=True).events if event.position <= head]
            assert all(event in there for event in left)
            assert len(there) == len(left) or not lost
            assert {event.position for event in there} | lost == set(range(1, head + 1))
            done = store.append("order/new", NewEvent("thing.happened", {}, meta={"source": "other"}))
            assert done.first_position > head
    kept = [path.read_bytes() for path in [*log.glob("quarantine/*"), *log.glob("*.log")]]
    for name, data in damaged.items():
        assert any(path.startswith(data) for path in kept), f"{name} was thrown away"
    for item in accepted.kept:
        assert hashlib.sha256((log / item.file).read_bytes()).hexdigest() == item.sha256


def test_no_seq_is_used_again(lab: Any, damage: Callable[[Path], None], whole: Path, log: Path) -> None:
    """Settled 15: a stream that continued in the lost range continues after it, whether its end is known or not."""
    with tallystick.open(f"files:{whole}", readonly=True) as store:
        ends = {info.stream: info.seq for info in store.streams()}
    damage(log)
    tallystick.accept_loss(f"files:{log}")
    with tallystick.open(f"files:{log}") as store:
        for stream, seq in ends.items():
            if store.stream_head(stream) is None:
                continue  # all of it was lost, and no index knew its name
            meta = {} if stream.startswith("run/") else {"source": "s"}
            done = store.append(stream, NewEvent("thing.happened", {}, meta=meta))
            assert done.first_seq > seq
            assert store.stream_head(stream).seq == done.last_seq
        assert verify(store.log).problems == []
    with tallystick.open(f"files:{log}") as store:
        assert verify(store.log).problems == []


def test_what_needs_the_lost_range_is_refused_by_name(lab: Any, log: Path) -> None:
    """Settled 17: a stream, a reading of the log or a state over the range is never made from what is left."""
    lab.damages["hole_in_the_middle"](log)
    (loss, *_) = tallystick.accept_loss(f"files:{log}").losses
    with tallystick.open(f"files:{log}") as store:
        assert store.read(limit=1000).through == loss.first - 1
        with pytest.raises(errors.HistoryLost, match=f"positions {loss.first} to {loss.last}"):
            store.read(after=loss.first - 1)
        with pytest.raises(errors.HistoryLost):
            list(store.events())
        assert store.read(after=store.log.losses()[-1].last, limit=1000).events
        refused = 0
        for info in store.streams():
            try:
                store.read_stream(info.stream)
            except errors.HistoryLost:
                refused += 1
        assert refused
        with pytest.raises(errors.HistoryLost):
            store.read(after=loss.last - 1, limit=1)


def test_the_fact_names_the_loss_and_its_evidence(lab: Any, log: Path) -> None:
    """SAFE-02: the audit trail has the bounds, what streams lost, where the bytes are kept, what was on record."""
    lab.damages["missing_segment"](log)
    tallystick.accept_loss(f"files:{log}")
    with tallystick.open(f"files:{log}") as store:
        (fact,) = [event for event in control.audit(store.log) if event.type == ACCEPTED]
        assert fact.stream.startswith(f"{KIND}/")
        (loss,) = store.log.losses()
        (told,) = fact.data["ranges"]
        assert (told["first"], told["last"], told["indexed"]) == (loss.first, loss.last, True)
        assert sum(each["last"] - each["first"] + 1 for each in fact.data["streams"]) == loss.count
        assert fact.data["on_record"]
        assert store.log.damage.known() == []


def test_a_dry_run_says_the_same_and_changes_nothing(lab: Any, damage: Callable[[Path], None], log: Path) -> None:
    """What would be lost is reported before it is lost."""
    damage(log)
    image = {path: path.read_bytes() for path in log.rglob("*") if path.is_file()}
    would = tallystick.accept_loss(f"files:{log}", dry_run=True)
    assert image == {path: path.read_bytes() for path in log.rglob("*") if path.is_file()}
    done = tallystick.accept_loss(f"files:{log}")
    assert [(loss.first, loss.last) for loss in would.losses] == [(loss.first, loss.last) for loss in done.losses]
    assert (would.streams, would.uncertain) == (done.streams, done.uncertain)


def test_a_loss_without_a_fact_is_a_finding(lab: Any, log: Path) -> None:
    """SAFE-02: lost ranges without a fact are not a decision: verify names them, and appends are refused."""
    lab.damages["hole_in_the_middle"](log)
    accept_loss_files(str(log), clock=lambda: 1, dry_run=False)
    with tallystick.open(f"files:{log}") as store:
        assert {problem.what for problem in verify(store.log).problems} == {"loss"}
        with pytest.raises(errors.Damaged):
            store.append("order/0", NewEvent("thing.happened", {}))
    assert tallystick.accept_loss(f"files:{log}").losses
    with tallystick.open(f"files:{log}") as store:
        assert verify(store.log).problems == []
        store.append("order/new", NewEvent("thing.happened", {}), expected=NO_STREAM)


def test_a_whole_log_has_nothing_to_accept(lab: Any, log: Path) -> None:
    """Nothing is made, and no fact is recorded."""
    before = lab.content(log)
    assert tallystick.accept_loss(f"files:{log}").losses == ()
    assert lab.content(log) == before


def test_ids_of_lost_events_that_an_index_knew_are_not_used_again(lab: Any, whole: Path, log: Path) -> None:
    """A retry of an append whose event is lost is refused, not written a second time."""
    lab.damages["missing_segment"](log)
    (loss,) = tallystick.accept_loss(f"files:{log}").losses
    with tallystick.open(f"files:{whole}", readonly=True) as store:
        (lost,) = store.read(after=loss.first, limit=1).events
    with tallystick.open(f"files:{log}") as store, pytest.raises(errors.DuplicateId):
        store.append(lost.stream, NewEvent(lost.type, lost.data, id=lost.id, meta={"source": "s"}))


def test_an_accepted_loss_survives_a_missing_index(lab: Any, log: Path) -> None:
    """The loss is in the segments: indexes made again know it too."""
    lab.damages["hole_in_the_middle"](log)
    accepted = tallystick.accept_loss(f"files:{log}")
    shutil.rmtree(log / "index")
    with tallystick.open(f"files:{log}") as store:
        assert store.log.losses() == list(accepted.losses)
        assert verify(store.log).problems == []


def test_the_command_says_what_is_lost_and_verify_lists_it(lab: Any, log: Path) -> None:
    """Settled 15: first as a trial, then for good; afterwards verify and doctor end with 0, and list the loss."""
    lab.damages["damaged_current"](log)
    run, url = CliRunner(), f"files:{log}"
    assert run.invoke(tally, ["verify", url]).exit_code == 1
    trial = run.invoke(tally, ["doctor", url, "--accept-loss", "--dry-run"])
    assert trial.exit_code == 0, trial.output
    assert "would be lost: positions" in trial.output
    assert run.invoke(tally, ["verify", url]).exit_code == 1
    done = run.invoke(tally, ["doctor", url, "--accept-loss"])
    assert done.exit_code == 0, done.output
    assert "kept: quarantine/current.log" in done.output
    for command in ("verify", "doctor"):
        after = run.invoke(tally, [command, url])
        assert after.exit_code == 0, after.output
        assert "accepted loss: positions" in after.output
    told = json.loads(run.invoke(tally, ["verify", url, "--json"]).output)
    assert (told["ok"], len(told["accepted"])) == (True, 1)
    assert run.invoke(tally, ["doctor", url, "--accept-loss", "--repair"]).exit_code == 2
    assert ACCEPTED in run.invoke(tally, ["audit", url]).output


def test_an_engine_that_does_not_offer_it_says_so(tmp_path: Path) -> None:
    """It is refused by name, and nothing is changed."""
    tallystick.open(f"sqlite:{tmp_path}/log.db").close()
    done = CliRunner().invoke(tally, ["doctor", f"sqlite:{tmp_path}/log.db", "--accept-loss"])
    assert done.exit_code == 1
    assert "does not offer that" in done.output


@pytest.mark.parametrize("indexed", [True, False])
def test_tokens_from_before_a_loss_count_no_more_if_a_revocation_may_be_lost(
    lab: Any, indexed: bool, log: Path
) -> None:
    """Settled 15: no token of the remaining facts is accepted; new tokens can be issued, and are valid."""
    with tallystick.open(f"files:{log}") as store:
        before = Tokens(store).issue("admin", actor="root")
        for number in range(3):
            store.append("order/0", NewEvent("thing.happened", {"number": number, "text": "x" * 900}))
    lab.bitten(log / "current.log", 0.9)
    if not indexed:
        shutil.rmtree(log / "index")
    (loss,) = tallystick.accept_loss(f"files:{log}").losses
    assert loss.is_indexed is indexed
    with tallystick.open(f"files:{log}") as store:
        tokens = Tokens(store)
        assert tokens.required
        if indexed:
            assert tokens.check(before.secret).actor == "root"
            return
        with pytest.raises(errors.TokenRefused):
            tokens.check(before.secret)
        after = tokens.issue("admin", actor="root")
        for seen in (tokens, Tokens(store)):
            assert seen.check(after.secret).actor == "root"
            with pytest.raises(errors.TokenRefused):
                seen.check(before.secret)


def test_a_service_over_a_loss_asks_for_tokens_if_any_may_have_been_issued(lab: Any, log: Path) -> None:
    """Settled 15: without an index it is not known whether there were tokens, so access stays refused."""
    shutil.rmtree(log / "index")
    lab.damages["damaged_current"](log)
    tallystick.accept_loss(f"files:{log}")
    with open_service(Settings(url=f"files:{log}")).store as store:
        tokens = Tokens(store)
        assert tokens.required
        assert tokens.check(tokens.issue("admin", actor="root").secret).actor == "root"


def test_a_log_with_a_loss_is_not_moved_as_if_it_were_whole(lab: Any, log: Path, tmp_path: Path) -> None:
    """Settled 17: an export of all and a copy are refused by name; an export of what comes after the loss is not."""
    lab.damages["hole_in_the_middle"](log)
    last = tallystick.accept_loss(f"files:{log}").losses[-1].last
    run, url = CliRunner(), f"files:{log}"
    for arguments in (["export", url], ["export", url, "--whole"], ["copy", url, f"files:{tmp_path}/other"]):
        done = run.invoke(tally, arguments)
        assert done.exit_code == 1, (arguments, done.output)
        assert "are lost" in done.output
    after = run.invoke(tally, ["export", url, "--after", str(last)])
    assert after.exit_code == 0
    assert ACCEPTED in after.output


def test_maintenance_goes_on_around_a_loss(lab: Any, log: Path) -> None:
    """What lies around a loss is pruned, erased and compressed as ever, and the loss stays what it is."""
    lab.damages["missing_segment"](log)
    (loss,) = tallystick.accept_loss(f"files:{log}").losses
    with tallystick.open(f"files:{log}", segment_bytes_max=lab.segment_bytes_max) as store:
        upkeep.prune(store, "order/1", 2)
        upkeep.erase(store, "order/2", 2)
        store.log.reclaim(compress_before=1 << 62, progress=lambda done: None)
        assert verify(store.log).problems == []
    with tallystick.open(f"files:{log}") as store:
        assert store.log.losses() == [loss]
        found = verify(store.log)
        assert (found.problems, len(found.accepted)) == ([], 1)

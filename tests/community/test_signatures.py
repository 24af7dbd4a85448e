"""What nobody signed does not come into a community's log, and what came in another way is found."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import BaseModel

import tallystick
from tallystick import Catalog, NewEvent, Store, errors
from tallystick.cli.main import tally
from tallystick.community import EventLog, KeyPair
from tallystick.community.signatures import problems
from tallystick.server.service import open_service
from tallystick.server.settings import Settings
from tallystick.server.verification import begin_verify
from tallystick.store.maintenance import Maintenance
from tallystick.testing import upkeep
from tallystick.testing.community.people import keys

TYPE = "chat.message.sent"


class Message(BaseModel):
    """What a program of its own would take for a message."""

    text: str


@pytest.fixture
def store(tmp_path: Path, open_log: Callable[..., EventLog], founder: KeyPair) -> Store:
    """A community's store with three events, opened by a program that knows one of its types."""
    log = open_log(founder.node, node=founder.node, file="log.db")
    log.append_local("community.created", {}, founder)
    for text in ("one", "two"):
        log.append_local(TYPE, {"channel": "c", "text": text}, founder)
    catalog = Catalog()
    catalog.register(TYPE, Message, version=1)
    return tallystick.open(f"sqlite:{tmp_path / 'log.db'}", catalog=catalog)


def forged(store: Store, **fields: bytes) -> tuple[str, NewEvent]:
    """An event that goes on where the founder's feed ends."""
    last = list(store.events())[-1]
    meta = last.metadata | {"lamport": last.metadata["lamport"] + 1}
    return last.stream, NewEvent(TYPE, {"text": "forged"}, meta=meta, **fields)  # type: ignore[arg-type]


def test_an_event_that_nobody_signed_is_refused(store: Store) -> None:
    """COM-04: whoever can write to the store and has a catalog cannot put words into an author's feed."""
    stream, event = forged(store)
    with store:
        with pytest.raises(errors.InvalidValue, match="only signed events"):
            store.append(stream, event)
        assert store.head() == 3
        assert list(problems(store)) == []


def test_what_is_kept_aside_is_signed_inside(store: Store) -> None:
    """COM-04: such a stream is no feed; what it holds has to be signed, and only the log writes there unsigned."""
    stream, event = forged(store)
    aside = stream.replace("/", "/aside.")
    with store:
        with pytest.raises(errors.InvalidValue, match="only signed events"):
            store.append(aside, event)
        _, signed = forged(store, signature=bytes(64))
        store.append(aside, signed)
        (found,) = problems(store)
        assert (found.stream, found.what) == (aside, "signature")


@pytest.mark.parametrize("of_another", [False, True])
def test_a_signature_that_is_not_the_authors_is_found(
    store: Store, tmp_path: Path, founder: KeyPair, of_another: bool
) -> None:
    """COM-04: `tally verify` names the event, and says no."""
    signature = keys(2).sign(b"something") if of_another else bytes(64)
    stream, event = forged(store, signature=signature)
    with store:
        store.append(stream, event)
        (found,) = problems(store)
        assert (found.stream, found.seq, found.what) == (stream, 4, "signature")
    done = CliRunner().invoke(tally, ["verify", f"sqlite:{tmp_path / 'log.db'}", "--json"])
    assert done.exit_code == 1
    assert [problem["seq"] for problem in json.loads(done.stdout)["problems"]] == [4]


def test_a_service_finds_it_too(store: Store, tmp_path: Path) -> None:
    """COM-04, LH-17: verification in the background counts through a third time, for the signatures."""
    stream, event = forged(store, signature=bytes(64))
    with store:
        store.append(stream, event)
    service = open_service(Settings(url=f"sqlite:{tmp_path / 'log.db'}", port=0))
    try:
        jobs = service.operations.jobs
        job = begin_verify(service, by="a test")
        until = time.monotonic() + 30
        while (done := jobs.get(job.id)).state == "running" and time.monotonic() < until:
            time.sleep(0.01)
        assert (done.state, done.total) == ("done", 3 * 4)
        assert done.result["unchecked"] == []
        assert [(problem["what"], problem["seq"]) for problem in done.result["problems"]] == [("signature", 4)]
    finally:
        asyncio.run(service.stop())


def test_a_service_that_cannot_check_signatures_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """COM-04, LH-17: without the extra nothing is called wrong, and the report names what was left out."""
    with store:
        monkeypatch.setitem(sys.modules, "tallystick.community", None)
        found = store.verify()
    (line,) = found.unchecked
    assert line.startswith("signatures: tallystick.community is not installed")
    assert found.ok


def test_the_rest_of_a_pruned_feed_is_no_false_alarm(store: Store, tmp_path: Path) -> None:
    """COM-04: the first event that is left follows the link of the cut."""
    with store:
        stream = list(store.events())[-1].stream
        cut = upkeep.cut_of(store, stream, 2)
        made = upkeep.snapshot_of(store, stream, b"{}", seq=2, link=cut.link)
        facts = [upkeep.snapshot_fact(made), upkeep.pruned_fact(cut)]
        store.record(facts, require=[(stream, 3)], maintenance=Maintenance(snapshots=(made,), cuts=(cut,)))
        assert [event.seq for event in store.read_stream(stream, after=2)] == [3]
        assert list(problems(store)) == []
    assert CliRunner().invoke(tally, ["verify", f"sqlite:{tmp_path / 'log.db'}"]).exit_code == 0

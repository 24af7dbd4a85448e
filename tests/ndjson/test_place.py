"""Directories, numbers, the bytes of a line, and what is refused."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from pathlib import Path

import pytest

import tallystick
from tallystick import NewEvent, errors
from tallystick.engines.ndjson import paths
from tallystick.event import canonical
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.maintenance import Maintenance
from tallystick.store.prepare import Part, Request
from tallystick.store.transfer import Transfer
from tallystick.store.verify import verify
from tallystick.testing.builders import event, events, named
from tallystick.testing.clock import ManualClock

COMMAND = CommandRecord(CommandKey("acme", "ada", "POST /runs", "k1"), b"h" * 32, b"{}", 1)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A place for a store."""
    return f"ndjson:{tmp_path}/store"


def test_a_line_is_one_canonical_object_that_proves_itself(url: str, tmp_path: Path) -> None:
    """RUN-01, settled 11: every line is canonical JSON with its checksum, its link, its commit and its own hash."""
    with tallystick.open(url, clock=ManualClock()) as store:
        store.append("run/a", [named(1, meta={"org": "ü"}), named(2)])
        links = [item.link.hex() for item in store.read_stream("run/a")]
    data = (tmp_path / "store/runs/a/events.ndjson").read_bytes()
    texts = data.split(b"\n")
    assert texts.pop() == b""
    for number, text in enumerate(texts):
        line = json.loads(text)
        assert text == canonical.encode(line)
        assert (line["seq"], line["commit"], line["link"]) == (number + 1, [1, 2], links[number])
        body = text.rpartition(b',"whole"')[0]
        assert line["whole"] == hashlib.sha256(body).hexdigest()
        assert line["checksum"] == hashlib.sha256(canonical.encode(line["payload"])).hexdigest()


@pytest.mark.parametrize("run", ["..", "a/../../b", "../x", ".", "", "A", "a\\b", "a b", "a\n", "é"])
def test_a_run_id_cannot_leave_its_directory(url: str, tmp_path: Path, run: str) -> None:
    """RUN-01: an id that is not a plain lower-case name is refused, and nothing is created."""
    with tallystick.open(url) as store, pytest.raises(errors.InvalidName):
        store.append(f"run/{run}", event())
    assert not (tmp_path / "store/runs").exists()


@pytest.mark.parametrize("run", ["a", "0", "a.b", "a..", "a:b", "a=b+c@d", "con", "nul.txt", "x" * 191])
def test_every_run_has_a_directory_of_its_own(run: str) -> None:
    """LH-10: names that a file system could misread are escaped, plain ones are used unchanged."""
    place = paths.path_of(f"run/{run}")
    name = place.removeprefix("runs/")
    assert "/" not in name
    assert ":" not in name
    assert not name.endswith(".")
    if run in ("a", "0", "a.b", "a=b+c@d"):
        assert name == run


def test_no_two_streams_share_a_directory() -> None:
    """LH-10: the escapes are one to one, also if a file system folds upper and lower case."""
    streams = [f"run/{name}" for name in ("a", "a:", "a.", "con", "aux", "a-")]
    streams += [f"tally.x/{name}" for name in ("a", "A", "aB", "AB", "con")]
    assert len({paths.path_of(stream).lower() for stream in streams}) == len(streams)


def test_streams_that_are_no_runs_are_refused_by_capability(url: str) -> None:
    """Each part that the engine lacks is refused by its name, and nothing is written."""
    with tallystick.open(url) as store:
        with pytest.raises(errors.UnsupportedCapability, match="any_stream"):
            store.append("order/1", event())
        with pytest.raises(errors.UnsupportedCapability, match="multi_stream"):
            store.append_all([("run/a", [event()], 0), ("run/b", [event()], 0)])
        with pytest.raises(errors.UnsupportedCapability, match="maintenance"):
            store.record([("tally.run/a", NewEvent("tally.x", {}))], maintenance=Maintenance())
        (outcome,) = store.submit([Request([Part("run/a", [event()])], command=COMMAND)])
        assert isinstance(outcome, errors.UnsupportedCapability)
        assert outcome.capability == "commands"
        with pytest.raises(errors.UnsupportedCapability, match="transfer"):
            store.log.receive(Transfer(after=0, events=()))
        assert store.streams() == []


def test_positions_are_unique_and_rise_within_a_run(url: str) -> None:
    """EVT-01: a position names one event of the store, over reopening, and within a run it rises with the seq."""
    for _ in range(2):
        with tallystick.open(url) as store:
            for name in ("a", "b", "c"):
                store.append(f"run/{name}", events(2))
    with tallystick.open(url, readonly=True) as store:
        whole = store.read().events
        assert len({item.position for item in whole}) == 12
        assert sorted(item.position for item in whole) == [item.position for item in whole]
        for stream in ("run/a", "run/b", "run/c"):
            assert [item.seq for item in whole if item.stream == stream] == [1, 2, 3, 4]


@pytest.mark.parametrize("lost", ["streams.ndjson", "runs/b/synced", "runs/a/lease.ndjson"])
def test_a_lost_helper_file_is_made_again(url: str, tmp_path: Path, lost: str) -> None:
    """RUN-01: the log alone is the truth: without the list of streams, the mark or the leases nothing is lost."""
    with tallystick.open(url) as store:
        for name in ("a", "b"):
            store.append(f"run/{name}", events(3))
        before = {name: store.read_stream(f"run/{name}") for name in ("a", "b")}
    (tmp_path / "store" / lost).unlink()
    with tallystick.open(url) as store:
        for name in ("a", "b"):
            store.append(f"run/{name}", event())
            assert [item.link for item in store.read_stream(f"run/{name}")][:3] == [e.link for e in before[name]]
        assert verify(store.log).ok


def test_a_run_that_was_copied_here_is_taken_in(url: str, tmp_path: Path) -> None:
    """RUN-01: a run is its directory. It can be moved to another store and continues there."""
    with tallystick.open(url) as store:
        store.append("run/a", events(3))
    other = f"ndjson:{tmp_path}/other"
    with tallystick.open(other) as store:
        store.append("run/b", event())
    shutil.copytree(tmp_path / "store/runs/a", tmp_path / "other/runs/a")
    with tallystick.open(other) as store:
        assert store.append("run/a", event(), expected=3).seq == 4
        assert "run/a" in store.report().recovered[0]
        assert verify(store.log).ok


def test_a_log_that_is_gone_is_damage(url: str, tmp_path: Path) -> None:
    """Settled 15: a mark without its log shows that events were lost."""
    with tallystick.open(url) as store:
        store.append("run/a", events(3))
    (tmp_path / "store/runs/a/events.ndjson").unlink()
    with tallystick.open(url) as store, pytest.raises(errors.Damaged, match="run/a"):
        store.append("run/a", event())


def test_a_log_cut_under_its_writer_is_damage(url: str, tmp_path: Path) -> None:
    """Settled 15: a writer that finds its log shorter than before writes nothing more to it."""
    with tallystick.open(url) as store:
        store.append("run/a", events(3))
        log = tmp_path / "store/runs/a/events.ndjson"
        cut = log.read_bytes()[:600]
        log.write_bytes(cut)
        with pytest.raises(errors.Damaged, match="shorter"):
            store.append("run/a", event())
        assert log.read_bytes() == cut


def test_control_facts_are_kept_too(url: str) -> None:
    """EVT-05: settings and other control facts are chained and verified in a store of runs as in other engines."""
    with tallystick.open(url) as store:
        store.configure(secrets="warn")
        store.append("run/a", event())
    with tallystick.open(url) as store:
        assert store.settings["secrets"] == "warn"
        assert verify(store.log).events == 2


def test_two_handles_write_to_two_runs(url: str) -> None:
    """EVT-09: one lock per run: writers of different runs do not block each other."""
    with tallystick.open(url) as one, tallystick.open(url) as two:
        for number in range(3):
            one.append("run/a", event(number))
            two.append("run/b", event(number))
        assert [item.data["n"] for item in two.read_stream("run/a")] == [0, 1, 2]
        with pytest.raises(errors.LeaseHeld):
            two.append("run/a", event())


def test_a_store_of_a_newer_format_is_refused(url: str, tmp_path: Path) -> None:
    """A newer tallystick wrote it. Nothing is changed."""
    tallystick.open(url).close()
    path = tmp_path / "store/store.json"
    path.write_text(path.read_text().replace('"format":1', '"format":2'))
    with pytest.raises(errors.NewerFormat):
        tallystick.open(url)
    path.write_text("{}")
    with pytest.raises(errors.UnknownUrl):
        tallystick.open(url)


def test_a_flipped_bit_gives_no_store_another_identity(url: str, tmp_path: Path) -> None:
    """Settled 15: every flipped bit of `store.json` is refused, or the identity that is read is the one written."""
    with tallystick.open(url) as store:
        identity = store.log.store_id
    path = tmp_path / "store/store.json"
    written = path.read_bytes()
    for bit in range(8 * len(written)):
        flipped = bytearray(written)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        refused = contextlib.suppress(errors.UnknownUrl, errors.NewerFormat)
        with refused, tallystick.open(url, readonly=True) as store:
            assert (store.log.store_id, store.log.profile) == (identity, "plain"), bit


def test_a_line_of_another_run_is_damage(url: str, tmp_path: Path) -> None:
    """Settled 15: a line proves which run it belongs to; one that was pasted in is refused."""
    with tallystick.open(url) as store:
        store.append("run/a", NewEvent("thing.happened", {}))
        store.append("run/b", NewEvent("thing.happened", {}))
    runs = tmp_path / "store/runs"
    (runs / "a/events.ndjson").write_bytes((runs / "b/events.ndjson").read_bytes())
    with tallystick.open(url) as store, pytest.raises(errors.Damaged, match="run/a"):
        store.read_stream("run/a")

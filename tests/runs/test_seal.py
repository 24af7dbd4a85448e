"""Runs are sealed when they end, go on from snapshots, and can be pruned."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from tallystick import errors, runs, state
from tallystick.event import canonical
from tallystick.runs import journal, recovery, snapshot
from tallystick.state import fingerprints
from tallystick.store.verify import verify

ENGINES = ("ndjson", "sqlite", "files", "memory")


def started(bench: Any, store: Any, run: str = "r") -> runs.RunState:
    return runs.start(store, bench.counting(), run=run, workspace=bench.workspace, inputs=bench.inputs)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_is_sealed_when_it_ends(make_bench: Any, engine: str) -> None:
    """EVT-11: the newest fact about a run that has ended is a fingerprint of its state at its last event."""
    bench = make_bench("seal", engine)
    with bench.open() as store:
        ended = started(bench, store)
        sealed = state.latest(store, "run/r", reducer=runs.STATE.name)
        assert sealed is not None
        assert (sealed.stale, sealed.fact.seq, sealed.fact.link) == ("", ended.seq, ended.link)
        assert sealed.fact.state_hash == hashlib.sha256(snapshot.encode(ended)[:-1]).hexdigest()
        found = state.compare(store, runs.STATE, "run/r")
        assert found.equal
        assert None not in (found.stored, found.full, found.resumed)
        assert verify(store.log).ok


def test_the_table_of_runs_has_the_fingerprint_until_the_run_goes_on(make_bench: Any) -> None:
    """EVT-10, EVT-11: `runs.fingerprint` is what was sealed. A run that goes on has none until it is sealed again."""
    bench = make_bench("table", "sqlite")
    with bench.open() as store:
        started(bench, store)
        row = store.log.run_tables.read("runs")[0]
        fact = state.latest(store, "run/r", reducer=runs.STATE.name).fact
        assert (row["fingerprint"].hex(), row["fingerprint_seq"]) == (fact.fingerprint, fact.seq)
        assert (row["fingerprint_reducer"], row["fingerprint_reducer_version"]) == ("tallystick.run", 1)
        assert row["fingerprint_upcasters"].hex() == fact.upcasters
        reducer = recovery.for_resume(store, "r")
        written = journal.Journal(store, "r", reducer)
        written.record([runs.facts.RunStateChanged(state="running")])
        written.save_snapshot()
        assert store.log.run_tables.read("runs")[0]["fingerprint"] is None
        assert state.latest(store, "run/r").stale
        written.seal()
        written.save_snapshot()
        assert store.log.run_tables.read("runs")[0]["fingerprint_seq"] == reducer.state.seq


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_that_was_killed_before_its_seal_is_sealed_by_the_next_resume(make_bench: Any, engine: str) -> None:
    """EVT-11: there is nothing left to do but the seal."""
    bench = make_bench("late", engine)
    with bench.open() as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal.Journal, "seal", lambda self: None)
        started(bench, store)
        assert state.latest(store, "run/r") is None
        patch.undo()
        runs.resume(store, bench.counting(), "r", workspace=bench.workspace)
        sealed = state.latest(store, "run/r")
        assert sealed is not None
        assert not sealed.stale


@pytest.mark.parametrize("engine", ["sqlite", "files", "memory"])
def test_a_pruned_run_is_shown_and_resumed_from_its_snapshot(make_bench: Any, engine: str) -> None:
    """EVT-04, RUN-05: after a prune the state is the same, and resume repeats nothing."""
    bench = make_bench("pruned", engine)
    with bench.open() as store:
        before = started(bench, store)
        counted = bench.counted()
        ends = [event.seq for event in journal.events_of(store, "run/r") if runs.STATE.ends_step(event)]
        cut = ends[len(ends) // 2] + 1
        gone = state.prune(store, "run/r", before=cut, reducers=[runs.STATE], snapshot=True, accept=True)
        assert gone == cut - 1
        assert snapshot.encode(runs.load(store, "r").state) == snapshot.encode(before)
        found = runs.replay(store, "r")
        assert (found.equal, found.since) == (True, cut - 1)
        assert recovery.validate(store, "r") == before.seq - gone
        assert [item.node for item in runs.telemetry(store).activities]
        with pytest.raises(errors.HistoryPruned):
            runs.load(store, "r", whole=True)
        again = runs.resume(store, bench.counting(), "r", workspace=bench.workspace, force=["total"])
        assert again.run_state == "finished"
        repeated = bench.counted() - counted
        assert repeated["total"] == 1
        assert "split" not in repeated
        assert verify(store.log).ok


def test_resume_reads_the_events_after_the_snapshot_alone(make_bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-05: a long run is not replayed from its first event."""
    bench = make_bench("tail", "sqlite")
    monkeypatch.setattr(journal, "SNAPSHOT_EVENTS", 10)
    with bench.open() as store:
        ended = started(bench, store)
        read: list[int] = []
        pages = journal.pages_of

        def noted(*given: Any, **options: Any) -> Any:
            for page in pages(*given, **options):
                read.extend(event.seq for event in page)
                yield page

        monkeypatch.setattr(journal, "pages_of", noted)
        assert runs.load(store, "r").state.seq == ended.seq
        assert len(read) < 10 < ended.seq
        runs.load(store, "r", whole=True)
        assert 1 in read


def test_a_sealed_snapshot_json_is_the_start_and_a_forged_one_is_not(make_bench: Any) -> None:
    """RUN-05: snapshot.json is gone on from only if the run was sealed over exactly this state."""
    bench = make_bench("document", "ndjson")
    with bench.open() as store:
        ended = started(bench, store)
        assert runs.load(store, "r").begun_at == ended.seq
        path = Path(store.log.run_documents.place("r")) / snapshot.NAME
        forged = snapshot.decode(path.read_bytes())
        forged.work_items[0].state = "pending"
        path.write_bytes(snapshot.encode(forged))
        again = runs.load(store, "r")
        assert again.begun_at == 0
        assert snapshot.encode(again.state) == snapshot.encode(ended)


@pytest.mark.parametrize("engine", ["sqlite", "memory"])
def test_a_fork_is_sealed_and_pruned_too(make_bench: Any, engine: str) -> None:
    """EVT-11: what a fork inherited lies in its protected snapshot, so its own stream is enough."""
    bench = make_bench("forked", engine)
    with bench.open() as store:
        started(bench, store)
        runs.fork(store, "r", "total", child="f", workspace=str(bench.root / "f"))
        ended = runs.resume(store, bench.counting(), "f")
        assert not state.latest(store, "run/f").stale
        state.prune(store, "run/f", before=ended.seq + 1, reducers=[runs.STATE], snapshot=True, accept=True)
        assert snapshot.encode(runs.load(store, "f").state) == snapshot.encode(ended)
        assert verify(store.log).ok


@pytest.mark.parametrize("pruned", [False, True])
def test_the_state_of_a_run_is_a_state_like_any_other(make_bench: Any, pruned: bool) -> None:
    """EVT-02: folded, folded twice through JSON, and loaded: the same canonical bytes."""
    bench = make_bench("reducer", "memory")
    with bench.open() as store:
        ended = started(bench, store)
        wanted = snapshot.encode(ended)[:-1]
        assert state.check_determinism(store, runs.STATE, "run/r").body == wanted
        if pruned:
            state.prune(store, "run/r", before=ended.seq + 1, reducers=[runs.STATE], snapshot=True, accept=True)
        assert state.fold(store, runs.STATE, "run/r").body == wanted
        assert canonical.encode_state(state.fold(store, runs.STATE, "run/r").value) == wanted
        assert not fingerprints.latest(store, "run/r").stale


def test_a_run_directory_that_is_gone_is_damage_of_that_run_alone(make_bench: Any) -> None:
    """RUN-05: the run is named, with its directory; the others go on."""
    bench = make_bench("gone", "ndjson")
    with bench.open() as store:
        for run in ("r", "s"):
            started(bench, store, run)
        place = store.log.run_documents.place("r")
    shutil.rmtree(place)
    with bench.open() as store:
        assert list(runs.run_ids(store)) == ["s"]
        with pytest.raises(errors.Damaged, match=r"directory .*/runs/r is gone"):
            runs.load(store, "r")
        with pytest.raises(errors.SnapshotInvalid, match="is gone"):
            runs.resume(store, bench.counting(), "r")
        assert not verify(store.log).ok
        assert runs.resume(store, bench.counting(), "s", workspace=bench.workspace).run_state == "finished"
    assert not Path(place).exists()


def test_a_missing_log_beside_a_valid_snapshot_is_named(make_bench: Any) -> None:
    """RUN-05, settled 22: the error says what is there and what is not."""
    bench = make_bench("log", "ndjson")
    with bench.open() as store:
        ended = started(bench, store)
        place = Path(store.log.run_documents.place("r"))
    for name in ("events.ndjson", "synced"):
        (place / name).unlink()
    with (
        bench.open() as store,
        pytest.raises(errors.SnapshotInvalid, match=rf"snapshot.json is valid and shows the run up to seq {ended.seq}"),
    ):
        runs.resume(store, bench.counting(), "r")

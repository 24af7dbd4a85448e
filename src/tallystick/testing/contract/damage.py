"""Contract: damage that was found stays on record and stops appends, until a recorded decision clears it."""

from __future__ import annotations

import threading
from contextlib import suppress

import msgspec
import pytest

from tallystick import Store, errors
from tallystick.store import control
from tallystick.store.capabilities import DURABLE
from tallystick.store.events import Problem
from tallystick.store.repair import clear, repair
from tallystick.store.verify import examine, verify
from tallystick.testing.builders import event, events
from tallystick.testing.contract.harness import Contract, EngineHarness, needs

FOUND = Problem("checksum", "the payload does not have its checksum", 0, "run/a", 2)
ELSEWHERE = Problem("structure", "a page of the log cannot be read")
LATER = Problem("checksum", "the payload does not have its checksum", 0, "run/a", 1)


class DamageContract(Contract):
    """The record of damage (`store/damage.py`)."""

    def test_appends_are_refused_by_name_while_damage_is_on_record(self, store: Store) -> None:
        """SAFE-02: the refusal names what was found, nothing is written, and reads still work."""
        store.append("run/a", events(3))
        whole = store.read().events
        store.log.damage.keep([FOUND])
        for _ in range(2):
            with pytest.raises(errors.Damaged, match="run/a seq 2: the payload does not have its checksum"):
                store.append("run/a", event())
        with pytest.raises(errors.Damaged):
            store.append("run/a", events(5))
        assert store.read().events == whole
        assert [found.seq for found in store.read_stream("run/a")] == [1, 2, 3]
        assert examine(store.log).ok

    def test_what_is_on_record_is_reported(self, store: Store) -> None:
        """SAFE-02: doctor, health and verify show it, also if this run finds nothing."""
        store.append("run/a", events(3))
        assert store.report().problems == ()
        store.log.damage.keep([FOUND, ELSEWHERE])
        assert store.log.damage.known() == [FOUND, ELSEWHERE]
        assert [problem.what for problem in store.report().problems] == ["checksum", "structure"]
        verified = verify(store.log)
        assert not verified.ok
        assert [problem.what for problem in verified.problems] == ["checksum", "structure"]
        assert all("on record" in problem.reason for problem in verified.problems)

    def test_findings_are_kept_once_and_within_a_bound(self, store: Store) -> None:
        """SAFE-02: a check that runs every hour does not let the record grow."""
        for _ in range(3):
            store.log.damage.keep([FOUND])
        assert store.log.damage.known() == [FOUND]
        store.log.damage.keep([Problem("hole", "x", number) for number in range(1, 1000)])
        known = store.log.damage.known()
        assert known[0] == FOUND
        assert 2 <= len(known) <= 100

    @needs(DURABLE)
    def test_what_is_on_record_outlives_the_process(self, harness: EngineHarness) -> None:
        """SAFE-02: a reopened store knows what was found before, and opens for reading."""
        with harness.open() as store:
            store.append("run/a", events(3))
            store.log.damage.keep([ELSEWHERE])
        for _ in range(2):
            with harness.open() as store:
                assert store.log.damage.known() == [ELSEWHERE]
                assert len(store.read().events) == 3
                with pytest.raises(errors.Damaged, match="a page of the log cannot be read"):
                    store.append("run/a", event())
        with harness.open(readonly=True) as reader:
            assert not verify(reader.log).ok

    @needs(DURABLE)
    def test_what_another_handle_finds_stops_the_writer(self, harness: EngineHarness) -> None:
        """SAFE-02: `tally verify` reads while a service runs, and its findings stop the appends of the service."""
        writer = harness.open()
        writer.append("run/a", events(3))
        reader = harness.open(readonly=True)
        reader.log.damage.keep([FOUND])
        with pytest.raises(errors.Damaged, match="checksum"):
            writer.append("run/a", event())
        assert writer.log.damage.known() == [FOUND]

    def test_the_record_is_cleared_by_verifying_everything_with_a_fact(self, store: Store) -> None:
        """SAFE-02: if nothing is wrong any more, a control fact lists what was on record, and appends work again."""
        store.append("run/a", events(3))
        assert repair(store) is None
        store.log.damage.keep([FOUND, ELSEWHERE])
        verified = repair(store)
        assert verified is not None
        assert verified.ok
        assert store.log.damage.known() == []
        (fact,) = store.read_stream(control.REPAIRS_STREAM)
        assert fact.type == control.DAMAGE_CLEARED
        assert [problem["reason"] for problem in fact.data["on_record"]] == [FOUND.reason, ELSEWHERE.reason]
        assert store.append("run/a", event()).seq == 4
        assert verify(store.log).ok

    def test_what_is_found_during_a_repair_stays_on_record(self, store: Store) -> None:
        """SAFE-02: clearing removes only the findings that the verification looked at."""
        store.append("run/a", events(3))
        store.log.damage.keep([FOUND])
        with suppress(errors.Damaged):  # or the repair says itself that it cannot end
            verified = repair(store, progress=lambda done: store.log.damage.keep([LATER]))
            assert verified is not None
            assert verified.problems == [msgspec.structs.replace(LATER, reason=verified.problems[0].reason)]
        assert LATER in store.log.damage.known()
        with pytest.raises(errors.Damaged):
            store.append("run/a", event())
        again = repair(store)
        assert again is not None
        assert again.ok
        assert store.log.damage.known() == []
        assert store.append("run/a", event()).seq == 4

    def test_what_is_found_while_the_record_is_cleared_stays_on_record(self, harness: EngineHarness) -> None:
        """SAFE-02: also if another handle finds it, after the control fact."""
        store = harness.open()
        store.append("run/a", events(3))
        other = harness.open(readonly=True) if DURABLE in store.log.capabilities else store
        store.log.damage.keep([FOUND])
        with store.log.damage.settling([FOUND]):
            other.log.damage.keep([LATER])
        assert LATER in store.log.damage.known()
        with pytest.raises(errors.Damaged):
            store.append("run/a", event())

    @needs(DURABLE)
    def test_what_several_find_at_once_is_all_kept(self, harness: EngineHarness) -> None:
        """SAFE-02: a handle that records a finding removes none of the others."""
        store = harness.open()
        store.append("run/a", events(3))
        handles = [harness.open(readonly=True) for _ in range(4)]
        findings = [[Problem("hole", f"{mine} {number}", number) for number in range(1, 11)] for mine in range(4)]

        def keep(handle: Store, mine: list[Problem]) -> None:
            for problem in mine:
                handle.log.damage.keep([problem])

        threads = [threading.Thread(target=keep, args=pair) for pair in zip(handles, findings, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(store.log.damage.known()) == {problem for mine in findings for problem in mine}

    def test_a_clearing_that_fails_leaves_the_record(self, store: Store) -> None:
        """SAFE-02: the record is deleted only after its fact is durable."""
        store.append("run/a", events(3))
        store.log.damage.keep([FOUND])
        with pytest.raises(errors.TallyError):
            clear(store, event(type="not a type"), [FOUND])
        assert store.log.damage.known() == [FOUND]
        with pytest.raises(errors.Damaged):
            store.append("run/a", event())

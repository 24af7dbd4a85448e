"""Contract: what a profile requires, the reserved streams, and settings as control facts."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import NewEvent, Store, errors
from tallystick.event.profiles import PROFILES
from tallystick.store import control
from tallystick.store.capabilities import ANY_STREAM, DURABLE
from tallystick.testing.builders import event, named
from tallystick.testing.contract.harness import Contract, EngineHarness, needs

COMPLETE: dict[str, dict[str, Any]] = {
    "lighthouse": {"source": "till", "correlation_id": "c-1"},
    "control-plane": {"actor_type": "user", "actor_id": "u-1", "request_id": "r-1", "org": "acme"},
    "run": {"trace_id": "0" * 32, "span_id": "0" * 16},
}
REQUIRED = [(profile, key) for profile, meta in COMPLETE.items() for key in meta if key not in PROFILES[profile].fill]


class ProfileContract(Contract):
    """Profiles, reserved streams, settings."""

    @pytest.mark.parametrize("profile", COMPLETE)
    def test_a_complete_event_is_taken(self, harness: EngineHarness, profile: str) -> None:
        """CP-03, LH-03, RUN-02: an event with everything its profile requires is stored with that meta."""
        store = harness.open(profile=profile)
        store.append("run/a", event(meta=COMPLETE[profile]))
        assert store.read_stream("run/a")[0].metadata.items() >= COMPLETE[profile].items()

    @pytest.mark.parametrize(("profile", "key"), REQUIRED)
    def test_a_missing_key_is_refused_by_name(self, harness: EngineHarness, profile: str, key: str) -> None:
        """CP-03, LH-03: the error names the event, the key and the profile, and nothing is written."""
        store = harness.open(profile=profile)
        meta = {name: value for name, value in COMPLETE[profile].items() if name != key}
        with pytest.raises(errors.MissingMeta) as refused:
            store.append("run/a", [event(meta=COMPLETE[profile]), event(meta=meta)])
        assert (refused.value.index, refused.value.key, refused.value.profile) == (1, key, profile)
        assert store.head() == 0

    def test_what_a_profile_can_fill_is_filled(self, harness: EngineHarness) -> None:
        """LH-03, RUN-02: a lighthouse store fills the correlation id before the event is hashed."""
        store = harness.open(profile="lighthouse")
        store.append("run/a", event(meta={"source": "till"}))
        found = store.read_stream("run/a")[0]
        assert found.metadata["correlation_id"] == str(found.uuid)

    @pytest.mark.parametrize("profile", ["lighthouse", "run"])
    def test_what_was_filled_in_does_not_spoil_a_retry(self, harness: EngineHarness, profile: str) -> None:
        """An event whose meta the store completed is recognised when it is sent again."""
        store = harness.open(profile=profile)
        meta = {"source": "till"} if profile == "lighthouse" else {}
        first = store.append("run/a", named(1, meta=meta))
        assert store.append("run/a", named(1, meta=meta)).link == first.link

    def test_defaults_are_added_to_every_event(self, harness: EngineHarness) -> None:
        """CP-03: the defaults given to `open` are added, and the value of an event wins."""
        store = harness.open(profile="control-plane", defaults=COMPLETE["control-plane"])
        store.append("run/a", [event(), event(meta={"actor_id": "u-2"})])
        assert [found.metadata["actor_id"] for found in store.read_stream("run/a")] == ["u-1", "u-2"]

    def test_an_unknown_profile_is_refused(self, harness: EngineHarness) -> None:
        """A profile that does not exist is refused before anything is created."""
        with pytest.raises(errors.InvalidValue):
            harness.open(profile="lighthouses")

    @needs(DURABLE)
    def test_the_profile_is_fixed_when_the_store_is_made(self, harness: EngineHarness) -> None:
        """Another profile is refused later. Naming none, or the same one, opens the store with its own."""
        harness.open(profile="lighthouse").close()
        with pytest.raises(errors.InvalidValue) as refused:
            harness.open(profile="run")
        assert "lighthouse" in str(refused.value)
        for options in ({}, {"profile": "lighthouse"}):
            with harness.open(**options) as store:
                assert store.profile.name == "lighthouse"

    @pytest.mark.parametrize("stream", ["tally.store/settings", "tally.x/1", "tally./1"])
    def test_reserved_streams_are_refused_for_users(self, store: Store, stream: str) -> None:
        """EVT-05: only the store writes control facts, so the audit trail cannot be forged through an append."""
        with pytest.raises(errors.ReservedName):
            store.append(stream, event())
        assert store.head() == 0

    @needs(ANY_STREAM)
    def test_kinds_that_only_look_reserved_are_free(self, store: Store) -> None:
        """Only kinds that start with `tally.` are reserved."""
        for stream in ("tally/1", "tallystick/1", "x.tally.store/1"):
            assert store.append(stream, event()).seq == 1

    @needs(ANY_STREAM)
    def test_a_setting_is_recorded_as_a_control_fact(self, store: Store) -> None:
        """EVT-05: a change of the secret guard is an event in the store itself. Setting the same value again is not."""
        store.configure(secrets="warn")
        store.configure(secrets="warn")
        facts = list(control.audit(store.log))
        assert [(found.stream, found.type) for found in facts] == [(control.SETTINGS_STREAM, control.SETTING_CHANGED)]
        assert facts[0].data == {"setting": "secrets", "old": "reject", "new": "warn"}

    @needs(ANY_STREAM, DURABLE)
    def test_a_setting_is_kept_over_reopening(self, harness: EngineHarness) -> None:
        """CP-11: the last recorded setting holds when the store is opened again."""
        with harness.open(secrets="off") as store:
            store.configure(secrets="warn")
        store = harness.open()
        assert store.settings["secrets"] == "warn"
        assert len(list(control.audit(store.log))) == 2

    @needs(ANY_STREAM)
    def test_the_control_plane_keeps_its_guard(self, harness: EngineHarness) -> None:
        """CP-11: in the control-plane profile the secret guard cannot be turned down, and nothing is recorded."""
        store = harness.open(profile="control-plane")
        for mode in ("warn", "off"):
            with pytest.raises(errors.Forbidden):
                store.configure(secrets=mode)
        store.configure(secrets="reject")
        with pytest.raises(errors.InvalidValue):
            store.configure(secrets="maybe")
        assert (store.settings["secrets"], store.head()) == ("reject", 0)

    @needs(ANY_STREAM)
    def test_control_facts_need_no_meta(self, harness: EngineHarness) -> None:
        """The requirements of a profile do not apply to control facts."""
        store = harness.open(profile="lighthouse")
        store.configure(secrets="off")
        assert store.read().events[0].type == control.SETTING_CHANGED

    def test_a_correction_is_a_new_event(self, harness: EngineHarness) -> None:
        """CP-12: stored events stay. A correction is appended, labelled, and names what it corrects."""
        store = harness.open()
        store.append("run/a", named(1))
        before = store.read_stream("run/a")[0]
        label = {"correction": "true"}
        store.append(
            "run/a", NewEvent("thing.corrected", {"n": 2}, meta={"causation_id": str(before.uuid), "tags": label})
        )
        after = store.read_stream("run/a")
        assert after[0] == before
        assert (after[1].metadata["tags"], after[1].metadata["causation_id"]) == (label, str(before.uuid))

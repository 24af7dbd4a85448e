"""Contract: an event that is too large is refused with its size and the limit. A large one is stored with a warning."""

from __future__ import annotations

import warnings

import msgspec
import pytest

from tallystick import NewEvent, Store, errors
from tallystick.event import limits
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.prepare import Part, Request
from tallystick.testing.builders import event, events
from tallystick.testing.contract.harness import Contract, EngineHarness


def _sized(size: int) -> NewEvent:
    """An event whose payload and meta have exactly `size` bytes: `{"x":"…"}` and `{}`."""
    return NewEvent("thing.happened", {"x": "a" * (size - len('{"x":""}') - len("{}"))})


class LimitContract(Contract):
    """LH-04 and the bounds of a commit."""

    def test_an_event_past_the_hard_limit_is_refused(self, store: Store) -> None:
        """LH-04: the error says which event it is, its size and the limit of 1 MiB; nothing is written."""
        with pytest.raises(errors.TooLarge) as refused:
            store.append("run/a", [event(), event(), _sized((1 << 20) + 1)])
        found = refused.value
        assert (found.what, found.size, found.limit) == ("event 2 (thing.happened)", (1 << 20) + 1, 1 << 20)
        assert store.head() == 0

    def test_an_event_at_the_hard_limit_is_stored_with_a_warning(self, store: Store) -> None:
        """LH-04: exactly 1 MiB is accepted and read back unchanged."""
        with pytest.warns(errors.LargeEventWarning):
            store.append("run/a", _sized(1 << 20))
        found = store.read_stream("run/a")[0]
        assert found.payload is not None
        assert len(found.payload) + len(found.meta) == 1 << 20

    def test_past_the_advised_size_there_is_a_warning_that_names_the_caller(self, store: Store) -> None:
        """LH-04: above 64 KiB the event is stored, and the warning points to the line that appended it."""
        with pytest.warns(errors.LargeEventWarning, match=r"event 1 .* 65537 bytes") as caught:
            store.append("run/a", [event(), _sized((64 << 10) + 1)])
        assert [item.filename for item in caught] == [__file__]
        assert store.head() == store.read_stream("run/a")[-1].position

    def test_at_the_advised_size_there_is_no_warning(self, store: Store) -> None:
        """LH-04: exactly 64 KiB is fine."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store.append("run/a", _sized(64 << 10))
        assert len(store.read_stream("run/a")) == 1

    def test_meta_counts_too(self, store: Store) -> None:
        """LH-04: the limit is for payload and meta together."""
        new = NewEvent("thing.happened", {"x": "a" * 600_000}, meta={"note": "b" * 600_000})
        with pytest.raises(errors.TooLarge):
            store.append("run/a", new)
        assert store.head() == 0

    def test_text_counts_in_bytes_and_not_in_characters(self, store: Store) -> None:
        """LH-04: a text of three-byte characters is measured as it is stored."""
        with pytest.raises(errors.TooLarge):
            store.append("run/a", NewEvent("thing.happened", {"x": "☃" * 400_000}))
        assert store.head() == 0

    def test_a_payload_is_limited_by_its_bytes_alone(self, store: Store) -> None:
        """LH-04: 20,001 numbers in 40 KB are accepted, and so is everything else within the limit of bytes."""
        store.append("run/a", NewEvent("thing.happened", {"x": [0] * 20_001}))
        with pytest.warns(errors.LargeEventWarning):
            store.append("run/a", NewEvent("thing.happened", {"x": [0] * (limits.EVENT_BYTES_MAX // 2 - 10)}))
        assert [len(event.data["x"]) for event in store.read_stream("run/a")] == [20_001, 524_278]
        with pytest.raises(errors.TooLarge):
            store.append("run/a", NewEvent("thing.happened", {"x": [{}] * limits.NODES_MAX}))

    def test_a_commit_has_a_bound_of_bytes(self, harness: EngineHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        """LH-04: many events, each small enough, are refused if together they exceed the limit of a commit."""
        monkeypatch.setattr(limits, "COMMIT_BYTES_MAX", 1000)
        store = harness.open()
        with pytest.raises(errors.TooLarge) as refused:
            store.append("run/a", [_sized(100)] * 11)
        assert (refused.value.size, refused.value.limit) == (1100, 1000)
        assert store.head() == 0
        store.append("run/a", [_sized(100)] * 10)

    def test_a_commit_has_a_bound_of_events(self, harness: EngineHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        """The limit is for the whole commit, over all its streams."""
        monkeypatch.setattr(limits, "COMMIT_EVENTS_MAX", 10)
        store = harness.open()
        for parts in ([("run/a", events(11), -1)], [("run/a", events(6), -1), ("run/b", events(5), -1)]):
            with pytest.raises(errors.TooLarge) as refused:
                store.append_all(parts)
            assert (refused.value.size, refused.value.limit) == (11, 10)
        assert store.head() == 0
        store.append("run/a", events(10))

    def test_a_large_commit_is_one_commit(self, store: Store) -> None:
        """Several megabytes in one append are stored completely, chained and in order."""
        done = store.append("run/a", [NewEvent("thing.happened", {"n": n, "x": "a" * 1000}) for n in range(3000)])
        assert (done.first_seq, done.last_seq) == (1, 3000)
        found = store.read_stream("run/a", limit=5000)
        assert [item.data["n"] for item in found] == list(range(3000))

    def test_names_that_are_found_by_an_index_count_in_bytes(self, store: Store) -> None:
        """LH-04: an org or a source of 1,000 bytes is accepted, one of 1,001 is refused before anything is written."""
        fits, too_long = "ü" * 500, "ü" * 500 + "x"
        for key in ("org", "source"):
            with pytest.raises(errors.TooLarge) as refused:
                store.append("run/a", event(meta={key: too_long}))
            assert (refused.value.size, refused.value.limit) == (1001, 1000)
        with pytest.raises(errors.InvalidValue, match="bytes"):
            store.save_checkpoint(too_long, 0)
        assert store.head() == 0
        store.append("run/a", event(meta={"org": fits, "source": fits, "source_seq": 1}))
        assert store.read_stream("run/a")[0].metadata["org"] == fits

    def test_the_key_of_a_command_counts_in_bytes(self, store: Store) -> None:
        """LH-04: a key that an engine could not find again is refused before it shares a commit with others."""
        fits = CommandKey("ü" * 500, "me", "here", "k" * 1494)
        fits.check()
        too_long = CommandRecord(msgspec.structs.replace(fits, key=fits.key + "k"), b"", b"", 0)
        (refused,) = store.submit([Request([Part("run/a", [event()])], command=too_long)])
        assert isinstance(refused, errors.TooLarge)
        assert "2501 bytes" in str(refused)
        assert store.head() == 0

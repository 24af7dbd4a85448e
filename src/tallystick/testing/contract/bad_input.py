"""Contract: for any input, the event is stored exactly, or there is a typed error and the store is unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tallystick import NewEvent, Selection, Store, errors, select
from tallystick.event import canonical
from tallystick.store.capabilities import ANY_STREAM
from tallystick.store.verify import verify
from tallystick.testing.builders import event
from tallystick.testing.clock import ManualClock
from tallystick.testing.contract import hostile, hostile_arguments
from tallystick.testing.contract.harness import Contract, EngineHarness, needs


def _refused_untouched(store: Store, use: Callable[[], Any]) -> errors.TallyError:
    """The typed error of a call that must change nothing. The error can be printed and sent as JSON."""
    head, streams = store.head(), store.streams()
    with pytest.raises(errors.TallyError) as refused:
        use()
    assert (store.head(), store.streams()) == (head, streams)
    assert str(refused.value)
    assert len(str(refused.value)) < 3000
    json.dumps(refused.value.as_json())
    return refused.value


def _kind(value: Any) -> str:
    return type(value).__name__


class BadInputContract(Contract):
    """The body of an event, then everything around it."""

    @pytest.mark.parametrize("value", hostile.REFUSED_VALUES.values(), ids=hostile.REFUSED_VALUES.keys())
    @pytest.mark.parametrize("shape", [lambda x: {"x": x}, lambda x: {"x": [1, {"y": x}]}], ids=["flat", "nested"])
    def test_a_value_without_a_canonical_form_is_refused(
        self, shared: Store, value: Any, shape: Callable[[Any], Any]
    ) -> None:
        """A payload or meta that JSON cannot express exactly is refused with its path, and nothing is written."""
        _refused_untouched(shared, lambda: shared.append("run/a", NewEvent("thing.happened", shape(value))))
        _refused_untouched(shared, lambda: shared.append("run/a", event(meta=shape(value))))

    @pytest.mark.parametrize("root", hostile.REFUSED_ROOTS.values(), ids=hostile.REFUSED_ROOTS.keys())
    def test_a_root_that_is_no_object_is_refused(self, shared: Store, root: Any) -> None:
        """A payload must be a JSON object."""
        _refused_untouched(shared, lambda: shared.append("run/a", NewEvent("thing.happened", root)))

    @pytest.mark.parametrize("text", hostile.REFUSED_TEXTS.values(), ids=hostile.REFUSED_TEXTS.keys())
    def test_text_that_is_not_strict_json_is_refused(self, shared: Store, text: bytes) -> None:
        """JSON text is parsed as strictly as values are checked: by append, and by parse and encode."""
        _refused_untouched(shared, lambda: shared.append("run/a", NewEvent("thing.happened", text)))
        with pytest.raises(errors.InvalidInput):
            canonical.encode(canonical.parse(text))

    @pytest.mark.parametrize(("value", "exact"), hostile.ACCEPTED_VALUES.values(), ids=hostile.ACCEPTED_VALUES.keys())
    def test_unusual_values_are_kept_exactly(self, store: Store, value: Any, exact: bytes) -> None:
        """A value that has a canonical form is stored as exactly those bytes, given as a value, as text and as meta."""
        store.append("run/a", [NewEvent("thing.happened", value), NewEvent("thing.happened", exact)])
        store.append("run/a", NewEvent("thing.happened", json.dumps(value, indent=1), meta=value))
        found = store.read_stream("run/a")
        assert [item.payload for item in found] == [exact] * 3
        assert found[2].meta == exact
        assert all(item.data == value for item in found)

    def test_a_key_of_64_kib_is_kept_exactly(self, store: Store) -> None:
        """A long key is accepted. The event is over the advised size and warns."""
        with pytest.warns(errors.LargeEventWarning):
            store.append("run/a", NewEvent("thing.happened", {hostile.LONG_KEY: 1}))
        assert store.read_stream("run/a")[0].payload == b'{"' + hostile.LONG_KEY.encode() + b'":1}'

    @pytest.mark.parametrize("stream", hostile_arguments.BAD_STREAMS.values(), ids=hostile_arguments.BAD_STREAMS.keys())
    def test_a_bad_stream_name_is_refused(self, shared: Store, stream: Any) -> None:
        """A stream name must have the form `kind/name`, also for reading."""
        for use in (
            lambda: shared.append(stream, event()),
            lambda: shared.read_stream(stream),
            lambda: shared.stream_head(stream),
            lambda: Selection(streams=[stream]),  # type: ignore[arg-type]
        ):
            assert isinstance(_refused_untouched(shared, use), errors.InvalidName)

    @needs(ANY_STREAM)
    @pytest.mark.parametrize(
        "stream", ["a/0", "a-b_c.d0/A:b@c=d+e-f_g.h", "a" * 96 + "/" + "b" * 191, "a/con", "a/0.."]
    )
    def test_the_longest_and_oddest_names_are_taken(self, store: Store, stream: str) -> None:
        """Every name of this form is accepted, also one that means something to a file system."""
        assert store.append(stream, event()).seq == 1
        assert len(store.read_stream(stream)) == 1
        assert [info.stream for info in store.streams()] == [stream]

    @pytest.mark.parametrize("fields", hostile_arguments.BAD_FIELDS.values(), ids=hostile_arguments.BAD_FIELDS.keys())
    def test_a_bad_field_is_refused(self, shared: Store, fields: dict[str, Any]) -> None:
        """Types, versions, ids, times, metas and signatures of the wrong form are typed errors."""
        given = {"type": "thing.happened", "payload": {}} | fields
        error = _refused_untouched(shared, lambda: shared.append("run/a", NewEvent(**given)))
        assert isinstance(error, errors.InvalidInput)

    @pytest.mark.parametrize("time", [1.76e18, -1, 1 << 63, True, None, "now"], ids=repr)
    def test_a_clock_that_gives_no_time_is_refused(self, harness: EngineHarness, time: Any) -> None:
        """SAFE-05: an event is not acknowledged with a time that its field cannot hold, and not recorded at one."""
        clock = ManualClock()
        store = harness.open(clock=clock)
        store.append("run/a", event())
        good, clock.now = clock.now, time
        own = NewEvent("thing.happened", {}, time=1, id=bytes.fromhex("1" * 32))
        for given in (event(), [event(), event()], own):
            error = _refused_untouched(store, lambda given=given: store.append("run/a", given))  # type: ignore[misc]
            assert isinstance(error, errors.InvalidValue)
            assert "clock" in error.message
        clock.now = good
        assert store.append("run/a", event()).seq == 2
        assert verify(store.log).ok

    @pytest.mark.parametrize(
        "expected", [-2, 1 << 63, 1 << 70, 10**5000, "any", "1", 1.0, None, True, [], b"1"], ids=_kind
    )
    def test_a_bad_expectation_is_refused(self, shared: Store, expected: Any) -> None:
        """An expectation is a seq, NO_STREAM or ANY."""
        error = _refused_untouched(shared, lambda: shared.append("run/a", event(), expected=expected))
        assert isinstance(error, errors.InvalidValue)

    @pytest.mark.parametrize(
        "given", [[], (), None, 5, "event", b"", {}, [None], [event(), 1], [[event()]], [{}]], ids=_kind
    )
    def test_something_that_is_no_event_is_refused(self, shared: Store, given: Any) -> None:
        """An append needs at least one NewEvent."""
        for use in (
            lambda: shared.append("run/a", given),
            lambda: shared.append_all([("run/a", given, 0)]),
        ):
            assert isinstance(_refused_untouched(shared, use), errors.InvalidValue)

    @pytest.mark.parametrize("bounds", hostile_arguments.BAD_WINDOWS, ids=_kind)
    def test_a_bad_window_is_refused(self, shared: Store, bounds: dict[str, Any]) -> None:
        """Bounds of a read are numbers within their range."""
        assert isinstance(_refused_untouched(shared, lambda: shared.read(**bounds)), errors.InvalidValue)
        if "limit" in bounds and bounds["limit"] is None:
            return  # whatever is not called a page is then whole
        assert isinstance(
            _refused_untouched(shared, lambda: shared.read_stream("run/a", **bounds)), errors.InvalidValue
        )
        if "limit" in bounds:
            assert isinstance(_refused_untouched(shared, lambda: shared.streams(**bounds)), errors.InvalidValue)

    @pytest.mark.parametrize("conditions", hostile_arguments.BAD_CONDITIONS, ids=repr)
    def test_a_bad_filter_is_refused(self, shared: Store, conditions: dict[str, Any]) -> None:
        """A condition that no event could ever meet is an error, not an empty answer."""
        assert isinstance(_refused_untouched(shared, lambda: select(**conditions)), errors.InvalidInput)

    @pytest.mark.parametrize(
        "id_", [b"", b"x" * 15, b"x" * 17, "x", "0" * 31, " " + "1" * 31, "8" * 26, None, 5, []], ids=_kind
    )
    def test_a_bad_id_is_not_looked_for(self, shared: Store, id_: Any) -> None:
        """find() accepts only an id."""
        assert isinstance(_refused_untouched(shared, lambda: shared.find(id_)), errors.InvalidValue)

    @pytest.mark.parametrize("after", [5, b"x", "a\ud800", "x\0", ["a"]], ids=_kind)
    def test_a_bad_place_in_the_listing_is_refused(self, shared: Store, after: Any) -> None:
        """The listing of streams continues after a text."""
        assert isinstance(_refused_untouched(shared, lambda: shared.streams(after=after)), errors.InvalidValue)

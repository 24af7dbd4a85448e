"""Contract: an event that was changed in storage is never served, goes on record, and is named by verification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tallystick import Store, errors, state
from tallystick.projections import Consumer, Live, Projection, TableProjection, TableRunner, ViewReader, rebuild
from tallystick.projections.gauges import gauges
from tallystick.projections.retire import drop_consumer, drop_projection
from tallystick.store.capabilities import ANY_STREAM, DURABLE, GLOBAL_ORDER
from tallystick.store.verify import examine
from tallystick.testing.builders import event, event_id, events
from tallystick.testing.contract.harness import Contract, EngineHarness, needs
from tallystick.testing.tamper import CHANGES

STREAM, SEQ, LENGTH = "run/a", 2, 4
MANY = 80  # in more commits than any engine keeps decoded
META = {"app": "web"}


@state.reducer(name="count", initial={"n": 0})
def count(value: Any, event: Any) -> Any:
    """Counts events."""
    return {"n": value["n"] + 1}


class EventCount(Projection):
    """Counts the events of each stream."""

    types = ("thing.happened",)
    key = "stream"

    def initial(self) -> Any:
        """Nothing yet."""
        return {"n": 0}

    def apply(self, state: Any, event: Any) -> Any:
        """One more."""
        return {"n": state["n"] + 1}


class Listed(TableProjection):
    """Lists the events in a table."""

    types = ("thing.happened",)
    tables = ("listed",)

    def create(self, execute: Any) -> None:
        """Its table."""
        execute("CREATE TABLE {listed} (payload TEXT)")

    def apply(self, execute: Any, event: Any) -> Any:
        """One more, unless it was erased."""
        if event.payload is not None:
            execute("INSERT INTO {listed} VALUES ('something')")


ROWS_CHANGED = {
    "state": "UPDATE view_rows SET state = (SELECT state FROM view_rows WHERE key = 'run/b') WHERE key = 'run/a'",
    "mark": "UPDATE view_rows SET mark = checksum WHERE key = 'run/a'",
}
PLACE_CHANGED = {
    "position": "UPDATE views SET position = position - 1",
    "link_position": "UPDATE views SET link_position = link_position - 1",
}
_DEFINED = "UPDATE views SET definition = CAST({} AS BLOB)"
PLACE_FORGED = PLACE_CHANGED | {
    "no definition": _DEFINED.format("'nothing'"),
    "a definition that is no object": _DEFINED.format("'[]'"),
    "a definition without fields": _DEFINED.format("'{}'"),
    "a definition of other events": _DEFINED.format("replace(CAST(definition AS TEXT), 'happened', 'else')"),
    "a definition of the other kind": _DEFINED.format("replace(CAST(definition AS TEXT), 'tables', 'rows')"),
    "drops without end": "UPDATE views SET drops = 9223372036854775807",
}
CHECKPOINT_CHANGED = {
    "position": "UPDATE checkpoints SET position = position - 1",
    "link_position": "UPDATE checkpoints SET link_position = link_position + 1",
    "link": "UPDATE checkpoints SET link = checksum",
}
BY_POSITION: dict[str, Callable[[Store], object]] = {
    "read": lambda store: list(store.events()),
    "read one": lambda store: store.log.read(after=store.read_stream(STREAM, limit=1)[0].position, limit=1),
    "find": lambda store: store.find(event_id(SEQ)),
}
IN_ORDER: dict[str, Callable[[Store], object]] = {
    "projection": lambda store: Live(store, EventCount()).catch_up(),
    "consumer": lambda store: Consumer(store, "mailer", lambda event: None).catch_up(),
}
BY_STREAM: dict[str, Callable[[Store], object]] = {
    "read_stream": lambda store: store.read_stream(STREAM, limit=100),
    "read_stream, from it on": lambda store: store.read_stream(STREAM, after=SEQ - 1, limit=1),
    "fold": lambda store: state.fold(store, count, STREAM),
}


ELSEWHERE = ("stream", "seq")  # it has the name of another place now


def refuses(read: Callable[[], object], *, by_name: bool = True) -> bool:
    """Whether a read is refused. The error must name the event, unless its name was changed."""
    try:
        read()
    except errors.Damaged as damage:
        return not by_name or f"{STREAM} seq {SEQ}" in damage.message
    return False


class TamperedContract(Contract):
    """Every event that leaves an engine was checked (`store/checked.py`)."""

    def _tampered(self, harness: EngineHarness, changed: str) -> Store:
        with harness.open() as store:
            for number in range(1, LENGTH + 1):
                store.append(STREAM, event(number, meta=META, id=event_id(number)))
        harness.tamper(STREAM, SEQ, CHANGES[changed])
        return harness.open()

    def _ways(self, harness: EngineHarness, store: Store, changed: str) -> dict[str, Callable[[Store], object]]:
        """The ways to read that must notice. If the hash of the medium is forged too, some do not check links."""
        ways = dict(BY_STREAM)
        if changed in ("payload", "checksum") or not harness.forges_hashes:
            ways |= BY_POSITION | (IN_ORDER if GLOBAL_ORDER in store.log.capabilities else {})
        if changed == "type":  # a reader of some types is not given an event whose type became another
            ways.pop("projection", None)
        is_hidden = changed == "seq" and GLOBAL_ORDER not in store.log.capabilities  # what it follows is a hole
        if changed == "id" or is_hidden:  # no event has the id that is asked for
            ways.pop("find", None)
        return ways

    def _serving(self, harness: EngineHarness, store: Store, changed: str) -> list[str]:
        """The ways to read that serve the event instead of refusing it."""
        by_name, ways = changed not in ELSEWHERE, self._ways(harness, store, changed)
        return [name for name, read in ways.items() if not refuses(lambda: read(store), by_name=by_name)]  # noqa: B023

    @needs(DURABLE)
    @pytest.mark.security
    @pytest.mark.parametrize("changed", CHANGES)
    def test_no_way_to_read_serves_what_was_changed_underneath(self, harness: EngineHarness, changed: str) -> None:
        """SAFE-01: whichever field was changed, each way to read refuses the event by name."""
        store = self._tampered(harness, changed)
        assert self._serving(harness, store, changed) == []

    @needs(DURABLE)
    @pytest.mark.security
    @pytest.mark.parametrize("changed", [name for name in CHANGES if name not in ELSEWHERE])
    def test_what_a_reader_noticed_stops_appends_and_is_named(self, harness: EngineHarness, changed: str) -> None:
        """SAFE-01, SAFE-02: after one refused read, appends are refused too, and verification names the event."""
        store = self._tampered(harness, changed)
        assert refuses(lambda: store.read_stream(STREAM, limit=100))
        with pytest.raises(errors.Damaged, match="on record"):
            store.append(STREAM, event(9, meta=META))
        found = examine(store.log).problems
        assert (STREAM, SEQ) in {(problem.stream, problem.seq) for problem in found}

    @needs(DURABLE)
    @pytest.mark.security
    @pytest.mark.parametrize("changed", CHANGES)
    def test_a_handle_that_has_read_everything_notices(self, harness: EngineHarness, changed: str) -> None:
        """SAFE-01: an event that was checked once is checked again after it changed, even if its hash was forged."""
        store = harness.open()
        size = 2 if harness.forges_hashes else 1  # two events make a full frame: forged, it is as long as before
        for first in range(1, MANY + 1, size):
            numbers = range(first, first + size)
            stream = STREAM if first <= LENGTH else "run/b"
            store.append(stream, [event(number, meta=META, id=event_id(number)) for number in numbers])
        for _ in range(2):
            assert (len(store.read_stream(STREAM)), len(list(store.events()))) == (LENGTH, MANY)
        harness.tamper(STREAM, SEQ, CHANGES[changed])
        assert self._serving(harness, store, changed) == []

    @needs(DURABLE)
    @pytest.mark.security
    def test_events_around_it_are_served(self, harness: EngineHarness) -> None:
        """SAFE-01: it is a hole: a page ends before it, and with `over_holes` continues after it and names it."""
        store = self._tampered(harness, "payload")
        page = store.read()
        assert [found.seq for found in page.events] == [1]
        whole = store.read(over_holes=True)
        assert [found.seq for found in whole.events] == [1, 3, 4]
        assert [f"{STREAM} seq {SEQ}" in hole.reason for hole in whole.holes] == [True]
        assert [found.seq for found in store.read_stream(STREAM, after=SEQ, limit=100)] == [3, 4]
        assert store.find(event_id(3)) is not None

    @needs(DURABLE)
    @pytest.mark.security
    def test_a_retry_is_not_told_that_a_changed_event_is_stored(self, harness: EngineHarness) -> None:
        """SAFE-01: the event stored under the id is not the one that was appended."""
        store = self._tampered(harness, "payload")
        with pytest.raises(errors.Damaged):
            store.append(STREAM, event(SEQ, meta=META, id=event_id(SEQ)))

    @needs(DURABLE, ANY_STREAM)
    @pytest.mark.security
    def test_a_payload_that_vanished_was_not_erased(self, harness: EngineHarness) -> None:
        """SAFE-01: an event without a payload is served only if its erasure is recorded."""
        with harness.open() as store:
            store.append("order/a", event(1))
            store.append("order/a", event(2))
        harness.tamper("order/a", 2, without_payload)
        store = harness.open()
        with pytest.raises(errors.Damaged, match="no erasure is noted"):
            store.read_stream("order/a", limit=100)
        with pytest.raises(errors.Damaged, match="no erasure is noted"):
            list(store.events())

    def _projected(self, harness: EngineHarness, statement: str) -> tuple[Store, ViewReader]:
        """Rows of two keys, changed in storage. All readers and runners refuse them."""
        with harness.open() as store:
            store.append("run/a", events(3))
            store.append("run/b", events(2))
            Live(store, EventCount()).catch_up()
        harness.tamper_beside(statement)
        store = harness.open()
        view = ViewReader(store, "EventCount")
        store.append("run/a", event())
        for use in (
            lambda: view.get("run/a"),
            lambda: dict(view.items()),
            view.fingerprint,
            Live(store, EventCount()).step,
        ):
            with pytest.raises(errors.RowsDamaged):
                use()
        return store, view

    @needs(DURABLE, GLOBAL_ORDER)
    @pytest.mark.security
    @pytest.mark.parametrize("changed", ROWS_CHANGED)
    def test_no_row_of_a_projection_is_served_that_was_changed_underneath(
        self, harness: EngineHarness, changed: str
    ) -> None:
        """SAFE-01: it is refused by name, other rows are served, and a rebuild replaces it."""
        store, view = self._projected(harness, ROWS_CHANGED[changed])
        assert view.get("run/b") == {"n": 2}
        rebuild(store, EventCount())
        assert dict(view.items()) == {"run/a": {"n": 4}, "run/b": {"n": 2}}

    @needs(DURABLE, GLOBAL_ORDER)
    @pytest.mark.security
    @pytest.mark.parametrize("changed", PLACE_CHANGED)
    def test_rows_whose_place_was_changed_underneath_are_refused(self, harness: EngineHarness, changed: str) -> None:
        """SAFE-01: a runner would skip events or apply some twice. The projection can be dropped and run again."""
        store, view = self._projected(harness, PLACE_CHANGED[changed])
        drop_projection(store, "EventCount")
        Live(store, EventCount()).catch_up()
        assert dict(view.items()) == {"run/a": {"n": 4}, "run/b": {"n": 2}}

    @needs(DURABLE, GLOBAL_ORDER)
    @pytest.mark.security
    @pytest.mark.parametrize("changed", PLACE_FORGED)
    def test_a_place_that_was_changed_underneath_holds_up_no_erasure(
        self, harness: EngineHarness, changed: str
    ) -> None:
        """SAFE-01: its rows and tables can no longer be trusted, so all are dropped. Projections can be run again."""
        with harness.open() as store:
            store.append("run/a", events(3))
            Live(store, EventCount()).catch_up()
            TableRunner(harness.projector(store), Listed()).catch_up()
        harness.tamper_beside(PLACE_FORGED[changed])
        store = harness.open()
        state.erase(store, "run/a", 2, reason="asked for")
        Live(store, EventCount()).catch_up()
        assert ViewReader(store, "EventCount").get("run/a") == {"n": 3}
        runner = TableRunner(harness.projector(store), Listed())
        runner.catch_up()
        assert runner.query("SELECT count(*) FROM {listed}") == [(2,)]

    @needs(DURABLE)
    @pytest.mark.security
    @pytest.mark.parametrize("changed", CHECKPOINT_CHANGED)
    def test_no_checkpoint_is_used_that_was_changed_underneath(self, harness: EngineHarness, changed: str) -> None:
        """SAFE-01: a consumer would silently skip or repeat events. It can be dropped."""
        with harness.open() as store:
            store.append("run/a", events(3))
            store.save_checkpoint("mailer", 2)
        harness.tamper_beside(CHECKPOINT_CHANGED[changed])
        store = harness.open()
        for use in (lambda: store.load_checkpoint("mailer"), lambda: store.save_checkpoint("mailer", 3, previous=1)):
            with pytest.raises(errors.CheckpointDamaged):
                use()
        if GLOBAL_ORDER in store.log.capabilities:
            assert [gauge.lag.events for gauge in gauges(store) if gauge.name == "mailer"] == [3]
            drop_consumer(store, "mailer")
            assert store.load_checkpoint("mailer") == 0


def without_payload(found: Any) -> Any:
    """The event as if it had been erased. Its meta grows, so that the record keeps its length."""
    return msgspec.structs.replace(found, payload=None, meta=b'{"a":1111}')

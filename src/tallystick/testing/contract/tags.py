"""Contract: tags, queries, and appends that depend on what matches a query."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import Marker, NewEvent, Query, Selection, Store, errors, match, select
from tallystick.event import tags
from tallystick.store.capabilities import ANY_STREAM, CONDITIONS, DURABLE, GLOBAL_ORDER, MAINTENANCE, MULTI_STREAM
from tallystick.testing import upkeep
from tallystick.testing.contract.harness import Contract, EngineHarness, needs

COURSE, STUDENT = "course:c1", "student:s7"
DEFINED, JOINED = "course.defined", "student.subscribed"
BAD_TAGS: tuple[Any, ...] = (
    *([""], ["a" * 257], ["ü" * 129], ["a\n"], ["a\x00"], [1], [None], "course:c1", b"x", 7),
    [f"t{number}" for number in range(33)],
)


def tagged(type_: str, *given: str, org: str | None = None, **fields: Any) -> NewEvent:
    """An event with tags."""
    meta = None if org is None else {"org": org}
    return NewEvent(type_, {"n": 1}, meta=meta, tags=given, **fields)


def _positions(store: Store, query: Query, **asked: Any) -> list[int]:
    return [event.position for event in store.consult(query, **asked).events]


class TagContract(Contract):
    """Tags are kept in the meta, and every reader selects by them."""

    def test_tags_are_stored_sorted_and_once(self, store: Store) -> None:
        """TAG-01: the chain covers them as a list in the meta."""
        store.append("run/a", tagged(JOINED, STUDENT, COURSE, STUDENT))
        (found,) = store.read_stream("run/a")
        assert found.tags == (COURSE, STUDENT)
        assert found.meta == b'{"tags":["course:c1","student:s7"]}'

    def test_tags_in_the_meta_are_the_same(self, store: Store) -> None:
        """TAG-01: an importer that has the meta alone writes the same event."""
        store.append("run/a", NewEvent(JOINED, {}, meta={"tags": [STUDENT, COURSE]}))
        assert store.read_stream("run/a")[0].tags == (COURSE, STUDENT)

    def test_an_empty_list_of_tags_is_none(self, store: Store) -> None:
        """TAG-01: a program that makes a list writes the same event if the list is empty, and labels stay labels."""
        given: tuple[dict[str, Any] | None, ...] = (None, {"tags": {"label": "correction"}})
        for meta in given:
            store.append("run/a", [NewEvent(JOINED, {}, meta=meta), NewEvent(JOINED, {}, meta=meta, tags=[])])
        plain, same, labelled, as_before = (event.meta for event in store.read_stream("run/a"))
        assert (same, as_before) == (plain, labelled)

    def test_labels_are_no_tags_until_both_are_wanted(self, store: Store) -> None:
        """TAG-01: the object form stays as it is. Beside tags, labels become tags."""
        store.append("run/a", NewEvent(JOINED, {}, meta={"tags": {"label": "correction"}}))
        store.append("run/a", NewEvent(JOINED, {}, meta={"tags": {"label": "correction"}}, tags=[COURSE]))
        alone, both = store.read_stream("run/a")
        assert (alone.tags, both.tags) == ((), (COURSE, "label:correction"))

    @pytest.mark.parametrize("given", BAD_TAGS, ids=lambda given: repr(given)[:20])
    def test_bad_tags_are_refused(self, store: Store, given: Any) -> None:
        """TAG-01: the rule and the value are named, and nothing is written."""
        for event in (NewEvent(JOINED, {}, tags=given), NewEvent(JOINED, {}, meta={"tags": given})):
            with pytest.raises(errors.InvalidInput):
                store.append("run/a", event)
        assert store.stream_head("run/a") is None

    def test_the_longest_tags_are_kept(self, store: Store) -> None:
        """TAG-01: 32 tags of 256 bytes."""
        given = [f"{number:02d}" + "ü" * 127 for number in range(tags.COUNT_MAX)]
        store.append("run/a", tagged(JOINED, *given))
        assert list(store.read_stream("run/a")[0].tags) == given

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_every_reader_selects_by_tags(self, store: Store) -> None:
        """TAG-01: an event has all the tags of an item, and one item is enough; forward, backward, page by page."""
        for number in range(60):
            given = [f"m2:{number % 2}", f"m3:{number % 3}", f"m5:{number % 5}"]
            store.append(f"order/{number % 7}", tagged(f"t.{number % 4}", *given))
        query = (
            match(tags=["m2:0", "m3:1"])
            | match(types=["t.3"], tags=["m5:2"])
            | match(types=["t.1", "t.9"], tags=["m3:0"])
        )
        every = store.read().events
        expected = [
            event.position
            for number, event in enumerate(every)
            if (number % 2 == 0 and number % 3 == 1)
            or (number % 4 == 3 and number % 5 == 2)
            or (number % 4 == 1 and number % 3 == 0)
        ]
        chosen = Selection(query=query)
        assert [event.position for event in store.events(selection=chosen)] == expected
        assert [event.position for event in store.events(selection=chosen, backward=True)] == expected[::-1]
        paged = [event.position for page in store.pages(selection=chosen, limit=2) for event in page.events]
        assert paged == expected
        page = store.read(selection=chosen, limit=3)
        assert [event.position for event in page.events] == expected[:3]
        assert page.through == expected[2]
        assert [event.position for event in store.read(selection=select(tags=["m2:1", "m5:4"])).events] == [
            event.position for number, event in enumerate(every) if number % 2 == 1 and number % 5 == 4
        ]
        assert store.read(selection=select(tags=["no:such"])).through == store.head()

    @needs(ANY_STREAM, GLOBAL_ORDER)
    def test_every_reader_selects_by_cause_and_actor(self, store: Store) -> None:
        """TAG-01: correlation, causation and actor are exact texts."""
        for number in range(12):
            meta = {"correlation_id": f"c{number % 2}", "causation_id": f"k{number % 3}", "actor_id": f"a'{number % 4}"}
            store.append("order/a", NewEvent("thing.done", {"n": number}, meta=meta))
        store.append("order/a", NewEvent("thing.done", {"n": 12}))

        def numbers(**asked: Any) -> list[int]:
            return [event.data["n"] for event in store.read(selection=select(**asked)).events]

        assert numbers(correlation_id="c1") == [1, 3, 5, 7, 9, 11]
        assert numbers(causation_id="k2", correlation_id="c0") == [2, 8]
        assert numbers(actor_id="a'3") == [3, 7, 11]
        assert numbers(actor_id="a'") == []


class ConditionContract(Contract):
    """Appends that depend on a query: they take effect only if nothing matches that the writer has not seen."""

    @needs(ANY_STREAM, CONDITIONS)
    def test_a_consultation_has_what_matches_and_its_marker_admits_an_append(self, store: Store) -> None:
        """TAG-02: what was seen does not fail the condition."""
        store.append("course/c1", tagged(DEFINED, COURSE))
        store.append("course/c2", tagged(DEFINED, "course:c2"))
        seen = store.consult(match(tags=[COURSE]))
        assert [event.stream for event in seen.events] == ["course/c1"]
        assert store.append("subscription/1", tagged(JOINED, COURSE, STUDENT), unless=seen.marker).seq == 1

    @needs(ANY_STREAM, CONDITIONS)
    def test_what_came_since_fails_it(self, store: Store) -> None:
        """TAG-02: a matching event that the consultation did not see; the error names its position."""
        seen = store.consult(match(types=[JOINED], tags=[COURSE]))
        store.append("subscription/2", tagged(DEFINED, COURSE))
        store.append("subscription/2", tagged(JOINED, "course:c2"))
        other = store.append("subscription/2", tagged(JOINED, COURSE, STUDENT))
        head = store.wait(other.position - 1, timeout=5)
        with pytest.raises(errors.ConditionFailed, match=f"position {other.position}"):
            store.append("subscription/1", tagged(JOINED, COURSE), unless=seen.marker)
        assert store.stream_head("subscription/1") is None
        assert store.head() == head
        again = store.consult(match(types=[JOINED], tags=[COURSE]))
        store.append("subscription/1", tagged(JOINED, COURSE), unless=again.marker)

    @needs(ANY_STREAM, CONDITIONS)
    def test_what_does_not_match_does_not_fail_it(self, store: Store) -> None:
        """TAG-02: another type, a part of the tags, other tags, and the longer text of a tag."""
        seen = store.consult(match(types=[JOINED], tags=[COURSE, STUDENT]))
        for other in (
            tagged(DEFINED, COURSE, STUDENT),
            tagged(JOINED, COURSE),
            tagged(JOINED, COURSE + "0", STUDENT),
            tagged(JOINED),
            tagged("student.subscribed2", COURSE, STUDENT),
        ):
            store.append("order/a", other)
        store.append("order/b", tagged(JOINED, COURSE, STUDENT), unless=seen.marker)

    @needs(ANY_STREAM, CONDITIONS)
    @pytest.mark.parametrize("place", range(4))
    def test_any_item_fails_it(self, store: Store, place: int) -> None:
        """TAG-02: items are alternatives: tags alone, a type with a tag, types alone, and everything."""
        items = (match(tags=["a:1", "b:1"]), match(types=["x.done"], tags=["c:1"]), match(types=["y.done", "z.done"]))
        hits = (tagged("q.done", "a:1", "b:1", "c:9"), tagged("x.done", "c:1"), tagged("z.done"), tagged("q.done"))
        query = items[0] | items[1] | items[2] if place < 3 else match()
        seen = store.consult(query)
        if place < 3:
            store.append("order/a", tagged("q.done", "a:1"))
        store.append("order/a", hits[place])
        with pytest.raises(errors.ConditionFailed):
            store.append("order/b", tagged("w.done"), unless=seen.marker)
        assert store.stream_head("order/b") is None

    @needs(ANY_STREAM, CONDITIONS)
    def test_a_query_alone_claims_a_free_name(self, store: Store) -> None:
        """TAG-02: without a marker no event may match at all: the second to take a name is refused."""
        name = match(tags=["name:ada"])
        store.append("account/1", tagged("account.opened", "name:ada"), unless=name)
        with pytest.raises(errors.ConditionFailed):
            store.append("account/2", tagged("account.opened", "name:ada"), unless=name)

    @needs(MULTI_STREAM, CONDITIONS)
    def test_it_holds_for_all_streams_of_an_append(self, store: Store) -> None:
        """TAG-02: refused as a whole, or written as a whole. What the append itself writes does not fail it."""
        name = match(tags=["name:ada"])
        parts = [("order/a", [tagged("x.done", "name:ada")], -1), ("order/b", [tagged("x.done", "name:ada")], -1)]
        store.append_all(parts, unless=name)
        with pytest.raises(errors.ConditionFailed):
            store.append_all([("order/c", [tagged("x.done")], -1), ("order/d", [tagged("x.done")], -1)], unless=name)
        assert store.stream_head("order/c") is None

    @needs(ANY_STREAM, CONDITIONS)
    def test_a_conflict_of_the_stream_is_refused_too(self, store: Store) -> None:
        """TAG-02: a condition does not replace the expected seq."""
        store.append("order/a", tagged("x.done"))
        seen = store.consult(match(tags=["a:1"]))
        with pytest.raises(errors.Conflict):
            store.append("order/a", tagged("x.done", "a:1"), expected=0, unless=seen.marker)

    @needs(ANY_STREAM, CONDITIONS)
    def test_a_whole_retry_is_confirmed(self, store: Store) -> None:
        """TAG-02: the events of a retry are stored and match; that is no reason to refuse them."""
        seen = store.consult(match(tags=["a:1"]))
        given = [tagged("x.done", "a:1", id=bytes([number]) * 16) for number in (1, 2)]
        first = store.append("order/a", given, unless=seen.marker)
        again = store.append("order/a", given, unless=seen.marker)
        assert (again.first_seq, again.last_seq, again.stored) == (first.first_seq, first.last_seq, 2)

    @needs(ANY_STREAM, CONDITIONS)
    def test_a_retry_that_adds_something_is_judged(self, store: Store) -> None:
        """TAG-02: what is stored of it does not count, but what others wrote since does."""
        seen = store.consult(match(tags=["a:1"]))
        first, second = (tagged("x.done", "a:1", id=bytes([number]) * 16) for number in (1, 2))
        store.append("order/a", first, unless=seen.marker)
        assert store.append("order/a", [first, second], unless=seen.marker).stored == 1
        third = tagged("x.done", "a:1", id=bytes([3]) * 16)
        store.append("order/b", tagged("x.done", "a:1"))
        with pytest.raises(errors.ConditionFailed):
            store.append("order/a", [first, second, third], unless=seen.marker)

    @needs(ANY_STREAM, CONDITIONS)
    def test_requests_of_one_commit_see_each_other(self, store: Store) -> None:
        """TAG-02: of several that claim a name in one group, one wins."""
        from tallystick.store.prepare import Part, Request

        asked = [
            Request([Part(f"order/{number}", [tagged("x.done", "name:ada")])], unless=match(tags=["name:ada"]))
            for number in range(5)
        ]
        done = store.submit(asked)
        assert [isinstance(each, errors.ConditionFailed) for each in done] == [False, True, True, True, True]
        assert len(store.consult(match(tags=["name:ada"])).events) == 1

    @needs(ANY_STREAM, CONDITIONS, DURABLE)
    def test_reopening_keeps_the_index(self, harness: EngineHarness) -> None:
        """TAG-02: what was written before is found, and a marker from before is accepted."""
        with harness.open() as store:
            store.append("order/a", tagged("x.done", "a:1", "b:1"))
            marker = store.consult(match(tags=["a:1"])).marker
        with harness.open() as store:
            assert len(store.consult(match(tags=["b:1"])).events) == 1
            store.append("order/b", tagged("x.done"), unless=marker)
            with pytest.raises(errors.ConditionFailed):
                store.append("order/b", tagged("x.done"), unless=match(tags=["b:1"]))

    @needs(ANY_STREAM, CONDITIONS, MAINTENANCE)
    def test_a_pruned_event_still_counts(self, harness: EngineHarness) -> None:
        """TAG-03: a name that was taken stays taken, and a consultation that lacks events says so."""
        with harness.open() as store:
            used = tagged("account.used")
            store.append("account/1", [tagged("account.opened", "name:ada"), used, used])
            upkeep.prune(store, "account/1", 3)
            _require_taken(store)
        if DURABLE in store.log.capabilities:
            with harness.open() as store:
                _require_taken(store)

    @needs(ANY_STREAM, CONDITIONS, MAINTENANCE)
    def test_an_erased_event_still_counts(self, store: Store) -> None:
        """TAG-03: erasing takes the payload. Tags are in the meta, which stays."""
        store.append("account/1", tagged("account.opened", "name:ada"))
        upkeep.erase(store, "account/1", 1)
        assert [event.erased for event in store.consult(match(tags=["name:ada"])).events] == [True]
        with pytest.raises(errors.ConditionFailed):
            store.append("account/2", tagged("account.opened"), unless=match(tags=["name:ada"]))

    @needs(ANY_STREAM, CONDITIONS)
    def test_one_org_sees_its_own_alone(self, store: Store) -> None:
        """TAG-04: neither a consultation nor a condition for one org sees or counts events of others."""
        from tallystick.store.prepare import Part, Request

        store.append("order/a", tagged("x.done", "name:ada", org="acme"))
        store.append("order/b", tagged("x.done", "name:ada"))
        name = match(tags=["name:ada"])
        assert [event.stream for event in store.consult(name, org="acme").events] == ["order/a"]
        assert store.consult(name, org="bolt").events == []
        given = [Part("order/c", [tagged("x.done", "name:ada", org="bolt")])]
        (done,) = store.submit([Request(given, unless=name, org="bolt")])
        assert not isinstance(done, errors.TallyError)
        (refused,) = store.submit([Request(given, unless=name, org="bolt")])
        assert isinstance(refused, errors.ConditionFailed)

    @needs(ANY_STREAM, CONDITIONS)
    def test_a_marker_of_another_store_is_refused(self, store: Store, harness: EngineHarness) -> None:
        """TAG-02: its positions mean other events."""
        import tallystick

        with tallystick.open("memory:") as other:
            other.append("order/a", tagged("x.done", "a:1"))
            marker = other.consult(match(tags=["a:1"])).marker
        store.append("order/a", [tagged("x.done"), tagged("x.done")])
        with pytest.raises(errors.WrongStore):
            store.append("order/a", tagged("x.done"), unless=marker)
        assert store.read_stream("order/a")[-1].seq == 2

    @needs(ANY_STREAM, CONDITIONS)
    def test_bad_conditions_are_refused(self, store: Store) -> None:
        """TAG-02: each names its rule, and nothing is written."""
        store.append("order/a", tagged("x.done"))
        head = store.wait(0, timeout=5)
        for make in (
            lambda: Query(()),
            lambda: match(types=["no type"]),
            lambda: match(tags=["a" * 257]),
            lambda: match(tags=[f"t{number}" for number in range(33)]),
            lambda: match(types=[f"t.x{number}" for number in range(65)]),
            lambda: match(tags="a:1"),
            lambda: _either([match(tags=[f"t:{number}"]) for number in range(65)]),
            lambda: Marker(match(), beyond=-1),
            lambda: Marker("a", 1),  # type: ignore[arg-type]
        ):
            with pytest.raises(errors.InvalidInput):
                make()
        wrong: tuple[Any, ...] = (
            Marker(match(), head + 1),
            Marker(match(), -1),
            Marker(match(), "x"),
            "x",
            7,
            [],
            match,
        )
        for unless in wrong:
            with pytest.raises(errors.InvalidInput):
                store.append("order/a", tagged("x.done"), unless=unless)
        with pytest.raises(errors.InvalidInput):
            store.consult("a:1")  # type: ignore[arg-type]
        assert store.head() == head

    @needs(ANY_STREAM, CONDITIONS)
    def test_a_position_from_the_head_is_a_marker(self, store: Store) -> None:
        """TAG-02: a number that `head` or `read` returned says how far the writer has read."""
        store.append("order/a", tagged("x.done", "a:1"))
        after = store.wait(0, timeout=5)
        store.append("order/a", tagged("x.done"), unless=Marker(match(tags=["a:1"]), after))
        store.append("order/a", tagged("x.done", "a:1"))
        with pytest.raises(errors.ConditionFailed):
            store.append("order/a", tagged("x.done"), unless=Marker(match(tags=["a:1"]), after))


def _require_taken(store: Store) -> None:
    opened = ["account.opened"]
    by_both = match(types=opened, tags=["name:ada"])
    for taken in (match(tags=["name:ada"]), match(types=opened), by_both):
        with pytest.raises(errors.ConditionFailed):
            store.append("account/2", tagged("account.opened", "name:ada"), unless=taken)
        with pytest.raises(errors.HistoryPruned):
            store.consult(taken)
        assert store.consult(taken, over_pruned=True).events == []
    assert store.stream_head("account/2") is None
    free = match(types=["account.closed"]) | match(tags=["name:bob"])
    free |= match(types=["account.used"], tags=["name:ada"])
    assert store.consult(free).events == []
    store.append("account/3", tagged("account.used"), unless=free)


def _either(queries: list[Query]) -> Query:
    whole = queries[0]
    for query in queries[1:]:
        whole |= query
    return whole

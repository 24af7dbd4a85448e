"""Contract: a stream belongs to one org, and the sequence of a source never goes back."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import Event, Store, errors
from tallystick.store.capabilities import ANY_STREAM, DURABLE
from tallystick.testing.builders import event, named
from tallystick.testing.contract.harness import Contract, EngineHarness, needs


def _org(store: Store, stream: str) -> str | None:
    head = store.stream_head(stream)
    assert head is not None
    return head.org


def _source_seqs(found: list[Event]) -> list[Any]:
    return [item.metadata.get("source_seq") for item in found]


def _from(source: str, seq: int | None = None) -> dict[str, Any]:
    return {"source": source} if seq is None else {"source": source, "source_seq": seq}


class OrgAndSourceContract(Contract):
    """Orgs and source sequences."""

    def test_the_first_event_that_names_an_org_fixes_it(self, store: Store) -> None:
        """CP-10: events without an org are accepted before and after, and do not decide."""
        store.append("run/a", event())
        assert _org(store, "run/a") is None
        store.append("run/a", [event(), event(meta={"org": "acme"}), event()])
        assert _org(store, "run/a") == "acme"
        store.append("run/a", event())
        assert _org(store, "run/a") == "acme"
        assert [info.org for info in store.streams()] == ["acme"]

    def test_an_event_of_another_org_is_refused(self, store: Store) -> None:
        """CP-10: a stream of one org refuses events of another, whatever the expectation, and names its org."""
        store.append("run/a", event(meta={"org": "acme"}))
        for expected in (-1, 1):
            with pytest.raises(errors.OrgMismatch) as refused:
                store.append("run/a", [event(), event(meta={"org": "bolt"})], expected=expected)
            assert (refused.value.org, refused.value.given) == ("acme", "bolt")
        assert len(store.read_stream("run/a")) == 1

    def test_one_append_cannot_name_two_orgs(self, store: Store) -> None:
        """CP-10: two orgs in the first append of a stream are refused, and the stream is not created."""
        with pytest.raises(errors.OrgMismatch):
            store.append("run/a", [event(meta={"org": "acme"}), event(meta={"org": "bolt"})])
        assert store.stream_head("run/a") is None

    @needs(DURABLE)
    def test_the_org_of_a_stream_is_kept_over_reopening(self, harness: EngineHarness) -> None:
        """CP-10: the org of a stream is stored."""
        with harness.open() as store:
            store.append("run/a", [event(meta={"org": "acme"}), event()])
        store = harness.open()
        assert _org(store, "run/a") == "acme"
        with pytest.raises(errors.OrgMismatch):
            store.append("run/a", event(meta={"org": "bolt"}))

    @needs(ANY_STREAM)
    def test_a_source_counts_over_all_streams(self, harness: EngineHarness) -> None:
        """LH-03: in a lighthouse store each source has one sequence from 1 on, assigned in the commit."""
        store = harness.open(profile="lighthouse")
        store.append("order/a", [event(meta=_from("till")), event(meta=_from("web"))])
        store.append("order/b", [event(meta=_from("till")), event(meta=_from("till"))])
        assert _source_seqs(store.read_stream("order/a")) == [1, 1]
        assert _source_seqs(store.read_stream("order/b")) == [2, 3]

    def test_a_given_source_seq_may_leap_but_not_go_back(self, store: Store) -> None:
        """LH-03: a repeated or lower number of a source is refused, with both numbers, and nothing is written."""
        for seq in (1, 2, 7):
            store.append("run/a", event(meta=_from("till", seq)))
        for seq in (1, 6, 7):
            with pytest.raises(errors.SourceRepeated) as refused:
                store.append("run/a", event(meta=_from("till", seq)))
            assert (refused.value.source, refused.value.last, refused.value.given) == ("till", 7, seq)
        store.append("run/a", event(meta=_from("web", 1)))
        assert _source_seqs(store.read_stream("run/a")) == [1, 2, 7, 1]

    def test_the_numbers_of_one_append_must_rise_too(self, store: Store) -> None:
        """LH-03: two events of one append cannot have the same number of a source."""
        with pytest.raises(errors.SourceRepeated):
            store.append("run/a", [event(meta=_from("till", 2)), event(meta=_from("till", 2))])
        assert store.head() == 0
        store.append("run/a", [event(meta=_from("till", 2)), event(meta=_from("till", 3))])

    def test_a_refused_append_uses_up_no_number(self, harness: EngineHarness) -> None:
        """LH-03: a refused append does not use up a number of the source."""
        store = harness.open(profile="lighthouse")
        store.append("run/a", event(meta=_from("till")))
        with pytest.raises(errors.Conflict):
            store.append("run/a", event(meta=_from("till")), expected=9)
        store.append("run/a", event(meta=_from("till")))
        assert _source_seqs(store.read_stream("run/a")) == [1, 2]

    def test_outside_of_lighthouse_a_source_is_not_numbered(self, store: Store) -> None:
        """A plain store adds nothing to the given meta."""
        store.append("run/a", event(meta=_from("till")))
        assert store.read_stream("run/a")[0].metadata == {"source": "till"}

    @needs(DURABLE)
    def test_source_sequences_are_kept_over_reopening(self, harness: EngineHarness) -> None:
        """LH-03: the sequence continues after a restart, and a repeat is still refused."""
        with harness.open(profile="lighthouse") as store:
            store.append("run/a", [event(meta=_from("till")), event(meta=_from("web", 5))])
        store = harness.open()
        store.append("run/a", [event(meta=_from("till")), event(meta=_from("web"))])
        assert _source_seqs(store.read_stream("run/a")) == [1, 5, 2, 6]
        with pytest.raises(errors.SourceRepeated):
            store.append("run/a", event(meta=_from("web", 6)))

    @needs(ANY_STREAM)
    def test_the_numbers_of_a_source_are_those_of_one_org(self, store: Store) -> None:
        """CP-10, LH-03, SAFE-09: no org changes or learns the numbers that another has under the same source."""
        highest = (1 << 63) - 1
        store.append("run/beta", event(meta=_from("till", 41) | {"org": "beta"}))
        store.append("run/acme", event(meta=_from("till", 1) | {"org": "acme"}))
        store.append("run/acme", event(meta=_from("till", highest) | {"org": "acme"}))
        store.append("run/none", event(meta=_from("till", 7)))
        for stream, org, last in (("run/acme", "acme", highest), ("run/beta", "beta", 41), ("run/none", None, 7)):
            with pytest.raises(errors.SourceRepeated) as refused:
                store.append(stream, event(meta=_from("till", 1) | ({"org": org} if org else {})))
            assert refused.value.last == last
        store.append("run/beta", event(meta=_from("till", 42) | {"org": "beta"}))

    @needs(ANY_STREAM, DURABLE)
    def test_the_numbers_of_each_org_are_kept_over_reopening(self, harness: EngineHarness) -> None:
        """CP-10, LH-03: after a restart each org continues after its own last number."""
        metas = [_from("till", 41) | {"org": "beta"}, _from("till") | {"org": "acme"}, _from("till")]
        with harness.open(profile="lighthouse") as store:
            for number, meta in enumerate(metas):
                store.append(f"order/{number}", event(meta=meta))
        store = harness.open()
        for number, meta in enumerate(metas):
            store.append(f"order/{number}", event(meta={key: meta[key] for key in meta if key != "source_seq"}))
        assert [_source_seqs(store.read_stream(f"order/{number}"))[-1] for number in range(3)] == [42, 2, 2]

    def test_a_retry_is_no_repeat_of_its_source(self, harness: EngineHarness) -> None:
        """LH-03: an event that is stored with its assigned or given number is confirmed when it is sent again."""
        store = harness.open(profile="lighthouse")
        wanted = [named(1, meta=_from("till")), named(2, meta=_from("web", 4))]
        first = store.append("run/a", wanted)
        assert store.append("run/a", wanted).link == first.link
        done = store.append("run/a", [*wanted, named(3, meta=_from("till")), named(4, meta=_from("web", 5))])
        assert (done.stored, done.last_seq) == (2, 4)
        assert _source_seqs(store.read_stream("run/a")) == [1, 4, 2, 5]

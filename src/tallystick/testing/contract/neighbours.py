"""Contract: one writer's input neither fails nor changes the appends that share its commit."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pytest

from tallystick import Catalog, NewEvent, Store, errors
from tallystick.event import limits, names, shipped
from tallystick.projections import Projection, run_inline
from tallystick.store import idempotency
from tallystick.store.capabilities import GLOBAL_ORDER, MULTI_STREAM
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing.builders import TYPE, event, event_id, named
from tallystick.testing.contract import hostile, hostile_arguments
from tallystick.testing.contract.harness import Contract, EngineHarness, needs

SHARED = "run/shared"
GROWN = "command_event"
CALL = {"agent_id": "a", "tool_name": "t", "tool_input": {}, "validation_status": "pending"}
INTERNAL = re.compile(
    r"_pkey|_by_|btree|SELECT|INSERT|sqlite3?\.|psycopg|postgres|tally\.\w+\(|\.log\b|\.idx\b|Traceback"
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


def dense(size: int, *, seed: int) -> str:
    """A text of `size` bytes in UTF-8, with many characters of more than one byte. No index can compress it."""
    dice = random.Random(seed)
    return "".join(dice.choice("äöüßéèêøæþðñçščžř") + dice.choice(_LETTERS) * 2 for _ in range(size // 4))


def _request(*given: Any, stream: Any = SHARED, expected: Any = -1, **more: Any) -> Request:
    return Request([Part(stream, list(given), expected)], **more)


def _command(key: CommandKey) -> CommandRecord:
    return CommandRecord(key, b"\0" * 32, b"{}", 1)


def _malformed(_: Store) -> Iterator[tuple[str, Request]]:
    """Requests that are wrong whatever the store holds."""
    for name, value in hostile.REFUSED_VALUES.items():
        yield f"payload: {name}", _request(NewEvent(TYPE, {"x": [value]}))
        yield f"meta: {name}", _request(event(meta={"x": value}))
    for name, value in (hostile.REFUSED_ROOTS | hostile.REFUSED_TEXTS).items():
        yield f"whole payload: {name}", _request(NewEvent(TYPE, value))
    for name, fields in hostile_arguments.BAD_FIELDS.items():
        yield f"field: {name}", _request(NewEvent(**({"type": TYPE, "payload": {}} | fields)))
    for name, stream in hostile_arguments.BAD_STREAMS.items():
        yield f"stream: {name}", _request(event(), stream=stream)
    expectations: list[Any] = [-2, 1 << 63, 10**5000, "any", 1.0, None, True, []]
    for number, expected in enumerate(expectations):
        yield f"expectation {number}", _request(event(), expected=expected)
    no_events: list[Any] = [None, 5, b"", {}, [event()]]
    for given in no_events:
        yield f"event: {given!r}"[:40], _request(given)
    yield "no event", _request()
    yield "no part", Request([])
    yield "a control stream", _request(event(), stream="tally.tokens/1")
    yield "a control fact", _request(event(type="tally.token.issued"))
    yield "too large", _request(NewEvent(TYPE, {"x": "a" * limits.EVENT_BYTES_MAX}))
    yield "too many", _request(*[event()] * (limits.COMMIT_EVENTS_MAX + 1))
    for size in (1001, 3000, 100_000):
        yield f"an org of {size} bytes", _request(event(meta={"org": dense(size + 3, seed=size)}))
        yield f"a source of {size} bytes", _request(event(meta={"source": dense(size + 3, seed=size), "source_seq": 1}))


def _contradicting(store: Store) -> Iterator[tuple[str, Request]]:
    """Requests that contradict the store as `_prepared` left it. Some need commits with several streams."""
    is_shared = MULTI_STREAM in store.log.capabilities
    yield "another seq", _request(event(), stream="run/before", expected=7)
    yield "a stream that is there", _request(event(), stream="run/before", expected=0)
    yield "another org", _request(event(meta={"org": "beta"}), stream="run/before")
    yield "two orgs", _request(event(meta={"org": "acme"}), event(meta={"org": "beta"}), stream="run/orgs")
    again = {"org": "acme", "source": "pump", "source_seq": 5}
    yield "a number of a source again", _request(event(meta=again), stream="run/before")
    yield "an id with another payload", _request(named(2, id=1), stream="run/before")
    yield "an id twice", _request(named(8), named(9, id=8))
    if is_shared:
        yield "an id in another stream", _request(named(1), stream="run/elsewhere")
        yield "something required that is not so", _request(event(), require=(("run/before", 9),))
        yield "a command again", _request(event(), command=_command(CommandKey("acme", "me", "here", "1")))


def _extreme(store: Store) -> Iterator[tuple[str, Request]]:
    """Requests at the limit of what is accepted."""
    is_shared = MULTI_STREAM in store.log.capabilities
    long = {key: dense(1000, seed=number) for number, key in enumerate(("org", "source"))}
    yield "names of 1,000 bytes", _request(event(meta=long | {"source_seq": 1}), stream="run/long")
    for key in ("app", "env", "actor_id", "request_id", "idempotency_key"):
        yield f"{key} of 60 kB", _request(event(meta={key: dense(60_000, seed=1)}))
    tags = {dense(40, seed=number): dense(120, seed=-number) for number in range(2000)}
    yield "2,000 tags", _request(event(meta={"tags": tags}))
    yield "a tag of 60 kB", _request(event(meta={"tags": {dense(60_000, seed=2): dense(60_000, seed=3)}}))
    yield "the longest type", _request(NewEvent("T" * 128, {}))
    yield "the longest stream", _request(event(), stream="run/" + "a" * 191)
    yield (
        "the largest numbers",
        _request(event(time=limits.INT_MAX, version=(1 << 31) - 1, meta={"lamport": limits.INT_MAX})),
    )
    last = {"org": "acme", "source": "last", "source_seq": limits.INT_MAX}
    yield "the last number of a source", _request(event(meta=last), stream="run/last")
    yield "a number after the last", _request(event(meta=last), stream="run/last")
    sources = [event(n, meta={"source": f"s{n}", "source_seq": 1}) for n in range(1, 3001)]
    yield "3,000 sources", _request(*sources, stream="run/sources")
    if is_shared:
        longest = CommandKey(dense(1000, seed=5), dense(500, seed=6), dense(500, seed=7), dense(500, seed=8))
        yield "the longest key of a command", _request(event(), command=_command(longest))
    yield "1 MiB", _request(NewEvent(TYPE, {"x": dense((1 << 20) - 64, seed=9)}))
    yield "deep", _request(NewEvent(TYPE, {"x": hostile.nested(253)}))


def _beyond() -> Iterator[tuple[str, Request]]:
    """Requests past our own limits, which the test removes: values that an engine itself cannot hold."""
    for size in (3000, 60_000):
        yield f"an org of {size} bytes", _request(event(meta={"org": dense(size, seed=size)}), stream=f"run/o{size}")
        yield f"a source of {size} bytes", _request(event(meta={"source": dense(size, seed=size), "source_seq": 1}))
        key = CommandKey("", "me", "here", dense(size, seed=-size))
        yield f"a key of {size} bytes", _request(event(), command=_command(key))


def _prepared(store: Store) -> None:
    """What the contradicting requests contradict."""
    store.append("run/before", named(1, meta={"org": "acme", "source": "pump", "source_seq": 5}))
    if MULTI_STREAM in store.log.capabilities:
        store.submit([_request(event(), stream="run/command", command=_command(CommandKey("acme", "me", "here", "1")))])


def failing_catalog() -> Catalog:
    """A catalog with an upcaster that fails on events that its model accepts."""
    catalog = Catalog()
    for version in (1, 2):
        catalog.register(GROWN, shipped.CommandEvent, version=version)

    @catalog.upcaster(GROWN, from_version=1)
    def upcast(data: dict[str, Any]) -> dict[str, Any]:
        return data | {"n": data["tool_input"]["n"]}

    return catalog


class _Counted(Projection):
    """Counts the events of each stream. Fails on an event that says so."""

    types = (TYPE, GROWN)
    key = "stream"

    def initial(self) -> Any:
        """Nothing yet."""
        return {"n": 0}

    def apply(self, state: Any, event: Any) -> Any:
        """One more."""
        return {"n": state["n"] + 1, "of": 1 / (event.data["n"] + 1)}


class _Group:
    """Submits good requests with a bad one among them, repeatedly. `check` asserts what happened to the good ones."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._done = 0
        self._payloads: list[bytes] = []

    def _good(self) -> Request:
        self._done += 1
        self._payloads.append(b'{"n":%d}' % self._done)
        return _request(event(self._done), stream="run/good")

    def submit(
        self, name: str, bad: Request, *, warned: Literal["ignore", "error"] = "ignore"
    ) -> errors.TallyError | None:
        """The refusal of the bad request, if it is refused. Asserts that its neighbours are unaffected."""
        before = self._done
        with warnings.catch_warnings():
            warnings.simplefilter(warned, UserWarning)
            outcomes = self._store.submit([self._good(), self._good(), bad, self._good()])
        good = [outcomes[0], outcomes[1], outcomes[3]]
        refused = [(name, str(one)) for one in good if isinstance(one, errors.TallyError)]
        assert refused == []
        assert [one[0].first_seq for one in good] == [before + 1, before + 2, before + 3], name  # type: ignore[index]
        return outcomes[2] if isinstance(outcomes[2], errors.TallyError) else None

    def check(self) -> None:
        """Assert that every good event is stored as it was given."""
        assert [item.payload for item in self._store.read_stream("run/good")] == self._payloads
        assert verify(self._store.log).ok


def _tells(refusal: errors.TallyError, harness: EngineHarness) -> bool:
    text = f"{refusal} {refusal.as_json()}"
    place = harness.url.partition(":")[2].rpartition("/")[0]
    return bool(INTERNAL.search(text)) or bool(place and place in text)


@pytest.mark.security
class NeighbourContract(Contract):
    """One commit for many writers, one of them hostile."""

    @pytest.mark.parametrize("requests", [_malformed, _contradicting], ids=["malformed", "contradicting"])
    def test_what_is_refused_fails_alone(
        self, harness: EngineHarness, requests: Callable[[Store], Iterator[tuple[str, Request]]]
    ) -> None:
        """SAFE-09: a bad request is refused, its neighbours are stored, and the refusal reveals no engine."""
        store = harness.open()
        _prepared(store)
        group = _Group(store)
        refusals = [(name, group.submit(name, bad)) for name, bad in requests(store)]
        assert [name for name, refusal in refusals if refusal is None] == []
        assert [(name, str(refusal)) for name, refusal in refusals if refusal and _tells(refusal, harness)] == []
        assert store.stream_head(SHARED) is None
        group.check()

    def test_what_is_only_just_taken_harms_no_neighbour(self, harness: EngineHarness) -> None:
        """SAFE-09: names, tags, numbers, sizes and keys at their limits are accepted, and their neighbours too."""
        store = harness.open()
        group = _Group(store)
        refusals = {name: str(refusal) for name, bad in _extreme(store) if (refusal := group.submit(name, bad))}
        assert list(refusals) == ["a number after the last"], refusals
        group.check()

    def test_what_the_engine_cannot_hold_fails_alone(
        self, harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """SAFE-09: even a value that our own limits should stop harms no neighbour."""
        monkeypatch.setattr(names, "LABEL_MAX", 1 << 20)
        monkeypatch.setattr(idempotency, "KEY_BYTES_MAX", 1 << 20)
        group = _Group(harness.open())
        for name, bad in _beyond():
            refusal = group.submit(name, bad)
            assert refusal is None or not _tells(refusal, harness), str(refusal)
        group.check()

    @needs(GLOBAL_ORDER)
    def test_what_code_of_the_store_fails_on_fails_alone(self, harness: EngineHarness) -> None:
        """SAFE-09: an event on which a model, an upcaster or an inline projection fails harms no neighbour."""
        store = harness.open(catalog=failing_catalog())
        run_inline(store, _Counted())
        group = _Group(store)
        failing = [NewEvent(GROWN, {}), NewEvent(GROWN, CALL, version=1), event(-1), NewEvent(TYPE, {"x": 1})]
        refusals = [group.submit(repr(bad), _request(bad)) for bad in failing]
        assert None not in refusals
        group.check()

    def test_what_is_warned_of_fails_alone_where_warnings_are_errors(self, harness: EngineHarness) -> None:
        """SAFE-09: a large event, or a secret in a store that only warns about secrets, among the events of others."""
        store = harness.open(secrets="warn")
        group = _Group(store)
        for bad in (NewEvent(TYPE, {"x": "a" * 70_000}), NewEvent(TYPE, {"token": "ghp_" + "a1" * 18})):
            assert group.submit("a warning", _request(bad), warned="error") is not None
        group.check()

    def test_all_that_is_bad_in_one_group(self, harness: EngineHarness) -> None:
        """SAFE-09: a group with one good request among hundreds of bad ones appends that one."""
        store = harness.open()
        _prepared(store)
        bad = [request for requests in (_malformed, _contradicting) for _, request in requests(store)]
        outcomes = store.submit([*bad, _request(event(), stream="run/good"), *bad])
        assert [isinstance(each, errors.TallyError) for each in outcomes].count(False) == 1
        assert [item.payload for item in store.read_stream("run/good")] == [b'{"n":1}']
        assert verify(store.log).ok

    @needs(MULTI_STREAM)
    def test_an_id_that_two_of_a_group_claim_goes_to_the_first(self, harness: EngineHarness) -> None:
        """SAFE-09: a request that repeats an id of its neighbour is refused, and the neighbour is not."""
        store = harness.open()
        given = [_request(named(number, id=1), stream=f"run/{number}") for number in (1, 2)]
        good = _request(event(), stream="run/3")
        outcomes = store.submit([*given, good])
        assert [isinstance(each, errors.TallyError) for each in outcomes] == [False, True, False]
        found = store.find(event_id(1))
        assert found is not None
        assert found.stream == "run/1"

    def test_threads_that_share_a_commit_with_a_hostile_one_do_not_fail(self, harness: EngineHarness) -> None:
        """SAFE-09: the same if the engine forms the group from the appends of its threads."""
        store = harness.open()
        _prepared(store)

        def hostile_one() -> list[str]:
            taken = []
            for name, bad in [*_contradicting(store)] * 5:
                if not isinstance(store.submit([bad])[0], errors.TallyError):
                    taken.append(name)
            return taken

        def honest(number: int) -> list[int]:
            return [store.append(f"run/honest-{number}", event(n)).seq for n in range(1, 51)]

        with ThreadPoolExecutor(6) as pool:
            attacks = [pool.submit(hostile_one) for _ in range(3)]
            appends = [pool.submit(honest, number) for number in range(3)]
            assert [each.result(60) for each in attacks] == [[]] * 3
            assert [each.result(60) for each in appends] == [list(range(1, 51))] * 3
        assert verify(store.log).ok

"""Every function that a login may call, with random values: what is accepted is valid for all readers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from tallystick import Event, Selection, Store
from tallystick.event.line import line
from tallystick.store.ledger import NO_HEAD, Head
from tallystick.store.verify import verify

from .raw import FUNCTIONS, Draws, call, connect

pytestmark = pytest.mark.security

NOT_CALLED = {"keep_damage"}  # it says that the store is damaged, so that appends stop: that is its purpose
CALLABLE = """SELECT proname, array(SELECT format_type(kind, NULL) FROM unnest(proargtypes) AS kind)
    FROM pg_proc
    WHERE pronamespace = 'tally'::regnamespace AND has_function_privilege('tally_app', oid, 'EXECUTE') ORDER BY 1"""
STREAMS = ("order/a", "order/b", "run/a", "node/x")
ORGS = (None, "acme", "bolt")
PAYLOADS = (
    *("{}", '{"a":1}', '{"b":[1,{}],"a":"x\\n"}', '{"a": 1.50}', '{"b":1,"a":"\\u0041"}'),
    *('{"a":\n1}', '{"a":1,"a":2}', "[]", "", "x", '{"a":"\\ud800"}', '{"a":"\\u0000"}'),
)
METAS = (
    *("{}", '{"org":"acme"}', '{"org":"bolt"}', '{"org":"bolt","source":"till","source_seq":7}'),
    *('{"tags":["a:1"]}', '{"tags":["a","a"],"org":"acme"}', '{"tags":[1]}', '{"tags":[""]}', '{"tags":{"a":1}}'),
    *('{"org":""}', '{"org":null}', '{"org":5}', '{"org":"acme","app":"x"}', '{"app":7}', "[1]"),
)
TEXTS = (
    *(*STREAMS, *PAYLOADS, *METAS),
    *("order/c", "tally.store/tokens", "tally.stream/order:a", "order", "", "run/A", "order/a\n"),
    *('[{"types":[],"tags":["a:1"]}]', '[{"types":["t"],"tags":[]}]', "[{}]"),
    *("acme", "bolt", "till", "me", "thing.done", "tally.pruned", "view_", "ü" * 600),
)
NUMBERS = (-1, 0, 1, 2, 3, 7, 1000, (1 << 31) - 1, (1 << 63) - 1, -(1 << 63))


class Fuzzer:
    """Calls by an attacker who knows how the store works."""

    def __init__(self, connection: psycopg.Connection[Any], store: Store, seed: int) -> None:
        self._connection = connection
        self._store = store
        self._dice = random.Random(seed)
        self._functions = [(name, kinds) for name, kinds in connection.execute(CALLABLE) if name not in NOT_CALLED]
        self.accepted = 0

    def step(self) -> None:
        """One call, in the scope of one org or of none."""
        scope = self._dice.choice(ORGS)
        self._connection.execute("SELECT set_config('tally.org', %s, false)", (scope or "",))
        with suppress(psycopg.Error):
            if self._dice.random() < 0.5:
                self._append()
            else:
                self._any()
            self.accepted += 1

    def _append(self) -> None:
        """Events that are valid, or wrong in one thing."""
        dice = self._dice
        stream = dice.choice(STREAMS if dice.random() < 0.9 else TEXTS)
        forged = [Draws(dice.choice(PAYLOADS[:5]), dice.choice(METAS[:3])) for _ in range(dice.choice((1, 1, 2, 5)))]
        wrong = dice.choice(forged)
        if dice.random() < 0.4:
            setattr(wrong, *dice.choice((("payload", dice.choice(PAYLOADS)), ("meta", dice.choice(METAS)))))
        if dice.random() < 0.1:
            setattr(
                wrong, *dice.choice((("type", "x\n"), ("type", ""), ("version", 0), ("time", -1), ("signature", b"x")))
            )
        head = self._store.log.stream_head(stream) or NO_HEAD
        if dice.random() < 0.1:
            head = Head(head.seq + dice.choice((-1, 1)), head.link)
        call(self._connection, dice.choice(FUNCTIONS), stream, forged, head)

    def _any(self) -> None:
        name, kinds = self._dice.choice(self._functions)
        given = ", ".join(f"%s::{kind}" for kind in kinds)
        self._connection.execute(f"SELECT tally.{name}({given})".encode(), [self._value(kind) for kind in kinds])

    def _value(self, kind: str) -> Any:
        dice = self._dice
        if dice.random() < 0.03:
            return None
        if kind.endswith("[]"):
            return [self._value(kind[:-2]) for _ in range(dice.choice((0, 1, 1, 1, 2, 3)))]
        made: dict[str, Callable[[], Any]] = {
            "text": lambda: dice.choice(TEXTS),
            "jsonb": lambda: dice.choice(TEXTS),
            "bigint": lambda: dice.choice(NUMBERS),
            "integer": lambda: dice.choice(NUMBERS[:8]),
            "boolean": lambda: dice.random() < 0.5,
            "uuid": lambda: f"{dice.getrandbits(128):032x}",
            "bytea": lambda: dice.randbytes(dice.choice((0, 1, 32, 32))),
        }
        return made[kind]()


def _read_alike(store: Store) -> None:
    """All ways to read give the same events, each as one line of JSON."""
    events = list(store.events())
    by_stream: dict[str, list[Event]] = {}
    for event in events:
        by_stream.setdefault(event.stream, []).append(event)
        assert "\n" not in line(event)
        assert json.loads(line(event))["payload"] == event.data == json.loads(event.payload or b"")
        assert isinstance(event.data, dict)
    assert {info.stream: info.seq for info in store.streams()} == {
        name: len(found) for name, found in by_stream.items()
    }
    for name, found in by_stream.items():
        assert store.log.read_stream(name, limit=100_000) == found
        assert not name.startswith("tally.")
        assert len({event.metadata["org"] for event in found if "org" in event.metadata}) <= 1
    for event in events[:200]:
        assert store.find(event.id) == event
    for org in ("acme", "bolt"):
        mine = [event for event in events if event.metadata.get("org") == org]
        assert list(store.events(selection=Selection(org=org))) == mine
        assert store.log.for_tenant(org).read(limit=100_000).events == mine  # type: ignore[attr-defined]


@pytest.mark.parametrize("calls", [400, pytest.param(20_000, marks=pytest.mark.slow)])
def test_whatever_is_accepted_is_sound(store: Store, login: Callable[..., str], calls: int) -> None:
    """CP-01, CP-10: `tally verify` says ok, and all readers agree."""
    with connect(login("tally_app")) as connection:
        fuzzer = Fuzzer(connection, store, seed=calls)
        for _ in range(calls):
            fuzzer.step()
    assert fuzzer.accepted > calls // 10
    found = verify(store.log)
    assert found.problems == []
    _read_alike(store)

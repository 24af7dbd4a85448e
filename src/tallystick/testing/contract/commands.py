"""Contract: commands take effect once on this engine, however often and from however many clients they come."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

from tallystick import ANY, NO_STREAM, Store, errors
from tallystick.commands import Answer, CommandKey, Commands, Context, Decision, forget_old
from tallystick.commands.retention import KEPT_NS_MIN
from tallystick.store.capabilities import ANY_STREAM, COMMANDS, DURABLE, MULTI_STREAM
from tallystick.testing.builders import event
from tallystick.testing.contract.harness import Contract, EngineHarness, needs

DEPLOY = CommandKey("acme", "ada", "deploy", "k1")
REQUEST = {"app": "web", "replicas": 3}


def _deploy(context: Context) -> Decision:
    head = context.store.stream_head("app/web")
    seq = head.seq if head else 0
    return Decision([("app/web", [event(context.request["replicas"])], seq)], {"deployed": seq + 1})


def _run(store: Store, *, key: CommandKey = DEPLOY, request: Any = None, handler: Any = _deploy) -> Answer:
    return Commands(store).run(key=key, request=REQUEST if request is None else request, handler=handler)


class RunningCommandContract(Contract):
    """Handlers, run once."""

    @needs(COMMANDS, ANY_STREAM)
    def test_the_same_request_gets_the_stored_response(self, store: Store) -> None:
        """CP-06: the handler does not run again, and key order in the request does not matter."""
        calls: list[Context] = []

        def counting(context: Context) -> Decision:
            calls.append(context)
            return _deploy(context)

        first = _run(store, handler=counting)
        assert first == Answer({"deployed": 1}, False, (("app/web", 1, 1),))
        again = _run(store, request=dict(reversed(REQUEST.items())), handler=counting)
        assert again == Answer({"deployed": 1}, True, (("app/web", 1, 1),))
        assert len(calls) == 1
        assert len(store.read_stream("app/web")) == 1

    @needs(COMMANDS, ANY_STREAM)
    def test_another_request_under_the_key_is_refused(self, store: Store) -> None:
        """CP-06: `idempotency_key_reuse`. If any part of the key differs, it is another command."""
        _run(store)
        with pytest.raises(errors.IdempotencyKeyReuse) as refused:
            _run(store, request={"app": "web", "replicas": 4})
        assert (refused.value.code, refused.value.exit_status) == ("idempotency_key_reuse", 1)
        for field in ("actor", "endpoint", "key"):
            assert not _run(store, key=msgspec.structs.replace(DEPLOY, **{field: "other"})).repeated
        assert len(store.read_stream("app/web")) == 4

    @needs(COMMANDS, ANY_STREAM)
    def test_a_handler_that_fails_stores_nothing(self, store: Store) -> None:
        """CP-06: neither a record nor an event is stored, and the next attempt runs."""

        def failing(context: Context) -> Decision:
            raise RuntimeError("no")

        with pytest.raises(RuntimeError):
            _run(store, handler=failing)
        assert store.log.commands.load(DEPLOY) is None
        assert not _run(store).repeated

    @needs(COMMANDS, ANY_STREAM, MULTI_STREAM)
    def test_all_events_of_a_command_or_none(self, store: Store) -> None:
        """CP-05: a refused part refuses record, events and response."""
        store.append("app/b", event())

        def two(context: Context) -> Decision:
            return Decision([("app/a", [event()], ANY), ("app/b", [event()], NO_STREAM)], {})

        with pytest.raises(errors.Conflict):
            _run(store, handler=two)
        assert store.stream_head("app/a") is None
        assert store.log.commands.load(DEPLOY) is None

    @needs(COMMANDS, ANY_STREAM)
    def test_a_command_may_append_nothing(self, store: Store) -> None:
        """CP-06: its response is stored anyway."""
        assert _run(store, handler=lambda context: Decision([], ["nothing", "to", "do"])).response[0] == "nothing"
        assert _run(store).repeated

    @needs(COMMANDS, ANY_STREAM)
    def test_a_handler_decides_again_after_a_conflict(self, store: Store) -> None:
        """CP-06: what it read has changed. It tries a limited number of times."""
        calls: list[int] = []

        def disturbed(context: Context) -> Decision:
            decision = _deploy(context)
            calls.append(1)
            if len(calls) < 3:
                store.append("app/web", event())
            return decision

        assert _run(store, handler=disturbed).response == {"deployed": 3}
        assert len(calls) == 3

    @needs(COMMANDS, ANY_STREAM)
    def test_events_say_who_asked_for_them(self, store: Store) -> None:
        """CP-03, CP-06: actor, org and idempotency key are in the meta."""
        _run(store)
        meta = store.read_stream("app/web")[0].metadata
        assert meta == {"org": "acme", "actor_id": "ada", "idempotency_key": "k1"}

    @needs(COMMANDS, ANY_STREAM)
    def test_racing_callers_have_one_effect(self, store: Store) -> None:
        """CP-06: many threads use one key. One runs the command, all get its response."""
        answers: list[Answer] = []
        together = threading.Barrier(6)

        def handler(context: Context) -> Decision:
            together.wait(60)  # every thread has found that the command was not run, and decides
            return Decision([("app/web", [event()], ANY)], {"by": threading.get_ident()})

        def call() -> None:
            answers.append(_run(store, handler=handler))

        threads = [threading.Thread(target=call) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len({answer.response["by"] for answer in answers}) == 1
        assert sorted(answer.repeated for answer in answers) == [False] + [True] * 5
        assert len(store.read_stream("app/web")) == 1

    @needs(COMMANDS, ANY_STREAM)
    def test_records_are_kept_a_day_and_not_for_ever(self, store: Store) -> None:
        """CP-06: for at least 24 h, and not without limit."""
        _run(store)
        now = store.clock()
        with pytest.raises(errors.InvalidValue):
            forget_old(store, kept_ns=KEPT_NS_MIN - 1)
        assert forget_old(store, now=now + KEPT_NS_MIN // 2) == 0
        assert _run(store).repeated
        assert forget_old(store, now=now + KEPT_NS_MIN + 1) == 1
        assert not _run(store).repeated

    @needs(COMMANDS, ANY_STREAM, DURABLE)
    def test_a_response_survives_reopening(self, harness: EngineHarness) -> None:
        """CP-06: a retry after a restart gets the same answer."""
        with harness.open() as store:
            first = _run(store)
        again = _run(harness.open())
        assert (again.response, again.ranges, again.repeated) == (first.response, first.ranges, True)

"""Commands that are refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tallystick
from tallystick import ANY, NewEvent, Store, errors
from tallystick.commands import CommandKey, Commands, Context, Decision
from tallystick.testing.builders import event

KEY = CommandKey("acme", "ada", "deploy", "k")


@pytest.fixture
def store() -> Iterator[Store]:
    """A store."""
    with tallystick.open("memory:") as store:
        yield store


def nothing(context: Context) -> Decision:
    """Decide to do nothing."""
    return Decision([], None)


@pytest.mark.parametrize(
    "key",
    ["k", None, CommandKey("acme", "", "e", "k"), CommandKey("a", "b", "c", "\n"), CommandKey("a", "b", "c", 7)],  # type: ignore[arg-type]
)
def test_a_key_has_four_texts(store: Store, key: Any) -> None:
    """CP-06: only the org may be empty, for commands outside of all tenants."""
    with pytest.raises(errors.InvalidValue):
        Commands(store).run(key=key, request={}, handler=nothing)
    assert not Commands(store).run(key=CommandKey("", "b", "c", "d"), request={}, handler=nothing).repeated


@pytest.mark.parametrize("request_", [{"a": float("nan")}, {1: 2}, object(), {"a": (1,)}, b"x"])
def test_a_request_is_json(store: Store, request_: Any) -> None:
    """CP-06: a request without a canonical form has no hash."""
    with pytest.raises(errors.NotCanonical):
        Commands(store).run(key=KEY, request=request_, handler=nothing)


@pytest.mark.parametrize("decision", [None, {}, [("app/web", [event()], ANY)]])
def test_a_handler_returns_a_decision(store: Store, decision: Any) -> None:
    """CP-06: anything else is refused, and nothing is stored."""
    with pytest.raises(errors.InvalidValue):
        Commands(store).run(key=KEY, request={}, handler=lambda context: decision)
    assert store.log.commands.load(KEY) is None


def test_a_response_is_json_and_bounded(store: Store) -> None:
    """CP-06: responses are stored, so they must be JSON within a limit; otherwise nothing is recorded."""
    for response, kind in ((object(), errors.NotCanonical), ("x" * (1 << 20), errors.TooLarge)):
        decision = Decision([("app/web", [event()], ANY)], response)
        with pytest.raises(kind):
            Commands(store).run(key=KEY, request={}, handler=lambda context, decision=decision: decision)
    assert store.head() == 0


def test_a_response_of_exactly_the_limit_is_kept(store: Store) -> None:
    """CP-06: 1 MiB with quotes is accepted, and a retry gets all of it; one more byte is refused with its size."""
    response = "x" * ((1 << 20) - 2)
    for repeated in (False, True):
        answer = Commands(store).run(key=KEY, request={}, handler=lambda context: Decision([], response))
        assert (answer.repeated, answer.response) == (repeated, response)
    with pytest.raises(errors.TooLarge) as refused:
        Commands(store).run(
            key=CommandKey("acme", "ada", "deploy", "other"),
            request={},
            handler=lambda context: Decision([], f"{response}x"),
        )
    assert (refused.value.size, refused.value.limit) == ((1 << 20) + 1, 1 << 20)


def test_conflicts_are_not_retried_for_ever(store: Store) -> None:
    """CP-06: a decision that always conflicts is given up."""
    calls: list[int] = []

    def hopeless(context: Context) -> Decision:
        calls.append(1)
        return Decision([("app/web", [event()], 7)], {})

    with pytest.raises(errors.Conflict):
        Commands(store, conflict_tries=3).run(key=KEY, request={}, handler=hopeless)
    assert len(calls) == 3


def test_a_secret_in_an_event_of_a_command_is_refused(store: Store) -> None:
    """CP-11: commands go through the same guard, and leave no record."""
    leak = {"key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEowIBAAKCAQEA"}
    decision = Decision([("app/web", [tallystick.NewEvent("t", leak)], ANY)], {})
    with pytest.raises(errors.SecretFound):
        Commands(store).run(key=KEY, request={}, handler=lambda context: decision)
    assert store.log.commands.load(KEY) is None


@pytest.mark.parametrize("now", [1.79e9, 1.0, -1, None, True])
def test_a_clock_of_seconds_is_refused(store: Store, now: Any) -> None:
    """CP-06: retention would delete a record from 1970 at once, and the command would run again."""
    with pytest.raises(errors.InvalidValue, match="nanoseconds"):
        Commands(store, clock=lambda: now).run(key=KEY, request=1, handler=lambda context: Decision([], 1))
    assert store.log.commands.load(KEY) is None


@pytest.mark.parametrize("required", [("no such name", 0), ("app/web", "0"), ("app/web", -1), (5, 0)])
def test_a_requirement_that_nothing_could_break_is_refused(store: Store, required: Any) -> None:
    """CP-06: a requirement on a misspelt stream would never fail."""
    with pytest.raises((errors.InvalidName, errors.InvalidValue)):
        Commands(store).run(key=KEY, request=1, handler=lambda context: Decision([], 1, require=(required,)))


@pytest.mark.parametrize(
    "parts",
    [
        None,
        7,
        "app/web",
        [None],
        [7],
        ["app/web"],
        [("app/web",)],
        [("app/web", [event()], ANY, 1)],
        [("app/web", None, ANY)],
        [("app/web", event(), ANY)],
        [("app/web", [None], ANY)],
        [("app/web", [], ANY)],
        [(7, [event()], ANY)],
        [("app/web", [event()], "any")],
        [("app/web", [NewEvent("a.b", {}, meta=[1])], ANY)],  # type: ignore[arg-type]
    ],
)
def test_parts_that_are_none_are_refused_by_name(store: Store, parts: Any) -> None:
    """CP-06: a mistake of a handler raises one of our errors with the reason, and nothing is stored."""
    with pytest.raises(errors.TallyError):
        Commands(store).run(key=KEY, request={}, handler=lambda context: Decision(parts, None))
    assert store.head() == 0
    assert store.log.commands.load(KEY) is None


@pytest.mark.parametrize("require", [None, 7, [7], [("app/web",)], [("app/web", "1")], [(7, 1)]])
def test_requirements_that_are_none_are_refused_by_name(store: Store, require: Any) -> None:
    """CP-06: malformed requirements are refused too."""
    with pytest.raises(errors.TallyError):
        Commands(store).run(key=KEY, request={}, handler=lambda context: Decision([], None, require))
    assert store.log.commands.load(KEY) is None

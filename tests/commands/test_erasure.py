"""Erasing an event of a command: its response is deleted, and the command still counts as run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, errors
from tallystick.commands import Answer, CommandKey, Commands, Context, Decision
from tallystick.state.erasure import erase

KEY = CommandKey("acme", "ada", "sign-up", "k1")
REQUEST = {"name": "Grace Hopper"}
SECRET = b"Grace Hopper"


def sign_up(context: Context) -> Decision:
    """Two events and a response that all quote the request."""
    events = [NewEvent("user.added", context.request), NewEvent("user.greeted", context.request)]
    return Decision([("user/1", events, 0), ("audit/1", [NewEvent("user.seen", {})], -1)], context.request)


@pytest.fixture(params=["memory", "sqlite", "files"])
def url(request: Any, tmp_path: Path) -> str:
    """A store of each engine."""
    return "memory:" if request.param == "memory" else f"{request.param}:{tmp_path}/log"


def on_disk(place: Path) -> bytes:
    """Every byte of a store."""
    return b"".join(path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file())


def test_a_command_whose_event_was_erased_runs_no_second_time(url: str, tmp_path: Path) -> None:
    """CP-06, Settled 25: a retry gets `repeated` and `erased`, also after reclaiming."""
    with tallystick.open(url) as store:
        done = Commands(store).run(key=KEY, request=REQUEST, handler=sign_up)
        store.append("user/1", NewEvent("user.renamed", {}))
        assert erase(store, "user/1", 1, reason="asked for").responses == 1
        expected = Answer(None, True, done.ranges, erased=True)
        assert Commands(store).run(key=KEY, request=REQUEST, handler=sign_up) == expected
        with pytest.raises(errors.IdempotencyKeyReuse):
            Commands(store).run(key=KEY, request={"name": "another"}, handler=sign_up)
        assert erase(store, "user/1", 2, reason="asked for").responses == 0
        store.log.reclaim(compress_before=None, progress=lambda done: None)
        assert Commands(store).run(key=KEY, request=REQUEST, handler=sign_up) == expected
    assert SECRET not in on_disk(tmp_path)
    if url != "memory:":
        with tallystick.open(url) as store:
            assert Commands(store).run(key=KEY, request=REQUEST, handler=sign_up) == expected
            assert len(store.read_stream("user/1")) == 3


def test_an_erased_response_is_not_taken_for_null(url: str) -> None:
    """CP-06: a null response differs from an erased one."""
    with tallystick.open(url) as store:
        empty = CommandKey("acme", "ada", "sign-up", "k2")
        Commands(store).run(key=empty, request=1, handler=lambda context: Decision([], None))
        again = Commands(store).run(key=empty, request=1, handler=sign_up)
        assert (again.response, again.repeated, again.erased) == (None, True, False)

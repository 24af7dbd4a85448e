"""Processes that are killed in the middle of their work. They are forked from a server that has opened no store.

A store handle does not survive a fork, and starting Python takes longer than the work to interrupt.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import tallystick
from tallystick import ANY, errors
from tallystick.commands import CommandKey, Commands, Context, Decision
from tallystick.projections import Consumer, Live, rebuild, run_inline
from tallystick.testing.builders import event
from tallystick.testing.shop import PAID, PLACED, CustomerBalance, OrderTotals, order_event

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


class Victim:
    """A process that runs `work` until it is killed, and reports when it has begun."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self._begun = _context.Event()
        self._process = _context.Process(target=work, args=(self._begun, *arguments), daemon=True)
        self._process.start()

    def wait_until_begun(self) -> None:
        """Wait until it is in the middle of its work."""
        assert self._begun.wait(60), "the process did not begin"

    def kill(self) -> None:
        """Send SIGKILL: it cannot clean up."""
        self._process.kill()
        self._process.join(60)
        assert self._process.exitcode == -9, f"it ended by itself: {self._process.exitcode}"


def open_beside(url: str) -> tallystick.Store:
    """A store that another process writes to."""
    return tallystick.open(url, readonly=url.startswith("files:"))


def project(begun: Any, url: str, seed: int) -> None:
    """Run two projections in small batches without end, and rebuild one of them now and then."""
    chance = random.Random(seed)
    with open_beside(url) as store:
        begun.set()
        while True:
            Live(store, OrderTotals(), batch_events=chance.randint(1, 9)).catch_up()
            Live(store, CustomerBalance(), batch_events=chance.randint(1, 9)).catch_up()
            if chance.random() < 0.5:
                _rebuild(store, chance.randint(5, 50))


def _rebuild(store: tallystick.Store, batch_events: int) -> None:
    with suppress(errors.ViewMoved):  # a newer rebuild in another process won
        rebuild(store, CustomerBalance(), batch_events=batch_events)


def append_inline(begun: Any, url: str, first: int) -> None:
    """Append without end, with an inline projection."""
    with tallystick.open(url) as store:
        run_inline(store, OrderTotals())
        begun.set()
        while True:
            first += 1
            parts = [(f"order/{first % 5}", [order_event(PLACED, amount=first)] * (first % 3 + 1), ANY)]
            store.append_all([*parts, ("order/all", [order_event(PAID, amount=first)], ANY)])


def consume(begun: Any, url: str, path: str) -> None:
    """Run a consumer without end that writes the position of every event to a file."""
    with open_beside(url) as store, open(path, "a", buffering=1) as effects:
        begun.set()
        consumer = Consumer(store, "mailer", lambda event: effects.write(f"{event.position}\n"), save_every=3)
        while True:
            consumer.catch_up()


def command(begun: Any, url: str, key: CommandKey, linger: float) -> None:
    """Run one command with a pause between its decision and its commit; then wait without end."""
    with tallystick.open(url) as store:

        def handler(context: Context) -> Decision:
            begun.set()
            time.sleep(linger)
            return decide(context)

        Commands(store).run(key=key, request=key.key, handler=handler)
        while True:
            time.sleep(1)


def decide(context: Context) -> Decision:
    """Two streams in one commit, and a response that shows when it was decided."""
    parts = [("app/web", [event()], ANY), (f"deploy/{context.key.key}", [event()], ANY)]
    return Decision(parts, {"now": context.now})

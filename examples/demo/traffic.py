"""Realistic events, always the same for one seed: agents that call tools, orders that are paid, nightly imports.

About two hundred stories are in progress at any time. A commit is the next event of one of them, or its next few, or a
whole import. Event number n always has the same id. So what was sent can be compared with what was stored, and sending
an event twice is harmless.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from tallystick.event.model import NewEvent

ACTIVE_STORIES = 200
IMPORT_SHARE = 0.004
SINGLE_SHARE = 0.5
_NUMBER_BITS = 62
_EPOCH_MS = 1_735_689_600_000  # 2025-01-01; ids of the demo are as good as any, but recognisable

Step: TypeAlias = "tuple[str, dict[str, Any]]"


class Commit(msgspec.Struct, frozen=True):
    """What one append holds: events `first` to `first + len(events) - 1`, all to one stream."""

    first: int
    stream: str
    events: list[NewEvent]


class Story(msgspec.Struct):
    """A stream, and the events that will still be appended to it."""

    stream: str
    actor: str
    steps: list[Step]


def commits(count: int, *, seed: int = 1) -> Iterator[Commit]:
    """Commits with `count` events altogether."""
    chance = random.Random(seed)
    stories = _Stories(chance)
    first = 0
    while first < count:
        story, size = stories.next_piece()
        steps, story.steps = story.steps[:size], story.steps[size:]
        steps = steps[: count - first]
        yield Commit(first, story.stream, [_event(first + index, story, step) for index, step in enumerate(steps)])
        first += len(steps)


def event_id(number: int) -> bytes:
    """The id of event `number`: a UUIDv7 that carries it."""
    return ((_EPOCH_MS + number) << 80 | 7 << 76 | 2 << _NUMBER_BITS | number).to_bytes(16, "big")


def event_number(id_: bytes) -> int | None:
    """The number that an id carries; None if the id is not one of ours."""
    number = int.from_bytes(id_, "big") & ((1 << _NUMBER_BITS) - 1)
    return number if event_id(number) == id_ else None


def _event(number: int, story: Story, step: Step) -> NewEvent:
    meta = {"actor_type": "service_principal", "actor_id": story.actor, "correlation_id": story.stream}
    return NewEvent(step[0], step[1], meta=meta, id=event_id(number))


class _Stories:
    """The stories in progress. When one ends, a new one begins."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._begun = 0
        self._active = [self._begin() for _ in range(ACTIVE_STORIES)]

    def next_piece(self) -> tuple[Story, int]:
        """The story that continues now, and how many of its events are in the next commit."""
        chance = self._chance
        if chance.random() < IMPORT_SHARE:
            self._begun += 1
            story = _import(chance, self._begun)
            return story, len(story.steps)
        place = chance.randrange(ACTIVE_STORIES)
        if not self._active[place].steps:
            self._active[place] = self._begin()
        return self._active[place], 1 if chance.random() < SINGLE_SHARE else chance.randrange(2, 40)

    def _begin(self) -> Story:
        self._begun += 1
        kind: Callable[[random.Random, int], Story] = _agent_run if self._chance.random() < 0.5 else _order
        return kind(self._chance, self._begun)


def _order(chance: random.Random, number: int) -> Story:
    order = f"o-{number:06}"
    lines: list[dict[str, Any]] = [
        {
            "sku": f"sku-{chance.randrange(10_000):04}",
            "qty": chance.randrange(1, 6),
            "price": chance.randrange(99, 20_000),
        }
        for _ in range(chance.randrange(1, 9))
    ]
    total = sum(line["qty"] * line["price"] for line in lines)
    steps: list[Step] = [
        (
            "order.placed",
            {"customer": f"c-{chance.randrange(5000):05}", "lines": lines, "total": total, "currency": "EUR"},
        )
    ]
    for attempt in range(1, chance.choice((2, 2, 2, 3, 4))):
        steps.append(("payment.requested", {"order": order, "amount": total, "attempt": attempt, "method": "card"}))
        steps.append(("payment.declined", {"order": order, "attempt": attempt, "reason": "insufficient funds"}))
    steps[-1] = ("payment.captured", {"order": order, "amount": total, "fee": round(total * 0.014, 2)})
    steps.append(
        ("order.packed", {"order": order, "parcels": chance.randrange(1, 4), "weight_g": chance.randrange(9000)})
    )
    steps.append(("order.shipped", {"order": order, "carrier": chance.choice(_CARRIERS), "note": _prose(chance, 12)}))
    if chance.random() < 0.2:
        steps.append(("order.returned", {"order": order, "reason": _prose(chance, 8), "refund": total}))
    return Story(f"order/{order}", "checkout", steps)


def _agent_run(chance: random.Random, number: int) -> Story:
    task = {"task": _prose(chance, 20), "model": "example-1", "budget_tokens": 200_000}
    steps: list[Step] = [("agent.started", task)]
    calls = chance.randrange(4, 40)
    for call in range(1, calls + 1):
        steps += _tool_call(chance, call)
    steps.append(("agent.finished", {"answer": _prose(chance, 60), "calls": calls, "cost": chance.randrange(1, 90)}))
    return Story(f"agent/a-{number:06}", f"agent-{chance.randrange(12)}", steps)


def _tool_call(chance: random.Random, call: int) -> Iterator[Step]:
    arguments = {"query": _prose(chance, 6), "limit": 20}
    yield "tool.called", {"call": call, "tool": chance.choice(_TOOLS), "arguments": arguments}
    words = chance.choice((5, 15, 40, 40, 80, 400))
    yield "tool.returned", {"call": call, "ok": chance.random() > 0.05, "output": _prose(chance, words)}
    if chance.random() < 0.3:
        yield "agent.thought", {"text": _prose(chance, 30), "certainty": chance.random(), "next": None}


def _import(chance: random.Random, number: int) -> Story:
    steps: list[Step] = [("entry.booked", _entry(chance, line)) for line in range(chance.randrange(100, 800))]
    return Story(f"ledger/day-{number:06}", "nightly-import", steps)


def _entry(chance: random.Random, line: int) -> dict[str, Any]:
    amount = chance.randrange(-99_999, 99_999)
    return {"account": f"{chance.randrange(1000, 9999)}", "amount": amount, "line": line, "text": _prose(chance, 5)}


def _prose(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(_WORDS, k=words))


_CARRIERS = ("Northern Post", "Quick Parcel", "Bicycle & Sons")
_TOOLS = ("search", "read_file", "run_tests", "edit_file", "ask_user")
_VOCABULARY = (
    "the a of and to in that it with for on as by from at this which or be are was were an not but all can had have "
    "order parcel price report customer review result file line test change reason table column value record number "
    "größe café naïve 数据 найти first second last open close write read find check build send move count wait"
)
_WORDS = tuple(_VOCABULARY.split())

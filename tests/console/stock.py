"""The store of a shop after a while: orders with causes, runs, snapshots, and input that tries to break the console."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from tallystick import NewEvent, Store, errors, runs, state
from tallystick.event import ids

from . import shop

ORDERS = 60
MINUTE = 60_000_000_000
BEGAN = 1_790_000_000_000_000_000
WARES = ("kettle", "teapot", "tray", "whisk", "sieve", "tin")


class Story:
    """Writes events whose causes are known."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.time = BEGAN

    def tell(self, stream: str, type_: str, payload: Any, cause: str | None = None, **meta: str) -> str:
        """Append one event. Returns its id."""
        self.time += MINUTE // 7
        id_ = new_id()
        more = {"causation_id": cause} if cause else {}
        event = NewEvent(type_, payload, {"org": "acme", "env": "test"} | meta | more, id=id_, time=self.time)
        self.store.append(stream, event)
        return ids.to_text(id_)


def new_id() -> bytes:
    """An id that can be named as a cause before its event is written."""
    return ids.default.mint(1, time_ns=time.time_ns())[0]


def fill(store: Store, place: Path, *, worn: bool = False) -> dict[str, str]:
    """Fill a store. Returns the ids of some events by name. A worn store was pruned, and one payload was erased."""
    story = Story(store)
    named = {}
    for number in range(1, ORDERS + 1):
        named |= _order(story, number)
    _keep(store, worn=worn)
    named |= _hostile(story)
    _run(store, place)
    return named


def _order(story: Story, number: int) -> dict[str, str]:
    """An order from the basket to the parcel, each step caused by the one before."""
    stream, customer = f"order/{1000 + number}", f"customer-{number % 7}"
    items = [WARES[(number + step) % len(WARES)] for step in range(1 + number % 3)]
    chain = {"correlation_id": f"basket-{number}"}
    placed = story.tell(
        stream, "order.placed", {"customer": customer, "items": items, "cents": 995 * len(items)}, **chain
    )
    added = story.tell(stream, "order.item_added", {"item": "postcard", "cents": 150}, placed, **chain)
    paid = story.tell(
        f"payment/{number}", "payment.taken", {"order": stream, "cents": 995 * len(items) + 150}, added, **chain
    )
    packed = story.tell(stream, "order.packed", {"parcel": f"P-{number:05}"}, paid, **chain)
    sent = story.tell(stream, "order.sent", {"parcel": f"P-{number:05}"}, packed, **chain)
    story.tell(f"stock/{items[0]}", "stock.taken", {"count": 1}, packed, **chain)
    return {"placed": placed, "paid": paid, "sent": sent}


def _keep(store: Store, *, worn: bool) -> None:
    """Snapshots, one protected; in a worn store a prune and an erasure."""
    order = state.as_reducer(shop.order)
    for number in range(1, 9):
        state.make(store, order, f"order/{1000 + number}", protect=number == 1)
    if not worn:
        return
    state.prune(store, "order/1002", before=3, reducers=[order], accept=True)
    state.erase(store, "payment/5", 1, reason="asked for by the customer")


SCRIPT = "<script>window.broken = true</script>"
HOSTILE: dict[str, Any] = {
    "script": {"a": SCRIPT, SCRIPT: {"deep": [SCRIPT]}},
    "image": {"note": '"><img src=x onerror="window.broken = true">'},
    "link": {"url": "javascript:window.broken=true//", "see": "data:text/html,<script>window.broken=true</script>"},
    "closing": {"end": "</script><script>window.broken = true</script><!--"},
    "turned": {"file": "invoice\u202efdp.exe", "hidden": "pay\u200bpal", "homoglyph": "раypal"},
    "numbers": {"none": None, "big": 9007199254740993, "small": -0.0, "float": 1e308},
    "cells": {"cell": '=HYPERLINK("http://127.0.0.1:1/","x")'},
    "name": {"filename": 'a"\r\nSet-Cookie: broken=1'},
    "picture": {"svg": '<svg xmlns="http://www.w3.org/2000/svg" onload="window.broken=true"><script>1</script></svg>'},
    "markdown": {"text": "![x](http://127.0.0.1:1/beacon.png) [y](javascript:alert(1))"},
    "braces": {"sum": "{{7*7}}", "block": "{% raw %}", "js": "${7*7}", "angular": "{{constructor.constructor('x')()}}"},
    "long": {"text": "tally " * 10_700},
    "wide": {"rows": [{"n": number} for number in range(4000)]},
    "prototype": {"__proto__": {"broken": True}, "constructor": {"prototype": {"broken": True}}},
}


def _hostile(story: Story) -> dict[str, str]:
    """Input that tries to break the console: in payloads, meta, and ids of causes."""
    named = {}
    for number, (name, payload) in enumerate(HOSTILE.items(), 1):
        meta = {"correlation_id": SCRIPT, "source": f"{name}\u202e{SCRIPT}", "tags": {"t": SCRIPT}}
        id_ = story.tell("odd/things", f"odd.{name}", payload, f"{SCRIPT}{number}", **meta)  # type: ignore[arg-type]
        named[f"odd.{name}"] = id_
    for name, year in (("early", 0), ("late", (1 << 63) - 1)):
        id_ = new_id()
        story.store.append("odd/times", NewEvent(f"odd.{name}", {"when": name}, id=id_, time=year))
        named[f"odd.{name}"] = ids.to_text(id_)
    return named


def _run(store: Store, place: Path) -> None:
    """A run that failed at its last node, and another one that is half finished."""
    with contextlib.suppress(errors.RunFault):
        runs.start(store, shop.week, run="week-46", workspace=str(place / "workspace"))
    first, _ = halves(store)
    store.append("run/week-47", first)


def halves(store: Store) -> tuple[list[NewEvent], list[NewEvent]]:
    """The events of the failed run under another id: up to its first finished node, and the rest."""
    told = [NewEvent(event.type, event.data, event.metadata) for event in store.read_stream("run/week-46")]
    middle = next(index for index, event in enumerate(told) if event.type == "NODE_FINISHED") + 1
    return told[:middle], told[middle:]

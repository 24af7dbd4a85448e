"""The events that are measured: an order of about 350 bytes of JSON, no two alike, or padded to another size."""

from __future__ import annotations

import random
from typing import Any

import msgspec

TYPE = "order.placed"
_WORDS = (
    "please",
    "leave",
    "the",
    "parcel",
    "with",
    "a",
    "neighbour",
    "ring",
    "twice",
    "thank",
    "you",
    "garden",
    "gate",
)


def orders(count: int, *, bytes_min: int = 0, seed: int = 7) -> list[dict[str, Any]]:
    """`count` payloads; with `bytes_min` the note grows until the payload has that size."""
    chance = random.Random(seed)
    found = [_order(chance) for _ in range(count)]
    for payload in found:
        missing = bytes_min - len(msgspec.json.encode(payload))
        if missing > 0:
            payload["note"] += _text(chance, missing)
    return found


def small(count: int, *, seed: int = 7) -> list[dict[str, Any]]:
    """`count` payloads of about 100 bytes: a few fields of an order."""
    kept = ("customer_id", "order_id", "currency", "total", "gift")
    return [{name: order[name] for name in kept} for order in orders(count, seed=seed)]


def _order(chance: random.Random) -> dict[str, Any]:
    lines: list[dict[str, Any]] = [
        {
            "sku": f"sku-{chance.randrange(10_000):04}",
            "qty": chance.randrange(1, 9),
            "price": chance.randrange(99, 9999),
        }
        for _ in range(2)
    ]
    return {
        "customer_id": f"cus_{chance.randrange(10**7):07}",
        "order_id": f"ord_{chance.randrange(10**8):08}",
        "currency": "EUR",
        "total": sum(line["qty"] * line["price"] for line in lines),
        "lines": lines,
        "note": _text(chance, 60),
        "shipping": {"street": f"Main street {chance.randrange(200)}", "city": "Springfield", "zip": "12345"},
        "gift": chance.random() < 0.1,
        "discount": chance.randrange(100) / 400,
    }


def _text(chance: random.Random, length: int) -> str:
    words = ""
    while len(words) < length:
        words += chance.choice(_WORDS) + " "
    return words[:length]

"""Reading a log from its start, every frame checked."""

from __future__ import annotations

from collections.abc import Iterator

import tallystick
from bench import payloads
from bench.harness import Bar, Row, Spec, alternate, measures, rate
from bench.peers import umadb
from bench.rows.batches import BATCH
from bench.workshop import Workshop, fill
from tallystick import Store

VERIFIED = Spec(
    name="files: verified replay",
    unit="events/s",
    against="umadb",
    bar=Bar("ratio", ">=", 1.1),
    note="the SHA-256 of every frame is compared in every round, that of a payload once while its frame has"
    " the same bytes; events decoded, payloads left as bytes; umadb sends over loopback",
)
FIRST = Spec(
    name="files: verified replay, the first since opening",
    unit="events/s",
    against="umadb",
    note="a new handle in every round: the SHA-256 of every frame and of every payload; opening is not counted",
)
DECODED = Spec(
    name="files: verified replay, payloads decoded",
    unit="events/s",
    against="umadb",
    note="both sides decode each payload with msgspec",
)
HUNDRED_THOUSAND = Spec(
    name="files: 100,000 events replayed",
    unit="s",
    bar=Bar("value", "<=", 10.0),
    note="the best round, payloads decoded",
    covers=("LH-18",),
)


@measures(VERIFIED, FIRST, DECODED, HUNDRED_THOUSAND)
def replay(workshop: Workshop) -> Iterator[Row]:
    count = workshop.scale.replayed
    with workshop.store("files") as store, umadb.server(workshop.place("umadb")) as uma:
        fill(store, count)
        bodies = payloads.orders(BATCH)
        for number in range(count // BATCH):
            uma.append(f"order/{number}", bodies)
        best = alternate(
            {
                "ours": lambda: rate(count, lambda: _expect(count, _replay(store))),
                "first": lambda: _first_replay(store.log.url, count),
                "umadb": lambda: rate(count, lambda: _expect(count, uma.read(limit=count))),
                "ours, decoded": lambda: rate(count, lambda: _expect(count, _replay_decoded(store))),
                "umadb, decoded": lambda: rate(count, lambda: _expect(count, uma.read(limit=count, decode=True))),
            },
            rounds=workshop.scale.rounds,
        )
    yield VERIFIED.row(best["ours"].highest, best["umadb"].highest, note=best["ours"].spread)
    yield FIRST.row(best["first"].highest, best["umadb"].highest, note=best["first"].spread)
    decoded = best["ours, decoded"]
    yield DECODED.row(decoded.highest, best["umadb, decoded"].highest, note=decoded.spread)
    yield HUNDRED_THOUSAND.row(100_000 / decoded.highest)


def _replay(store: Store) -> int:
    return sum(1 for _ in store.events())


def _first_replay(url: str, count: int) -> float:
    with tallystick.open(url, readonly=True) as store:
        return rate(count, lambda: _expect(count, _replay(store)))


def _replay_decoded(store: Store) -> int:
    return sum(1 for event in store.events() if event.data)


def _expect(count: int, found: int) -> None:
    if found != count:
        raise RuntimeError(f"{found} events were read instead of {count}")

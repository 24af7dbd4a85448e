"""Commands: recorded in the transaction of their events, once, in one round trip."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable

import pytest

from tallystick import NewEvent, Store, errors
from tallystick.store.commit import Outcome
from tallystick.store.idempotency import CommandKey, CommandRecord
from tallystick.store.prepare import Part, Request
from tallystick.store.verify import verify
from tallystick.testing.builders import events

KEY = CommandKey("acme", "u1", "POST /orders", "k1")


def _request(stream: str, count: int = 1, key: CommandKey = KEY) -> Request:
    return Request([Part(stream, events(count))], command=CommandRecord(key, b"h" * 32, b'{"ok":true}', 1))


def _at_once(stores: list[Store], request: Callable[[int], Request]) -> list[Outcome]:
    """The outcomes of one request per handle, all submitted at the same moment."""
    barrier, outcomes = threading.Barrier(len(stores)), list[Outcome]()

    def run(index: int) -> None:
        asked = request(index)
        barrier.wait()
        outcomes.extend(stores[index].submit([asked]))

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


@pytest.mark.parametrize("streams", [["order/1"], ["order/1", "order/2"]], ids=["one stream", "two streams"])
@pytest.mark.parametrize("counts", [[1], [1, 2]], ids=["one event", "one event or a batch"])
def test_of_racing_requests_exactly_one_wins(
    reopen: Callable[..., Store], streams: list[str], counts: list[int]
) -> None:
    """CP-06: eight handles run the same command at once, ten times; one takes effect, seven get CommandRepeated."""
    stores = [reopen(connections_max=2) for _ in range(8)]
    for number in range(10):
        key = CommandKey("acme", "u1", "POST /orders", f"k{number}")
        outcomes = _at_once(
            stores,
            lambda index, key=key: _request(streams[index % len(streams)], counts[index // 2 % len(counts)], key),
        )
        won = [outcome for outcome in outcomes if isinstance(outcome, list)]
        lost = [outcome for outcome in outcomes if isinstance(outcome, errors.CommandRepeated)]
        assert (len(won), len(lost)) == (1, 7)
        record = stores[0].log.commands.load(key)
        assert record is not None
        assert record.ranges == ((won[0][0].stream, won[0][0].first_seq, won[0][0].last_seq),)
    stored = sum(len(stores[0].read_stream(stream, limit=1000)) for stream in streams)
    ranges = [stores[0].log.commands.load(CommandKey("acme", "u1", "POST /orders", f"k{n}")) for n in range(10)]
    assert stored == sum(last - first + 1 for record in ranges if record for _, first, last in record.ranges)
    assert verify(stores[0].log).problems == []


def _round_trips(store: Store, work: Callable[[], object]) -> int:
    """How often the client waited for the server, by the trace of the protocol."""
    with tempfile.TemporaryFile() as trace:
        with store.log._connections.raw_connection() as connection:  # type: ignore[attr-defined]
            connection.pgconn.trace(trace.fileno())
        work()
        with store.log._connections.raw_connection() as connection:  # type: ignore[attr-defined]
            connection.pgconn.untrace()
        trace.seek(0)
        return trace.read().count(b"ReadyForQuery")


def test_a_command_costs_no_round_trip(reopen: Callable[..., Store]) -> None:
    """CP-06: one event is one round trip, with its command or without; a repeated command is one, too."""
    store = reopen(connections_max=1)
    for number in range(3):  # statements are prepared, and the publisher has slept
        store.append("order/1", NewEvent("thing.done", {}))
        store.submit([_request("order/1", key=CommandKey("acme", "u1", "warm", str(number)))])
    store.log._publisher.close()  # type: ignore[attr-defined]
    assert _round_trips(store, lambda: store.append("order/1", NewEvent("thing.done", {}))) == 1
    assert _round_trips(store, lambda: store.submit([_request("order/1")])) == 1
    assert _round_trips(store, lambda: store.submit([_request("order/1")])) == 1
    assert store.stream_head("order/1").seq == 8  # type: ignore[union-attr]


@pytest.mark.parametrize("count", [1, 3])
def test_a_refused_append_leaves_no_record(store: Store, count: int) -> None:
    """CP-06: a command whose events were refused did not take effect, and may run again."""
    store.append("order/1", events(2))
    refused = Request([Part("order/1", events(count), 7)], command=CommandRecord(KEY, b"h" * 32, b"{}", 1))
    assert isinstance(store.submit([refused])[0], errors.Conflict)
    assert store.log.commands.load(KEY) is None
    outcome: Outcome = store.submit([_request("order/1", count)])[0]
    assert isinstance(outcome, list)

"""The same request under the same key takes effect once, on every engine that keeps commands."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

BODY = {"events": [{"type": "noted", "payload": {"n": 1}}, {"type": "noted", "payload": {"n": 2}}]}
KEY = {"idempotency-key": "k-1"}
JSON = b"application/json"
PATH = "/v1/streams/order/1/events"


def test_a_repeated_request_gets_the_stored_answer(everywhere: Any, fresh: str) -> None:
    """CP-06: same key and body: the same bytes again, marked as a repetition, and nothing more is recorded."""
    path, key = f"/v1/streams/{fresh}/events", {"idempotency-key": fresh}
    first = everywhere.client.post(path, json=BODY, headers=key)
    again = everywhere.client.post(path, json=BODY, headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert everywhere.service.store.stream_head(fresh).seq == 2


def test_another_request_under_the_same_key_is_refused(everywhere: Any, fresh: str) -> None:
    """CP-06: another body or another stream is 409 `idempotency_key_reuse`, and nothing is recorded."""
    path, key = f"/v1/streams/{fresh}/events", {"idempotency-key": fresh}
    everywhere.client.post(path, json=BODY, headers=key)
    other_body = everywhere.client.post(path, json={"events": BODY["events"][:1]}, headers=key)
    other_path = everywhere.client.post(f"/v1/streams/{fresh}-b/events", json=BODY, headers=key)
    for refused in (other_body, other_path):
        assert (refused.status_code, refused.json()["code"]) == (409, "idempotency_key_reuse")
    assert everywhere.service.store.stream_head(fresh).seq == 2
    assert everywhere.service.store.stream_head(f"{fresh}-b") is None


def test_of_racing_requests_one_takes_effect(everywhere: Any, fresh: str) -> None:
    """CP-06: many at once with one key are all told the same, and it happened once."""
    together = threading.Barrier(8)

    def send(_: int) -> bytes:
        with everywhere.as_("") as client:
            together.wait()
            body, key = BODY | {"expected": "none"}, {"idempotency-key": fresh}
            answer = client.post(f"/v1/streams/{fresh}/events", json=body, headers=key)
            assert answer.status_code == 201, answer.text
            return bytes(answer.content)

    with ThreadPoolExecutor(8) as threads:
        answers = set(threads.map(send, range(8)))
    assert len(answers) == 1
    assert everywhere.service.store.stream_head(fresh).seq == 2


def test_a_key_belongs_to_one_actor(serve: Any, book: Any) -> None:
    """Two services that use the same key do not meet."""
    served = serve(tokens=book(a=("writer", "acme"), b=("writer", "acme"), c=("writer", "other")))
    for token, stream in (("a", "order/1"), ("b", "order/2"), ("c", "order/3")):
        assert served.append(stream, {}, token=token, headers=KEY).status_code == 201
    assert served.service.store.head() == 3


def test_a_refused_request_may_be_sent_again(serve: Any) -> None:
    """A conflict stores nothing under the key."""
    served = serve()
    refused = served.append("order/1", {"n": 1}, expected=1, headers=KEY)
    assert refused.status_code == 409
    served.append("order/1", {"n": 0})
    assert served.append("order/1", {"n": 1}, expected=1, headers=KEY).status_code == 201
    again = served.append("order/1", {"n": 1}, expected=1, headers=KEY)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")


def test_a_key_that_is_none_is_refused(serve: Any) -> None:
    """One header with a printable text of at most 1,000 characters."""
    served = serve()
    for keys in (["a", "b"], [""], ["x" * 1001], ["a\tb"], ["\udcff"]):
        headers = [(b"idempotency-key", key.encode("utf-8", "surrogateescape")) for key in keys]
        refused = served.client.post(PATH, content=json.dumps(BODY), headers=[*headers, (b"content-type", JSON)])
        assert refused.status_code == 422, (keys, refused.text)
    assert served.service.store.head() == 0


def test_an_engine_without_commands_says_so(serve: Any, tmp_path: Any) -> None:
    """A store of runs refuses a key by name, and appends without one."""
    served = serve(f"ndjson:{tmp_path}/runs", profile="run")
    refused = served.append("run/a", {}, headers=KEY)
    assert (refused.status_code, refused.json()["code"]) == (501, "unsupported_capability")
    assert served.append("run/a", {}).status_code == 201


def test_the_pruned_answer_is_told_without_positions(serve: Any) -> None:
    """When the events are gone, the seqs that the record keeps are still told."""
    from tallystick import state
    from tallystick.server.merging import merge

    served = serve()
    first = served.client.post(PATH, json=BODY, headers=KEY).json()
    served.append("order/1", {"n": 3})
    store = served.service.store
    state.prune(store, "order/1", before=3, reducers=[merge], snapshot=True, accept=True)
    again = served.client.post(PATH, json=BODY, headers=KEY)
    assert again.json() == {"stream": "order/1", "first_seq": 1, "last_seq": first["last_seq"], "pruned": True}

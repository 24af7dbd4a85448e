"""Lines of the ndjson engine under random content and random damage; and facts against their JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import msgspec
from hypothesis import strategies as st

from tallystick import errors
from tallystick.engines.ndjson import line as lines
from tallystick.engines.ndjson import line_file, mark
from tallystick.event import canonical, chain
from tallystick.event.model import Event
from tallystick.runs import facts, schema

BOUNDED = hypothesis.settings(max_examples=150, deadline=None, derandomize=True, database=None)

texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=4)


def row(payload: dict[str, Any], meta: dict[str, Any], *, seq: int = 1) -> Any:
    """A row of `run/a` after nothing."""
    body, about = canonical.encode(payload), canonical.encode(meta)
    draft = ("Thing.done", 3, bytes(range(16)), 5, body, about, chain.checksum(body), None)
    return chain.extend("run/a", [draft], seq=seq - 1, position=seq, previous=chain.GENESIS)[0]


@BOUNDED
@hypothesis.given(objects, objects)
def test_a_line_gives_back_exactly_what_was_written(payload: dict[str, Any], meta: dict[str, Any]) -> None:
    """RUN-01, settled 11: any payload and meta, byte for byte, on one canonical line."""
    given_row = row(payload, meta)
    data, sizes = lines.encode([given_row], recorded=7)
    assert sizes == [len(data)]
    assert data.count(b"\n") == 1
    found = lines.decode(data[:-1])
    assert found is not None
    assert msgspec.structs.replace(found.event(0), position=1) == Event(*given_row)
    assert data[:-1] == canonical.encode_state(msgspec.json.decode(data))


@BOUNDED
@hypothesis.given(objects, st.data())
def test_no_changed_byte_goes_unnoticed(payload: dict[str, Any], data: Any) -> None:
    """RUN-01: a line with any byte changed, added or taken away is no line."""
    text = lines.encode([row(payload, {})], recorded=7)[0][:-1]
    at = data.draw(st.integers(0, len(text) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != text[at]))
    assert lines.decode(text[:at] + bytes([byte]) + text[at + 1 :]) is None
    assert lines.decode(text[:at] + text[at + 1 :]) is None
    assert lines.decode(text[:at] + bytes([byte]) + text[at:]) is None


@BOUNDED
@hypothesis.given(st.integers(0, 2**40), st.integers(0, 2**31), st.integers(0, 2**31), st.data())
def test_a_torn_mark_is_the_one_before(end: int, seq: int, turn: int, data: Any) -> None:
    """RUN-01: whatever is left of a slot that was being written, the other one counts, and is known to be alone."""
    old, new = mark.StreamMark(end, seq, turn), mark.StreamMark(end + 10, seq + 1, turn + 1)
    cut = data.draw(st.integers(0, mark.SLOT_BYTES))
    slots = [mark.encode(old), mark.encode(old)]
    slots[new.turn % 2] = mark.encode(new)[:cut] + slots[new.turn % 2][cut:]
    torn = slots[new.turn % 2] not in (mark.encode(old), mark.encode(new))
    alone = mark.StreamMark(old.end, old.seq, old.turn, alone=True)
    assert mark.decode(b"".join(slots)) in ((alone,) if torn else (old, new))
    assert mark.decode(mark.encode(new) + mark.encode(old)) == new


@BOUNDED
@hypothesis.given(objects.filter(lambda value: "whole" not in value), st.data())
def test_a_small_line_proves_itself_too(content: dict[str, Any], data: Any) -> None:
    """RUN-01: lines of the list of streams and of leases come back whole or not at all."""
    content = {f"a{key}": value for key, value in content.items()}
    text = line_file.encode(content)[:-1]
    assert line_file.decode(text) == content
    assert line_file.decode(text[: data.draw(st.integers(0, len(text) - 1))]) is None


FACTS: dict[str, dict[str, Any]] = {
    "RUN_CREATED": {"workflow": "w"},
    "NODE_DECLARED": {"node": "a", "code": "0" * 64, "outputs": [{"artifact": "x", "path": "x"}]},
    "NODE_STARTED": {"node": "a", "attempt": 1, "session": "s", "inputs": {"x": "0" * 64}},
    "NODE_FAILED": {"node": "a", "attempt": 1, "error": "no", "retry_ms": 5},
    "ARTIFACT_WRITTEN": {
        "artifact": "x",
        "path": "x",
        "sha256": "0" * 64,
        "bytes": 1,
        "node": "a",
        "writer_worker": "w",
    },
    "ISSUE_OPENED": {"issue": "i", "code": "c", "severity": "blocker", "message": "m"},
    "SESSION_ENDED": {"session": "s", "status": "lost"},
    "WORKER_ATTESTED": {"worker": "w", "attestation_type": "t", "attestation": "00ff"},
}
junk = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from(["", "a", "0" * 64, "x" * 201, "zz"])
    | st.just([])
    | st.just({})
)


def accepted_by_classes(type_: str, payload: dict[str, Any]) -> bool:
    """Whether the fast check takes it."""
    try:
        facts.decode(type_, canonical.encode(payload))
    except errors.SchemaViolation:
        return False
    return True


def accepted_by_schema(type_: str, payload: dict[str, Any]) -> bool:
    """Whether the shipped JSON Schema takes it."""
    document = {
        "checksum": "0" * 64,
        "commit": [1, 1],
        "id": "01a0c450-6c0d-781e-8d01-000000000000",
        "link": "0" * 64,
        "meta": {"trace_id": "t", "span_id": "s"},
        "payload": payload,
        "recorded": 0,
        "seq": 1,
        "signature": None,
        "stream": "run/a",
        "time": 0,
        "type": type_,
        "version": 1,
        "whole": "0" * 64,
    }
    try:
        schema.check("event", json.loads(json.dumps(document)))
    except errors.SchemaViolation:
        return False
    return True


@BOUNDED
@hypothesis.given(st.sampled_from(sorted(FACTS)), st.data())
def test_the_classes_and_the_schema_agree(type_: str, data: Any) -> None:
    """RUN-01: what the fast check takes or refuses, jsonschema takes or refuses with the shipped schema."""
    payload = dict(FACTS[type_])
    assert accepted_by_classes(type_, payload)
    assert accepted_by_schema(type_, payload)
    key = data.draw(st.sampled_from([*payload, "extra", "node", "params"]))
    if data.draw(st.booleans()):
        payload.pop(key, None)
    else:
        payload[key] = data.draw(junk)
    assert accepted_by_classes(type_, payload) == accepted_by_schema(type_, payload), payload

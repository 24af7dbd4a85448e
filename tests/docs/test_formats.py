"""The pages on formats are correct to the byte: examples and vectors are recomputed."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tallystick.engines.files import compressed, frame, index_file, mark, segment
from tallystick.engines.sqlite import migrations
from tallystick.event import canonical, chain, limits, names, profiles
from tallystick.event import line as ndjson
from tallystick.event.model import Event, Row

FORMATS = Path(__file__).parents[2] / "docs" / "formats"
STORE_ID, SEGMENT_ID = bytes(range(16)), bytes(range(16, 32))
CREATED, RECORDED = 1_760_000_000_000_000_000, 1_760_000_000_002_000_007
VECTOR = re.compile(r"^\| (-?[0-9][^ ]*) \| `([^`]*)` \|$", re.MULTILINE)
EXAMPLE = re.compile(r"^\| `(\{.*\})` \| `(\{.*\})` \|$", re.MULTILINE)


def page(name: str) -> str:
    """The text of a page."""
    return (FORMATS / name).read_text("utf-8")


def draft_of(event: dict[str, Any]) -> tuple[Any, ...]:
    """The draft of an event that a page shows as JSON."""
    payload, meta = canonical.encode(event["payload"]), canonical.encode(event["meta"])
    id_ = bytes.fromhex(event["id"].replace("-", ""))
    return (event["type"], event["version"], id_, event["time"], payload, meta, chain.checksum(payload), None)


@pytest.fixture(scope="module")
def rows(fenced: Any) -> list[Row]:
    """The two events of the worked example, chained."""
    shown = [json.loads(block.text) for block in fenced("docs/formats/chain.md") if block.language == "json"]
    drafts: Any = [draft_of(event) for event in shown]
    return chain.extend("order/42", drafts, seq=0, position=1, previous=chain.GENESIS)


def test_the_links_of_the_chain_page_are_right(rows: list[Row], fenced: Any) -> None:
    """Text, checksum and link of the worked example are those that the code computes."""
    texts = [block.text.removesuffix("\n") for block in fenced("docs/formats/chain.md") if block.language == ""]
    previous = chain.GENESIS
    for row, text in zip(rows, texts, strict=True):
        event = Event(*row)
        assert chain.text(event, previous).decode() == text
        assert hashlib.sha256(text.encode()).digest() == event.link
        assert {event.checksum.hex(), event.link.hex()} <= set(re.findall(r"`([0-9a-f]{64})`", page("chain.md")))
        previous = event.link


def test_the_float_vectors_are_right() -> None:
    """The page shows at least twenty floats, with the text that canonical JSON gives them."""
    vectors = VECTOR.findall(page("canonical-json.md"))
    assert len(vectors) >= 20
    assert {text: canonical.encode_state(float(text)).decode() for text, _ in vectors} == dict(vectors)


def by_the_rule(value: float) -> str:
    """The canonical text of a float by the rule of the page, from the digits of `repr`."""
    sign = "-" if repr(value).startswith("-") else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    power = len(whole) + int(exponent or 0) - 1 if whole != "0" else int(exponent or 0) - len(part) + len(digits) - 1
    digits = digits.rstrip("0") or "0"
    if value == 0:
        return f"{sign}0.0"
    if not 1e-5 <= abs(value) < 1e16:
        return f"{sign}{digits[0]}{'.' + digits[1:] if digits[1:] else ''}e{power}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    return f"{sign}{digits[: power + 1].ljust(power + 1, '0')}.{digits[power + 1 :] or '0'}"


@pytest.mark.parametrize("power", range(-30, 31))
def test_the_float_rule_is_what_msgspec_does(power: int) -> None:
    """The rule in words gives the same text, for sizes around every power of ten and few or many digits."""
    for digits in ("1", "1.5", "2.0000000000000004", "9.007199254740991", "9.999999999999998", "-3.14"):
        value = float(f"{digits}e{power}")
        assert canonical.encode_state(value).decode() == by_the_rule(value)


def test_the_examples_of_canonical_json_are_right() -> None:
    """Each value of the table has the bytes shown for it."""
    examples = EXAMPLE.findall(page("canonical-json.md"))
    assert len(examples) >= 4
    for value, text in examples:
        assert canonical.encode(json.loads(value)).decode() == text


def test_the_limits_on_the_pages_are_those_of_the_code() -> None:
    """Depth, nodes, sizes and forms of names are the real ones."""
    text = page("canonical-json.md") + page("event.md")
    for figure in (f"deeper than {limits.DEPTH_MAX}", f"{limits.NODES_MAX:,} nodes", f"{limits.COMMIT_EVENTS_MAX:,}"):
        assert figure in text
    for form in (names.KIND, names.NAME, names.TYPE):
        assert f"`{form.pattern}`" in text


def test_every_meta_key_is_described() -> None:
    """The keys with a fixed kind of value are in the table of event.md."""
    text = page("event.md")
    assert not [key for key in profiles.TEXT_KEYS | profiles.NUMBER_KEYS | {"tags"} if f"`{key}`" not in text]


def rewritten(row: Row) -> tuple[bytes, bytes]:
    """The header and the frame of the worked example's segment after its only event was erased."""
    known = {"store_id": STORE_ID, "segment_id": SEGMENT_ID, "first_position": 1, "created": CREATED, "generation": 1}
    identity = segment.identity_of(SEGMENT_ID, 1)
    erased = [(*row[:7], None, *row[8:])]
    data = bytes(frame.FrameBuffer().encode(identity, segment.SIZE_MAX, 1, erased, recorded=RECORDED, side=[]))
    ending = segment.Ending(end=segment.SIZE_MAX + len(data), next_position=2, erased=1)
    return segment.encode(segment.Header(**known, ending=ending)), data


def test_the_hex_of_the_file_log_page_is_right(rows: list[Row], fenced: Any) -> None:
    """LH-05, LH-08: header, frame and mark of the worked example, byte for byte."""
    shown = ["".join(block.text.split()) for block in fenced("docs/formats/file-log.md") if block.language == "hex"]
    header = segment.encode(segment.Header(store_id=STORE_ID, segment_id=SEGMENT_ID, first_position=1, created=CREATED))
    first = bytes(frame.FrameBuffer().encode(SEGMENT_ID, len(header), 1, rows[:1], recorded=RECORDED, side=[]))
    marked = mark.encode(mark.SegmentMark(SEGMENT_ID, len(header) + len(first), 2, 1))
    assert shown == [header.hex(), first.hex(), marked.hex(), *map(bytes.hex, rewritten(rows[0]))]
    assert f"ends at byte {len(header) + len(first)}" in page("file-log.md")


def test_the_sizes_on_the_file_log_page_are_right() -> None:
    """The tables add up to what the code reads and writes."""
    text = page("file-log.md")
    assert f"Segment header, {segment.SIZE} bytes" in text
    assert f"| {segment.SIZE - 32} | 32 | SHA-256 of the {segment.SIZE - 32} bytes before |" in text
    assert f"| {segment.SIZE_MAX - 32} | 32 | SHA-256 of the {segment.SIZE_MAX - 32} bytes before |" in text
    assert f"at {segment.SIZE_MAX}, come gzip members" in text
    assert f"about {compressed.MEMBER_BYTES >> 10} KiB" in text
    assert f"| {frame.HEADER_SIZE} | length | body |" in text
    assert f"two slots of {mark.SLOT_BYTES} bytes" in text
    assert f"| {index_file.HEADER_SIZE} | | the sections |" in text


def test_the_line_on_the_ndjson_page_is_an_export(rows: list[Row], fenced: Any) -> None:
    """The first event of the worked example, as `tally export` writes it."""
    (block,) = [block for block in fenced("docs/formats/ndjson.md") if block.language == "json"]
    assert block.text.strip() == ndjson.line(Event(*rows[0]))


def test_every_table_trigger_and_step_is_on_the_sqlite_page() -> None:
    """Everything that the schema creates is described by name."""
    text = page("sqlite.md")
    made = {name for name, sql in migrations.expected_schema().items() if not sql.startswith("CREATE INDEX")}
    steps = {f"{step.number:03d}_{step.name}" for step in migrations.steps()}
    assert not [name for name in made | steps if f"`{name}`" not in text]

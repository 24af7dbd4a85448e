"""Short frames: a commit of one event takes less room and holds the same fields, and older logs keep their format."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tallystick import NewEvent
from tallystick.engines.disk import Disk
from tallystick.engines.files import frame as frames
from tallystick.engines.files import scan, segment
from tallystick.engines.files.compressed import open_segment
from tallystick.engines.files.frame import Frame, FrameBuffer
from tallystick.engines.files.scan import Scanner, next_valid_frame
from tallystick.event import chain
from tallystick.event.model import Row
from tallystick.store.verify import verify
from tallystick.testing.builders import event_id, events, named, text

IDENTITY = bytes(range(16))
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "file-log-1.json").read_text())


def row(payload: bytes = b'{"n":1}', *, position: int = 1, **fields: Any) -> Row:
    """A recorded event."""
    given = {"time": 5, "meta": b"{}", "checksum": chain.checksum(payload), "signature": None} | fields
    head = (position, "order/1", 3, "order.placed", 1, event_id(7), given["time"])
    return (*head, payload, given["meta"], given["checksum"], b"l" * 32, given["signature"])


def encoded(*rows: Row, recorded: int = 9, **how: Any) -> bytes:
    """A frame of these rows at offset 188."""
    position, side = rows[0][0], how.pop("side", [])
    return bytes(FrameBuffer().encode(IDENTITY, 188, position, rows, recorded=recorded, side=side, **how))


def decoded(data: bytes) -> tuple[Frame, frames.Body]:
    """What a frame holds."""
    frame = frames.decode_header(IDENTITY, data, offset=188)
    assert frame is not None
    body = frames.body_of(IDENTITY, data, frame)
    assert body is not None
    assert frames.decode_side(frame, body) == frames.decode_body(frame, body).side
    return frame, frames.decode_body(frame, body)


LARGE = b'{"text":"' + text(5000).encode() + b'"}'
SINGLES = {
    "small": row(),
    "signed": row(signature=b"s" * 64),
    "with a meta": row(meta=b'{"org":"acme"}'),
    "compressible": row(b'{"text":"' + b"x" * 3000 + b'"}'),
    "hardly compressible": row(LARGE),
    "damaged when it was taken over": row(checksum=b"c" * 32),
    "recorded before its time": row(time=1 << 62),
    "at the last position that fits": row(position=(1 << 48) - 1),
}
FULL = {
    "two events": (row(), row(position=2)),
    "erased": ((*row()[:7], None, *row()[8:]),),
    "far": (row(position=1 << 48),),
    "large": (row(b'{"text":"' + b"x" * frames.CONTENT_BYTES_MAX + b'"}'),),
    "recorded far from its time": (row(time=-(1 << 63)),),
}


@pytest.mark.parametrize("which", SINGLES)
@pytest.mark.parametrize("deflate", [True, False])
def test_one_event_comes_back_from_a_short_frame(which: str, deflate: bool) -> None:
    """LH-05: every field, and when it was recorded."""
    given = SINGLES[which]
    frame, body = decoded(encoded(given, deflate=deflate))
    assert frame.is_short
    assert (frame.first_position, frame.next_position) == (given[0], given[0] + 1)
    assert (body.recorded, [event.row for event in body.events], body.side) == (9, [given], [])


@pytest.mark.parametrize("which", FULL)
def test_what_does_not_fit_has_a_full_frame(which: str) -> None:
    """LH-05: several events, an erased one, and figures that are too large."""
    frame, body = decoded(encoded(*FULL[which], recorded=1 << 62))
    assert not frame.is_short
    assert [event.row for event in body.events] == list(FULL[which])


def test_side_records_and_missing_events_have_a_full_frame() -> None:
    """LH-05: a lease, or a position whose event was left out."""
    assert not decoded(encoded(row(), side=[["lease", "order/1", 1, None]]))[0].is_short
    assert not decoded(encoded(row(), count=2))[0].is_short
    assert not decoded(encoded(row(), short=False))[0].is_short


def test_every_bit_of_a_short_frame_counts() -> None:
    """LH-08: with one bit changed it is no frame any more, nor is it one in another place."""
    data = encoded(row(b'{"text":"' + b"x" * 300 + b'"}'))
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        frame = frames.decode_header(IDENTITY, bytes(changed), offset=188)
        assert frame is None or frames.body_of(IDENTITY, bytes(changed), frame) is None
    assert frames.decode_header(IDENTITY, data, offset=189) is None
    assert frames.decode_header(bytes(16), data, offset=188) is None


def test_a_changed_length_is_not_a_torn_frame() -> None:
    """LH-08: the check of the header distinguishes the two."""
    data = encoded(row())
    longer = data[:4] + (int.from_bytes(data[4:6], "big") + 1).to_bytes(2, "big") + data[6:]
    assert frames.decode_header(IDENTITY, longer, offset=188) is None
    torn = frames.decode_header(IDENTITY, data[:-1], offset=188)
    assert torn is not None
    assert frames.body_of(IDENTITY, data[:-1], torn) is None


def kinds(path: Path) -> list[bool]:
    """Which frames of a segment are short."""
    header, file = open_segment(Disk(), str(path))
    scanner = Scanner(file, header.identity, offset=header.size, end=file.size(), position=None)
    found = [frame.is_short for frame, _ in scanner]
    assert scanner.clean
    file.close()
    return found


def test_single_appends_are_short_and_others_are_not(opened: Callable[..., Any], directory: Path) -> None:
    """LH-18: a commit of one event takes the short form, and one after damage is found."""
    with opened() as store:
        store.append("order/1", named(1))
        store.append("order/1", events(2))
        store.append("order/1", named(4, meta={"app": "web"}))
        found = list(store.events())
    path = directory / "current.log"
    assert kinds(path) == [True, False, True]
    header, file = open_segment(Disk(), str(path))
    behind = next_valid_frame(file, header.identity, begin=header.size + 1, end=file.size(), position=4)
    assert behind is not None
    assert (behind.is_short, behind.first_position) == (True, 4)
    file.close()
    with opened(readonly=True) as store:
        assert list(store.events()) == found
        assert [store.find(event.id) for event in found] == found


def test_a_large_repetitive_payload_is_compressed_in_its_frame(opened: Callable[..., Any], directory: Path) -> None:
    """LH-18: the file is smaller than what it holds, and the payload comes back to the byte."""
    with opened() as store:
        store.append("order/1", NewEvent("thing.happened", {"text": "abc" * 3000}))
        (event,) = store.events()
    data = (directory / "current.log").read_bytes()
    assert len(data) < 1000
    assert zlib.compress(event.payload) != event.payload not in data
    with opened(readonly=True) as store:
        assert store.find(event.id) == event


def golden(directory: Path, *names: str) -> None:
    """A log as version 1 of the format wrote it."""
    directory.mkdir()
    for name in names:
        data = bytes.fromhex(GOLDEN[name])
        (directory / name).write_bytes(data.ljust(512, b"\0") * 2 if name == "synced" else data)


def test_a_log_of_the_first_format_goes_on_in_it(opened: Callable[..., Any], directory: Path) -> None:
    """EVT-01: it is read, appended to without short frames until it is sealed, and only then changes its format."""
    golden(directory, "current.log", "synced")
    before = (directory / "current.log").read_bytes()
    with opened(segment_age_ns_max=1 << 62) as store:
        (first,) = store.events()
        assert (first.stream, first.data["total"]) == ("order/42", 10)
        store.append("order/42", events(1))
    assert (directory / "current.log").read_bytes().startswith(before)
    assert kinds(directory / "current.log") == [False, False]
    with opened(segment_bytes_max=256) as store:
        store.append("order/42", events(1, first=2))
        assert store.log.reclaim(compress_before=1 << 62, progress=lambda done: None).done
        assert verify(store.log).problems == []
        assert [event.seq for event in store.read_stream("order/42")] == [1, 2, 3]
    assert kinds(directory / "current.log") == [True]
    (sealed,) = directory.glob("2*.log")
    assert segment.decode(sealed.read_bytes()[: segment.SIZE_MAX], path="").short_frames


def test_a_rewritten_segment_of_the_second_format_is_read(opened: Callable[..., Any], directory: Path) -> None:
    """EVT-01: the worked example of an erased event, as an older version wrote it."""
    golden(directory, "2026-01-01_001.log")
    with opened(readonly=True) as store:
        (item,) = store.log._view.segments
        event = store.log._view.reader.raw_at(item, 1)
    assert (event.stream, event.payload) == ("order/42", None)


@pytest.mark.parametrize("junk", [*range(90, 113), 199, 200, 201, 1000])
def test_a_frame_is_found_however_far_behind_the_damage_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, junk: int
) -> None:
    """LH-08: the search continues from piece to piece, and misses no frame that begins at the end of one."""
    monkeypatch.setattr(scan, "SEARCH_BYTES", 100)
    frame = bytes(FrameBuffer().encode(IDENTITY, junk, 7, [row(position=7)], recorded=9, side=[]))
    path = tmp_path / "current.log"
    path.write_bytes(bytes(junk) + frame)
    file = Disk().open_read(str(path))
    found = next_valid_frame(file, IDENTITY, begin=0, end=file.size(), position=1)
    file.close()
    assert found is not None
    assert (found.offset, found.first_position) == (junk, 7)

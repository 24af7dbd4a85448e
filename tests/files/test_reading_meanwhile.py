"""Reading a log in the process that rewrites its segments."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import NewEvent, Store, state
from tallystick.engines.files.engine import FilesLog
from tallystick.engines.files.segments import Segment
from tallystick.event.model import Event


def test_a_read_does_not_fail_while_a_segment_gets_its_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LH-18: between the renaming and the moment when the log knows of it, a reader waits, and is given its events."""
    found: list[object] = []
    with tallystick.open(f"files:{tmp_path}/log") as store:
        assert isinstance(store.log, FilesLog)
        store.append("order/1", [NewEvent("paid", {"cents": 5}) for _ in range(3)])
        view = store.log._view
        replace = view.replace

        def read() -> None:
            try:
                found.append(len(store.read_stream("order/1")))
            except Exception as problem:
                found.append(problem)

        readers: list[threading.Thread] = []

        def replace_later(fresh: Segment) -> None:
            for item in view.segments:  # what is kept in memory would spare it the file
                view.reader.forget(item.header.identity)
            readers.append(threading.Thread(target=read))
            readers[-1].start()
            readers[-1].join(0.3)  # it fails in this time, or waits
            replace(fresh)

        monkeypatch.setattr(view, "replace", replace_later)
        state.erase(store, "order/1", 2, reason="asked for")
        for reader in readers:
            reader.join(10)
    assert found == [3]


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_segment_is_read_on_while_it_gets_its_dated_name(
    opened: Callable[..., Store], hooked: Any, large: NewEvent, is_kept: bool
) -> None:
    """LH-07: an erasure in another thread finds the payload, and so leaves nothing of it, while the log rotates."""
    store = opened(filesystem=hooked, segment_bytes_max=4096)
    store.append("order/1", large)
    view = store.log._view
    item = view.segments[-1]
    found: list[object] = []

    def read(operation: str, path: str) -> None:
        if operation == "rename" and path.endswith("_001.log"):
            view.reader.forget(item.header.identity)  # what is kept in memory would spare it the file
            found.append(view.reader.raw_at(item, 1))

    if not is_kept:
        view.handles.release(item)
    hooked.after = read
    store.append("order/1", large)
    assert [event.seq for event in found if isinstance(event, Event)] == [1]
    assert item.name.endswith("_001.log")

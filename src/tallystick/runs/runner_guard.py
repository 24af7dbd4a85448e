"""One runner a run, also within one handle: the lease tells handles apart, this tells the threads of one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tallystick import errors
from tallystick.store.store import Store

_mutex = threading.Lock()
_held: set[tuple[int, str]] = set()  # by the identity of a log that is open as long as the entry is here


@contextmanager
def held(store: Store, stream: str) -> Iterator[None]:
    """Be the only runner of a run on this handle; a second one is refused as long as the first one lives."""
    key = (id(store.log), stream)
    with _mutex:
        if key in _held:
            raise errors.LeaseHeld(stream=stream, owner=f"another runner on this handle, pid {os.getpid()}", number=0)
        _held.add(key)
    try:
        yield
    finally:
        with _mutex:
            _held.discard(key)

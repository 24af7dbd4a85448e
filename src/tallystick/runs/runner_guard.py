"""One runner per run within a handle: the lease separates handles, this separates the threads of one handle."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tallystick import errors
from tallystick.store.store import Store

_mutex = threading.Lock()
_held: set[tuple[int, str]] = set()  # by the identity of a log, which is open as long as its entry exists


@contextmanager
def held(store: Store, stream: str) -> Iterator[None]:
    """Become the only runner of a run on this handle. A second one is refused while the first one is alive."""
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

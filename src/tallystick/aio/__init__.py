"""The API for asyncio: `aio.open(url)` returns an `AsyncStore`, which has the same methods as `Store`."""

from tallystick.aio.async_store import WINDOW_MS_MAX, AsyncStore, open
from tallystick.aio.decisions import Decisions
from tallystick.aio.typed_reader import TypedReader

__all__ = ["WINDOW_MS_MAX", "AsyncStore", "Decisions", "TypedReader", "open"]

"""The async face of a store: `aio.open(url)` gives an `AsyncStore` with the names of `Store`."""

from tallystick.aio.async_store import WINDOW_MS_MAX, AsyncStore, open

__all__ = ["WINDOW_MS_MAX", "AsyncStore", "open"]

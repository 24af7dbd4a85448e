"""What the service reports about itself while it works, and who listens: by default nobody."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """Told about every request and every append. Must be quick: it is called in the event loop."""

    def request(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered. `route` is the path with its parameters' names, so that there are few of them."""

    def appended(self, *, events: int, size: int, seconds: float) -> None:
        """An append of so many events, in a body of so many bytes, is durable."""

    def refused(self, *, code: str) -> None:
        """A request was refused with this code."""

    def followers(self, count: int) -> None:
        """So many follow now."""

    def dropped(self) -> None:
        """A follower was too slow and was sent off."""


class NoMeter:
    """Keeps nothing."""

    def request(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """Nothing."""

    def appended(self, *, events: int, size: int, seconds: float) -> None:
        """Nothing."""

    def refused(self, *, code: str) -> None:
        """Nothing."""

    def followers(self, count: int) -> None:
        """Nothing."""

    def dropped(self) -> None:
        """Nothing."""

"""Documents next to the log of a run, each replaced as a whole: `snapshot.json` and `failure.json`."""

from __future__ import annotations

from typing import Protocol


class RunDocuments(Protocol):
    """Where an engine stores the documents of runs. Only `tallystick.runs` knows what they mean."""

    def place(self, run: str) -> str:
        """The directory of a run, which may not exist yet."""

    def exists(self, run: str) -> bool:
        """Whether the run has a directory."""

    def load(self, run: str, name: str) -> bytes | None:
        """The bytes of a document; None if it does not exist."""

    def replace(self, run: str, name: str, data: bytes) -> None:
        """Write a document. After a crash it is the old one or the new one."""

    def remove(self, run: str, name: str) -> None:
        """Delete a document, if it exists."""

"""Commands that were run: what was asked, what was answered, and what it appended, kept so that it runs once."""

from __future__ import annotations

from typing import Protocol

import msgspec

from tallystick import errors

KEY_BYTES_MAX = 2500  # of all four names of a key in UTF-8: what every engine can index


class CommandKey(msgspec.Struct, frozen=True, array_like=True):
    """Who ran what under which key. Two commands with the same key are the same command."""

    org: str
    actor: str
    endpoint: str
    key: str

    def check(self) -> None:
        """Refuse a key that an engine could not find again. Checked before it shares a commit with others."""
        size = sum(len(name.encode("utf-8", "replace")) for name in msgspec.structs.astuple(self))
        if size > KEY_BYTES_MAX:
            what = "the key of a command, with its org, actor and endpoint,"
            raise errors.TooLarge(what=what, size=size, unit="bytes", limit=KEY_BYTES_MAX)


ERASED_RESPONSE = b""  # no JSON is empty: this is where a response was that went with an erased payload


class CommandRecord(msgspec.Struct, frozen=True, array_like=True):
    """One command that took effect: in the same commit as its events.

    `request_hash` tells a retry from another request under the same key; `response` is canonical JSON, or
    `ERASED_RESPONSE`. `ranges` are the (stream, first seq, last seq) of what it appended, filled in by the commit, and
    `places` the (first position, last position, last link) of each range: they outlive the events, which may be pruned.
    """

    key: CommandKey
    request_hash: bytes
    response: bytes
    recorded: int
    ranges: tuple[tuple[str, int, int], ...] = ()
    places: tuple[tuple[int, int, bytes], ...] = ()

    @property
    def without_response(self) -> CommandRecord:
        """The record as it is kept once its response was erased: the command must not run a second time."""
        return msgspec.structs.replace(self, response=ERASED_RESPONSE)


class Commands(Protocol):
    """The records that an engine holds. They come with commits and go by retention; erasures take responses."""

    def load(self, key: CommandKey) -> CommandRecord | None:
        """The record of a command, if it took effect."""

    def touching(self, stream: str, seq: int) -> list[CommandKey]:
        """The commands that appended this event."""

    def forget(self, *, before: int, limit: int) -> int:
        """Drop up to `limit` records that were made before a time (ns); says how many."""

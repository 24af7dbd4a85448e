"""Records of commands that were run: request, response and appended events, so that a command runs only once."""

from __future__ import annotations

from typing import Protocol

import msgspec

from tallystick import errors

KEY_BYTES_MAX = 2500  # of all four names of a key in UTF-8: what every engine can index


class CommandKey(msgspec.Struct, frozen=True, array_like=True):
    """The identity of a command: who ran it, where, and the key. Two commands with the same key are the same."""

    org: str
    actor: str
    endpoint: str
    key: str

    def check(self) -> None:
        """Refuse a key that is too long for an index. It is checked before the command shares a commit with others."""
        size = sum(len(name.encode("utf-8", "replace")) for name in msgspec.structs.astuple(self))
        if size > KEY_BYTES_MAX:
            what = "the key of a command, with its org, actor and endpoint,"
            raise errors.TooLarge(what=what, size=size, unit="bytes", limit=KEY_BYTES_MAX)


ERASED_RESPONSE = b""  # instead of a response that was erased with a payload; no JSON is empty


class CommandRecord(msgspec.Struct, frozen=True, array_like=True):
    """One command that took effect, recorded in the same commit as its events.

    `request_hash` distinguishes a retry from another request with the same key. `response` is canonical JSON, or
    `ERASED_RESPONSE`. The commit fills in `ranges`, the (stream, first seq, last seq) of the appended events, and
    `places`, the (first position, last position, last link) of each range. Both remain if the events are pruned.
    """

    key: CommandKey
    request_hash: bytes
    response: bytes
    recorded: int
    ranges: tuple[tuple[str, int, int], ...] = ()
    places: tuple[tuple[int, int, bytes], ...] = ()

    @property
    def without_response(self) -> CommandRecord:
        """The record after its response was erased. It stays, because the command must not run a second time."""
        return msgspec.structs.replace(self, response=ERASED_RESPONSE)


class CommandRecords(Protocol):
    """The records in an engine. Commits add them, retention drops them, and erasures take their responses."""

    def load(self, key: CommandKey) -> CommandRecord | None:
        """The record of a command; None if it did not take effect."""

    def touching(self, stream: str, seq: int) -> list[CommandKey]:
        """The commands that appended this event."""

    def forget(self, *, before: int, limit: int) -> int:
        """Drop up to `limit` records from before a time (ns); returns how many."""

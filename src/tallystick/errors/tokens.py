"""Errors of tokens."""

from __future__ import annotations

from typing import ClassVar

from tallystick.errors.refused import Refused

__all__ = [
    "TokenRefused",
    "TokenUnknown",
]


class TokenRefused(Refused):
    """The token is unknown, expired or revoked. The token itself is never part of the message."""

    template = "the token is not accepted: {reason}"
    advice = "Ask an administrator for a new one: `tally token issue`."
    reason: str


class TokenUnknown(Refused):
    """No token has this id."""

    status: ClassVar[int] = 404
    template = "there is no token {id!r}"
    advice = "`tally token list` shows the ids. The secret part of a token is not its id."
    id: str

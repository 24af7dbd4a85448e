"""What commands, consumers and projections refuse."""

from __future__ import annotations

from tallystick.errors.refused import Refused

__all__ = ["CommandRepeated"]


class CommandRepeated(Refused):
    """The command was run already; its stored response answers it."""

    template = "the command {key!r} of {actor!r} at {endpoint!r} was run already"
    advice = "Take the stored response: run the command through tallystick.commands."
    org: str
    actor: str
    endpoint: str
    key: str

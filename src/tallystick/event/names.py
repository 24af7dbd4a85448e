"""The form of names: stream kinds and names, event types. Always matched whole."""

from __future__ import annotations

import re
from functools import lru_cache

from tallystick import errors

KIND = re.compile(r"[a-z][a-z0-9_.-]{0,95}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@=+-]{0,190}")
RUN_NAME = re.compile(r"[a-z0-9][a-z0-9_.:@=+-]{0,190}")  # run ids become directories, also where case is folded
TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,127}")
VERSION_MAX = (1 << 31) - 1
RESERVED = "tally."


@lru_cache(maxsize=1 << 16)
def kind_of(stream: str) -> str:
    """The kind of a well-formed stream name; anything else is refused."""
    if not isinstance(stream, str):
        raise errors.InvalidName(what="stream", value=repr(stream)[:300], form="kind/name")
    kind, slash, name = stream.partition("/")
    if not slash or not KIND.fullmatch(kind):
        raise errors.InvalidName(what="stream", value=stream[:300], form=f"{KIND.pattern}/{NAME.pattern}")
    form = RUN_NAME if kind == "run" else NAME
    if not form.fullmatch(name):
        raise errors.InvalidName(what="stream", value=stream[:300], form=f"{kind}/{form.pattern}")
    return kind


@lru_cache(maxsize=1 << 14)
def check_type(name: str) -> str:
    """The type's name if it is well-formed; anything else is refused."""
    if not isinstance(name, str) or not TYPE.fullmatch(name):
        raise errors.InvalidName(what="event type", value=str(name)[:300], form=TYPE.pattern)
    return name


def is_reserved(kind: str) -> bool:
    """Whether a kind is kept for control facts."""
    return kind.startswith(RESERVED)

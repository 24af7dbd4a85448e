"""The form of names: stream kinds and names, event types. A name must match as a whole."""

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
FEEDS, ASIDE = "community.", "aside."
LABEL_MAX = 1000  # bytes in UTF-8: what every engine can index


def stream_kind(stream: object) -> str:
    """`kind_of` for any object, even one without a hash."""
    if type(stream) is not str:
        raise errors.InvalidName(what="stream", value=str(display(stream)), form="kind/name")
    return kind_of(stream)


@lru_cache(maxsize=1 << 16)
def kind_of(stream: str) -> str:
    """The kind of a well-formed stream name; anything else is refused."""
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
    if type(name) is not str or not TYPE.fullmatch(name):
        raise errors.InvalidName(what="event type", value=str(display(name)), form=TYPE.pattern)
    return name


def check_kind(kind: str) -> str:
    """The kind if it is well-formed; anything else is refused."""
    if type(kind) is not str or not KIND.fullmatch(kind):
        raise errors.InvalidName(what="kind", value=str(display(kind)), form=KIND.pattern)
    return kind


@lru_cache(maxsize=1 << 16)
def is_user_stream(stream: str) -> bool:
    """Whether a text is a stream that users may append to."""
    try:
        return not is_reserved(kind_of(stream))
    except errors.InvalidName:
        return False


def is_feed(stream: str) -> bool:
    """Whether a stream is a feed of a community, where every event is signed. Streams of `is_aside` are not feeds."""
    return stream.startswith(FEEDS) and not is_aside(stream)


def is_aside(stream: str) -> bool:
    """Whether a stream has what no feed of a community can take. Its events contain the signed ones."""
    return stream.startswith(FEEDS) and stream.partition("/")[2].startswith(ASIDE)


def is_reserved(kind: str) -> bool:
    """Whether a kind is reserved for control facts."""
    return kind.startswith(RESERVED)


def check_label(what: str, value: object) -> str:
    """A free name, for example of a checkpoint or an org, if every engine can store it."""
    if type(value) is str and 0 < len(value) <= LABEL_MAX and value.isprintable() and fits(value):
        return value
    must = f"a printable text of 1 to {LABEL_MAX} bytes in UTF-8"
    raise errors.InvalidValue(what=what, value=display(value), must=must)


def fits(label: str) -> bool:
    """Whether a label is short enough for the indexes of every engine. Most are ASCII and need not be encoded."""
    return len(label) <= LABEL_MAX and (label.isascii() or len(label.encode("utf-8", "replace")) <= LABEL_MAX)


def display(value: object) -> object:
    """A refused value as an error shows it: as it is if it is small, otherwise a shortened text."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= 64 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        return str(value)[:300]
    return f"a {type(value).__name__}"

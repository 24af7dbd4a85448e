"""The directory of a stream. It has the name of the stream, with characters escaped that a file system could misread.

Every character except lower-case ASCII letters, digits and `_.@=+-` is written as `%` and two hex digits, and so are a
final dot and the first letter of a Windows device name. No name contains `%`, so two streams never share a directory.
"""

from __future__ import annotations

import re

from tallystick.event import names
from tallystick.store.leases import LEASED_KIND

RUNS = "runs"
CONTROL = "control"

_ODD = re.compile(r"[^a-z0-9_.@=+-]")
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


def path_of(stream: str) -> str:
    """The directory of a well-formed stream, relative to that of the store."""
    kind = names.kind_of(stream)
    name = stream.partition("/")[2]
    if kind == LEASED_KIND:
        return f"{RUNS}/{_safe(name)}"
    return f"{CONTROL}/{_safe(kind)}/{_safe(name)}"


def is_kept(stream: str) -> bool:
    """Whether this engine can keep the stream: it is a run, or holds control facts."""
    kind = names.kind_of(stream)
    return kind == LEASED_KIND or names.is_reserved(kind)


def _safe(name: str) -> str:
    name = _ODD.sub(lambda found: _escape(found.group()), name)
    if name.endswith("."):
        name = name[:-1] + _escape(".")
    return _escape(name[0]) + name[1:] if _DEVICE.fullmatch(name) else name


def _escape(character: str) -> str:
    return f"%{ord(character):02x}"

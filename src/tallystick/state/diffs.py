"""The difference of two states as an RFC 6902 JSON Patch, in canonical JSON, made by `jsonpatch`.

A patch is used only if applying it gives exactly the bytes of the new state: for the library 1, 1.0 and True are equal,
so it would leave out such a change. It is not used if it is large compared with the old state, and not tried on states
that are so large that computing it takes longer than writing the state.
"""

from __future__ import annotations

from typing import Any

import jsonpatch

from tallystick.event import canonical

SHARE_MAX = 0.30
STATE_BYTES_MAX = 8 << 20


def patch(base: bytes, body: bytes) -> bytes | None:
    """The canonical patch from one state to another; None if the whole state is the better choice."""
    if max(len(base), len(body)) > STATE_BYTES_MAX:
        return None
    try:
        made = jsonpatch.make_patch(canonical.decode(base), canonical.decode(body))
        found = canonical.encode_state(made.patch)
    except Exception:  # if the library fails, a full snapshot is made
        return None
    if len(found) > SHARE_MAX * len(base) or apply(base, found) != body:
        return None
    return found


def apply(base: bytes, found: bytes) -> bytes | None:
    """The state that a patch leads to; None if it does not fit the base."""
    try:
        operations: Any = canonical.decode(found)
        state = jsonpatch.JsonPatch(operations).apply(canonical.decode(base), in_place=True)
        return canonical.encode_state(state)
    except Exception:  # a patch is data, and may have been changed to anything
        return None

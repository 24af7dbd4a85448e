"""What an exception of somebody else's code says, as a text that every engine can keep and every terminal can show."""

from __future__ import annotations

from tallystick.store.deadletters import REASON_CHARACTERS_MAX


def reason_of(problem: BaseException) -> str:
    """The kind and the message of an exception, cut. Its message may be anything, or raise in turn."""
    try:
        message = str(problem)
    except Exception:
        message = "it cannot be shown"
    said = f"{type(problem).__name__}: {message}"[:REASON_CHARACTERS_MAX]
    plain = said.encode(errors="backslashreplace").decode().replace("\0", "\\x00")  # lone surrogates are no UTF-8
    return plain[:REASON_CHARACTERS_MAX]

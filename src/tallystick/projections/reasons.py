"""The message of an exception of user code, as a text that every engine can store and every terminal can show."""

from __future__ import annotations

from tallystick.store.deadletters import REASON_CHARACTERS_MAX


def reason_of(problem: BaseException) -> str:
    """The class and the message of an exception, shortened. Making the message may itself raise."""
    try:
        message = str(problem)
    except Exception:
        message = "it cannot be shown"
    said = f"{type(problem).__name__}: {message}"[:REASON_CHARACTERS_MAX]
    plain = (
        said.encode(errors="backslashreplace").decode().replace("\0", "\\x00")
    )  # lone surrogates are not valid UTF-8
    return plain[:REASON_CHARACTERS_MAX]

"""One clear error instead of a stack trace of the JVM.

An error that is raised in one of Spark's processes reaches the caller as text inside an exception of Spark.
`mark_errors` adds a note to the error with its class and values, in JSON. `clear` finds that note in the text and
raises the error itself again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tallystick import errors

_MARK = "tallystick-error: "
_NOTE = re.compile(re.escape(_MARK) + r"(\{.*\})")
_LAST_LINE = re.compile(r"^(?:: |Caused by: )?(?:[\w.$]+(?:Error|Exception)): (.+)$", re.MULTILINE)
_REASON_CHARACTERS_MAX = 500


@contextmanager
def mark_errors() -> Iterator[None]:
    """Add to every `TallyError` a note from which another process can rebuild it."""
    try:
        yield
    except errors.TallyError as problem:
        if not any(note.startswith(_MARK) for note in getattr(problem, "__notes__", ())):
            problem.add_note(_MARK + msgspec.json.encode(problem.as_json()).decode())
        raise


@contextmanager
def clear() -> Iterator[None]:
    """Raise an exception of Spark as the `TallyError` that caused it, or as `JobFailed`."""
    try:
        yield
    except (PySparkException, Py4JError) as problem:
        if os.environ.get("TALLY_DEBUG"):
            raise
        raise as_own_error(problem) from None


def as_own_error(problem: BaseException) -> errors.TallyError:
    """The `TallyError` for an exception of Spark."""
    text = str(problem)
    for note in _NOTE.findall(text):
        if (found := _rebuilt(note)) is not None:
            return found
    return errors.JobFailed(reason=_short(text))


def _rebuilt(note: str) -> errors.TallyError | None:
    try:
        found_note = msgspec.json.decode(note)
        kind = getattr(errors, found_note["error"])
        found: errors.TallyError = kind(**found_note["values"])
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError):
        return None
    return found


def _short(text: str) -> str:
    """The line with the cause: the last exception of a trace, otherwise the first line."""
    found = _LAST_LINE.findall(text)
    line = found[-1] if found else text.strip().partition("\n")[0]
    return line[:_REASON_CHARACTERS_MAX]

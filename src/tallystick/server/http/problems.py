"""Errors as `application/problem+json` (RFC 9457): type, title, status, detail, and our code, advice and values.

The body contains nothing of the request itself, so that a missing and a forbidden resource get the same bytes.
"""

from __future__ import annotations

import logging
import re
from typing import Any

import msgspec
from starlette.responses import Response

from tallystick import errors

MEDIA_TYPE = "application/problem+json"

URN = "urn:tallystick:problem:"

HIDDEN = "…"

logger = logging.getLogger("tallystick.server")

_STATUS: dict[type[errors.TallyError], int] = {
    errors.TooLarge: 413,
    errors.InvalidInput: 422,
    errors.HistoryPruned: 410,
    errors.UnsupportedCapability: 501,
    errors.RunNotFound: 404,
    errors.ReaderNotFound: 404,
    errors.StreamNotFound: 404,
    errors.ProjectionNotFound: 404,
    errors.Refused: 409,
    errors.NoSpace: 507,
    errors.Unavailable: 503,
}
_RETRY_SECONDS: dict[type[errors.TallyError], int] = {errors.Busy: 1}


class ProblemDetails(msgspec.Struct, frozen=True):
    """A refusal or a failure. Programs tell them apart by `code`."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    advice: str
    values: dict[str, Any]


def status_of(kind: type[errors.TallyError]) -> int:
    """The HTTP status of an error: its own, or that of its nearest parent class that has one."""
    for parent in kind.__mro__:
        if "status" in vars(parent):
            return int(vars(parent)["status"])
        if parent in _STATUS:
            return _STATUS[parent]
    return 500


def code_of(kind: type[errors.TallyError]) -> str:
    """The word that tells a program which error this is."""
    code = getattr(kind, "code", None)
    return code if isinstance(code, str) else re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def is_private(error: errors.TallyError) -> bool:
    """Whether only the operator may read the texts of an error: they may name the path of the store."""
    return isinstance(error, errors.Unavailable) and not hasattr(type(error), "status")


def public(error: errors.TallyError) -> errors.TallyError:
    """The error as a caller may read it."""
    if not is_private(error):
        return error
    hidden = {name: HIDDEN if isinstance(value, str) else value for name, value in error.values.items()}
    return type(error)(**hidden)


def log(error: errors.TallyError, request_id: str) -> None:
    """Log what callers may not read."""
    if is_private(error):
        logger.warning("the store could not answer: %s", error, extra={"request_id": request_id})


def problem_of(error: errors.TallyError) -> ProblemDetails:
    """The error as a problem."""
    kind, error = type(error), public(error)
    return ProblemDetails(
        type=URN + code_of(kind),
        title=(kind.__doc__ or kind.__name__).partition("\n")[0],
        status=status_of(kind),
        detail=error.message,
        code=code_of(kind),
        advice=error.next_step,
        values=error.as_json()["values"],
    )


def response(error: errors.TallyError) -> Response:
    """The response to an error."""
    kind = type(error)
    headers = {}
    seconds = getattr(kind, "retry_seconds", None) or _RETRY_SECONDS.get(kind)
    if seconds is not None:
        headers["retry-after"] = str(seconds)
    if status_of(kind) == 401:
        headers["www-authenticate"] = 'Bearer realm="tallystick"'
    if status_of(kind) in (408, 413):
        headers["connection"] = "close"  # the rest of the body is not read
    return Response(msgspec.json.encode(problem_of(error)), status_of(kind), headers, MEDIA_TYPE)


def plain(status: int, code: str, detail: str, headers: dict[str, str] | None = None) -> Response:
    """A problem that is not an error of the store, for example a method that the path does not have."""
    body = ProblemDetails(URN + code, detail, status, detail, code, "", {})
    return Response(msgspec.json.encode(body), status, headers, MEDIA_TYPE)

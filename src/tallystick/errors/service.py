"""What the service refuses before the store is asked. `status` is the HTTP status of each."""

from __future__ import annotations

from typing import ClassVar

from tallystick.errors.refused import Refused
from tallystick.errors.unavailable import Unavailable

__all__ = [
    "BodyRefused",
    "BodyTooLarge",
    "BodyTooSlow",
    "CrossOrigin",
    "Draining",
    "IdUnusable",
    "NotAllowed",
    "NotAuthenticated",
    "NothingHere",
    "Overloaded",
    "PositionAhead",
    "StampRefused",
    "UnsafeAddress",
    "WrongHost",
]


class NotAuthenticated(Refused):
    """The request shows no token, more than one, or something that is none."""

    status: ClassVar[int] = 401
    template = "a token is needed: {reason}"
    advice = "Send one header `Authorization: Bearer TOKEN`; an administrator issues tokens."
    reason: str


class NotAllowed(Refused):
    """The token is good, and does not allow this."""

    status: ClassVar[int] = 403
    template = "a {kind} may not {what}"
    advice = "Use a token of a kind that may."
    kind: str
    what: str


class StampRefused(Refused):
    """The body names an org, an actor or a request other than that of its token."""

    status: ClassVar[int] = 403
    template = "meta {key!r} is stamped by the service, and the event names another"
    advice = "Leave {key!r} out of the meta, or use the token that stands for it."
    key: str


class NothingHere(Refused):
    """There is no such thing, or it is not yours: both are answered alike."""

    status: ClassVar[int] = 404
    code = "not_found"
    template = "there is nothing here under that name"
    advice = "Look at the name, and at whose token this is."


class IdUnusable(Refused):
    """An event cannot have this id here. Whether and where it was used is not said."""

    status: ClassVar[int] = 409
    template = "no event can be recorded here under the id {id}"
    advice = "Leave the id out and one is made, or make another by chance."
    id: str


class WrongHost(Refused):
    """The request was meant for another host: a page in a browser may have been led here."""

    status: ClassVar[int] = 421
    template = "this service does not answer for that host"
    advice = "Use the address it listens on, or start it with --allow-host."


class CrossOrigin(Refused):
    """A page of another origin sent a request that could change something."""

    status: ClassVar[int] = 403
    template = "requests from pages of another origin are refused"
    advice = "Send it from the service's own pages, or from a program, without an Origin."


class BodyRefused(Refused):
    """The body has a form that is not taken."""

    status: ClassVar[int] = 415
    template = "the body is not taken: {reason}"
    advice = "Send JSON with `Content-Type: application/json`, without a content encoding."
    reason: str


class BodyTooLarge(Refused):
    """The body is larger than this service takes."""

    status: ClassVar[int] = 413
    template = "the body is larger than {limit} bytes"
    advice = "Send it in several requests."
    limit: int


class BodyTooSlow(Refused):
    """The body did not arrive in time."""

    status: ClassVar[int] = 408
    template = "the body did not arrive within {seconds} s"
    advice = "Send the request again; nothing was recorded."
    seconds: float


class PositionAhead(Refused):
    """The place to go on from is past the end of this log."""

    template = "position {position} is past the head, which is {head}"
    advice = "Follow from a place that was read here. If a backup was restored, begin again."
    position: int
    head: int


class Overloaded(Unavailable):
    """Too much is on its way already. Nothing of this request was done."""

    status: ClassVar[int] = 429
    retry_seconds: ClassVar[int] = 1
    template = "too many {what} at once"
    advice = "Send it again after the time in Retry-After."
    what: str


class Draining(Unavailable):
    """The service is about to stop and takes nothing new. Nothing of this request was done."""

    status: ClassVar[int] = 503
    retry_seconds: ClassVar[int] = 1
    template = "the service is stopping"
    advice = "Send it again when the service is back."


class UnsafeAddress(Unavailable):
    """Without any token, everybody who reaches the address could do everything."""

    template = "refusing to listen on {host!r} while the store has no token"
    advice = "Make a token first, or listen on 127.0.0.1."
    host: str

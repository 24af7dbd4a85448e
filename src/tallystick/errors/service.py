"""Requests that the service refuses before they reach the store. `status` is the HTTP status of each error."""

from __future__ import annotations

from typing import ClassVar

from tallystick.errors.refused import Refused
from tallystick.errors.unavailable import Unavailable

__all__ = [
    "BodyRefused",
    "BodyTooLarge",
    "BodyTooSlow",
    "ConsultationTooLarge",
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
    "UntaggedItem",
    "WrongHost",
]


class NotAuthenticated(Refused):
    """The request has no token, several tokens, or something that is not a token."""

    status: ClassVar[int] = 401
    template = "a token is needed: {reason}"
    advice = "Send one header `Authorization: Bearer TOKEN`. An administrator issues tokens."
    reason: str


class NotAllowed(Refused):
    """The token is valid, but does not allow this."""

    status: ClassVar[int] = 403
    template = "a {kind} may not {what}"
    advice = "Use a token of another kind."
    kind: str
    what: str


class StampRefused(Refused):
    """An event names another org, actor or request than its token."""

    status: ClassVar[int] = 403
    template = "the service sets meta {key!r} from the token, and the event has another value"
    advice = "Leave {key!r} out of the meta, or use the token of that {key!r}."
    key: str


class NothingHere(Refused):
    """The resource does not exist, or the token has no access to it: the answer is the same."""

    status: ClassVar[int] = 404
    code = "not_found"
    template = "nothing was found under this name"
    advice = "Check the name, and the org of the token."


class IdUnusable(Refused):
    """An event cannot have this id here. The error does not say whether or where the id was used."""

    status: ClassVar[int] = 409
    template = "no event can be recorded with the id {id}"
    advice = "Leave the id out, so that one is generated, or use a random id."
    id: str


class WrongHost(Refused):
    """The request was addressed to another host: a page in a browser may have been led here."""

    status: ClassVar[int] = 421
    template = "this service does not answer for this host"
    advice = "Use the address that the service listens on, or start it with --allow-host."


class CrossOrigin(Refused):
    """A page of another origin sent a request that could change something."""

    status: ClassVar[int] = 403
    template = "requests from pages of another origin are refused"
    advice = "Send it from the service's own pages, or from a program without an Origin header."


class BodyRefused(Refused):
    """The body is not plain JSON."""

    status: ClassVar[int] = 415
    template = "the body is not accepted: {reason}"
    advice = "Send JSON with `Content-Type: application/json`, without a content encoding."
    reason: str


class BodyTooLarge(Refused):
    """The body exceeds the size limit of the service."""

    status: ClassVar[int] = 413
    template = "the body is larger than {limit} bytes"
    advice = "Send it in several requests."
    limit: int


class BodyTooSlow(Refused):
    """The body did not arrive in time."""

    status: ClassVar[int] = 408
    template = "the body did not arrive within {seconds} s"
    advice = "Send the request again. Nothing was recorded."
    seconds: float


class PositionAhead(Refused):
    """The position to follow from is past the end of this log."""

    template = "position {position} is past the head, which is {head}"
    advice = "Follow from a position that was read from this log. If a backup was restored, start again."
    position: int
    head: int


class ConsultationTooLarge(Refused):
    """More events match than one response may have. No part of them is returned."""

    status: ClassVar[int] = 413
    template = "more than {events} events or {bytes} bytes match the query"
    advice = "Narrow the query, or consult only what came after a cursor that you have read up to."
    events: int
    bytes: int


class UntaggedItem(Refused):
    """A caller bound to an org sent a query with an item that names no tag."""

    status: ClassVar[int] = 403
    template = "item {number} of the query has no tag, which a caller that is bound to an org must name"
    advice = "Add a tag to each item, and to the events that it has to match."
    number: int


class Overloaded(Unavailable):
    """Too many requests are in progress. Nothing of this request was done."""

    status: ClassVar[int] = 429
    retry_seconds: ClassVar[int] = 1
    template = "too many {what} at once"
    advice = "Send the request again after the time in Retry-After."
    what: str


class Draining(Unavailable):
    """The service is stopping and accepts no new requests. Nothing of this request was done."""

    status: ClassVar[int] = 503
    retry_seconds: ClassVar[int] = 1
    template = "the service is stopping"
    advice = "Send the request again when the service is back."


class UnsafeAddress(Unavailable):
    """The store has no token, so anyone who can reach the address could do everything."""

    template = "refusing to listen on {host!r} while the store has no token"
    advice = "Issue a token first (`tally token issue`), or listen on 127.0.0.1."
    host: str

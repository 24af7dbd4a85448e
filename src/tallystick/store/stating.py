"""A log that other drivers can ask too: it states its question, and whoever has a faster way to the server asks there.

What is stated is complete: values are quoted in it, and what a session must be set to stands before it, so that the
answer is the one that the log itself would give.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from tallystick.store.page import Page
from tallystick.store.selection import Selection

_SCHEMES = "file|s3|s3a|gs|abfs|abfss|az|hdfs|dbfs|http|https"
_URL = re.compile(
    rf"(?:[^/\\:]{{2,}})?:/|(?:{_SCHEMES}):", re.IGNORECASE
)  # `C:/` is a drive, and a path has one slash of two
_PASSWORD = re.compile(r"([?&](?:ssl)?password=)[^&]+")


class Stated(msgspec.Struct, frozen=True):
    """Statements for a fresh session: `before` set it up, `query` answers with the columns that were named, in order.

    The answer is empty where the log would refuse with `HistoryPruned`: whoever gets nothing asks the log why.
    """

    before: tuple[str, ...]
    query: str


def shown(url: str) -> str:
    """The URL without its password, whether that stands before the host or among the options."""
    engine, slashes, place = url.partition("://")
    if not slashes:
        return url
    authority = re.match(r"[^/?#]*", place)
    assert authority is not None
    login, at, host = authority[0].rpartition("@")
    user, _, password = login.partition(":")
    if password:
        login = f"{user}:…"
    rest = _PASSWORD.sub(r"\1…", place[authority.end() :])
    return f"{engine}://{login}{at}{host}{rest}"


def is_url(place: str) -> bool:
    """Whether a place is meant as a URL, understood or not. A path that looks like one begins with `./`."""
    return _URL.match(place) is not None


@runtime_checkable
class States(Protocol):
    """What a log offers beside the port if it lives in a server.

    `url` is to be shown, and hides the password; `address` has it, and is only for opening the log elsewhere.
    """

    url: str
    address: str

    def read(self, *, after: int, until: int, limit: int, over_pruned: bool) -> Page:
        """As in the port."""

    def stated(
        self, columns: Sequence[str], *, selection: Selection, after: int, until: int, over_pruned: bool
    ) -> Stated:
        """The question for these columns of events with after < position <= until, a bound that is final already."""

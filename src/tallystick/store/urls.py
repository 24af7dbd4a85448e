"""URLs of logs: what counts as one, and how it is shown."""

from __future__ import annotations

import re

_SCHEMES = "file|s3|s3a|gs|abfs|abfss|az|hdfs|dbfs|http|https"
_URL = re.compile(
    rf"(?:[^/\\:]{{2,}})?:/|(?:{_SCHEMES}):", re.IGNORECASE
)  # `C:/` is a drive, and a path has one slash of two
_PASSWORD = re.compile(r"([?&](?:ssl)?password=)[^&]+")


def redacted(url: str) -> str:
    """The URL without its password, before the host or among the options."""
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

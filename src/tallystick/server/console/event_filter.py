"""The filter of the events page, checked. An invalid value is reported next to its field."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import msgspec

from tallystick import errors
from tallystick.store.selection import EVERYTHING, Selection, select

FIELDS = (
    ("type", "Type", "order.placed"),
    ("stream", "Stream", "order/1"),
    ("kind", "Kind of stream", "order"),
    ("tag", "Tag", "course:c1"),
    ("org", "Org", "acme"),
    ("app", "App", ""),
    ("env", "Env", ""),
    ("since", "Since, UTC", "2026-01-31 03:00"),
    ("till", "Before, UTC", "2026-01-31 04:00"),
)
NAMES = tuple(name for name, _, _ in FIELDS)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT_MAX = 300


class EventFilter(msgspec.Struct, frozen=True):
    """The filter as it was typed, what it selects, and its problem if any."""

    typed: dict[str, str]
    selection: Selection = EVERYTHING
    problem: str = ""
    wrong: tuple[str, ...] = ()

    @property
    def query(self) -> str:
        """The filter as a query."""
        return urlencode({name: value for name, value in self.typed.items() if value})

    @property
    def filtered(self) -> bool:
        """Whether any field has a value."""
        return any(self.typed.values())


def read(given: dict[str, str]) -> EventFilter:
    """The filter in a query. Names are compared exactly; there are no patterns."""
    typed = {name: given.get(name, "").strip()[:_TEXT_MAX] for name in NAMES}
    typed["tag"] = given.get("tag", "")[:_TEXT_MAX]  # it may begin or end with a space
    parts: dict[str, str | int | list[str]] = {}
    for name, value in typed.items():
        if not value:
            continue
        try:
            key = {"since": "time_from", "till": "time_until", "tag": "tags"}.get(name, name)
            parts[key] = _time(value) if name in ("since", "till") else [value] if name == "tag" else value
            select(**{key: parts[key]})  # type: ignore[arg-type]
        except errors.TallyError as problem:
            return EventFilter(typed, problem=f"{problem.message} {problem.next_step}", wrong=(name,))
    return EventFilter(typed, select(**parts))  # type: ignore[arg-type]


def _time(text: str) -> int:
    """A time in ns, from a date, or from a date and a time of day, in UTC unless it has another offset."""
    must = "a time such as 2026-01-31 or 2026-01-31 03:00:00, in UTC"
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise errors.InvalidValue(what="time", value=text[:40], must=must) from None
    passed = (found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH
    ns = passed // timedelta(microseconds=1) * 1000
    if not -(1 << 63) <= ns < 1 << 63:
        raise errors.InvalidValue(what="time", value=text[:40], must="between the years 1678 and 2262")
    return ns

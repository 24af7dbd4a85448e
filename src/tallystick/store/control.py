"""Control facts: what was done to a store, recorded in reserved `tally.*` streams of the store itself.

The audit trail is a reading of these streams. They are chained, verified and exported like every other event.
"""

from __future__ import annotations

from collections.abc import Iterator

from tallystick import errors
from tallystick.event import names, profiles
from tallystick.event.model import Event
from tallystick.store.events import EventLog
from tallystick.store.selection import Selection

SETTINGS_STREAM = "tally.store/settings"
REPAIRS_STREAM = "tally.store/repairs"
SETTING_CHANGED = "tally.setting.changed"
REPAIRED = "tally.store.repaired"
SECRETS_MODES = ("reject", "warn", "off")


def settings(log: EventLog) -> dict[str, str]:
    """The recorded settings of a store: the defaults, then every recorded change."""
    found = {"secrets": "reject"}
    try:
        head = log.stream_head(SETTINGS_STREAM)
        events = log.read_stream(SETTINGS_STREAM, limit=head.seq) if head is not None else []
    except errors.Damaged:  # the store must open all the same; the strict settings hold meanwhile
        return found
    for event in events:
        if event.type == SETTING_CHANGED and event.data is not None:
            found[event.data["setting"]] = event.data["new"]
    return found


def check_secrets(mode: str, profile: profiles.Profile) -> None:
    """Refuse a mode that does not exist, or one that the profile does not allow."""
    if mode not in SECRETS_MODES:
        raise errors.InvalidValue(what="secrets", value=mode, must="one of " + ", ".join(SECRETS_MODES))
    if profile.guard_fixed and mode != "reject":
        raise errors.Forbidden(what=f"secrets={mode!r}", profile=profile.name)


def audit(log: EventLog, *, after: int = 0, selection: Selection | None = None) -> Iterator[Event]:
    """The control facts in order of position."""
    wanted = (selection or Selection()).predicate()
    until = log.head()
    while after < until:
        page = log.read(after=after, until=until, over_holes=True)
        for event in page.events:
            if names.is_reserved(event.stream.partition("/")[0]) and wanted(event):
                yield event
        after = page.through

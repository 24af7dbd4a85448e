"""Control facts: what was done to a store, recorded in reserved `tally.*` streams of that store.

The audit trail consists of these streams. Their events are chained, verified and exported like all others.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from tallystick import errors
from tallystick.event import names, profiles
from tallystick.event.model import Event
from tallystick.store import iterate
from tallystick.store.events import EventLog
from tallystick.store.selection import Selection

SETTINGS_STREAM = "tally.store/settings"
REPAIRS_STREAM = "tally.store/repairs"
SETTING_CHANGED = "tally.setting.changed"
REPAIRED = "tally.store.repaired"
DAMAGE_CLEARED = "tally.damage.cleared"
SECRETS_MODES = ("reject", "warn", "off")


def settings(log: EventLog) -> dict[str, str]:
    """The settings of a store: the defaults with every recorded change."""
    found = {"secrets": "reject"}
    try:
        head = log.stream_head(SETTINGS_STREAM)
        events = log.read_stream(SETTINGS_STREAM, limit=head.seq) if head is not None else []
    except errors.Damaged:  # the store must open anyway; the strict settings apply until then
        return found
    for event in events:
        if event.type == SETTING_CHANGED and event.data is not None:
            found[event.data["setting"]] = event.data["new"]
    return found


def check_secrets(mode: str, profile: profiles.Profile) -> None:
    """Refuse a mode that does not exist, or that the profile does not allow."""
    if mode not in SECRETS_MODES:
        raise errors.InvalidValue(what="secrets", value=mode, must="one of " + ", ".join(SECRETS_MODES))
    if profile.guard_fixed and mode != "reject":
        raise errors.Forbidden(what=f"secrets={mode!r}", profile=profile.name)


def audit(log: EventLog, *, after: int = 0, selection: Selection | None = None) -> Iterator[Event]:
    """The control facts in order of position. They are in streams of their own, so the log is not searched."""
    wanted = (selection or Selection()).predicate()
    if log.losses():
        yield from (event for event in _around_losses(log, after) if wanted(event))
        return
    streams = [_behind(log, name, after) for name in control_streams(log)]
    for event in heapq.merge(*streams, key=lambda event: event.position):
        if wanted(event):
            yield event


def _around_losses(log: EventLog, after: int) -> Iterator[Event]:
    """The control facts that are left. A stream that lost some events cannot be read as a whole."""
    for page in iterate.pages(log, after=after, over_holes=True, over_pruned=True):
        yield from (event for event in page.events if names.is_reserved(event.stream))


def control_streams(log: EventLog) -> Iterator[str]:
    """The reserved streams, in order of name."""
    return (info.stream for info in iterate.streams(log, prefix=names.RESERVED))


def _behind(log: EventLog, stream: str, position: int) -> Iterator[Event]:
    """The events of a stream after a position."""
    return (event for event in iterate.stream(log, stream) if event.position > position)

"""How long data is kept: presets with the numbers of the systems they come from, and a variable for each setting.

Without a preset there is a snapshot for every 1000 events of a stream, and everything is kept. No policy removes
events that no verified snapshot covers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from tallystick import errors

SECOND = 1_000_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
FREE_BYTES = 256 << 20


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The settings. Times are in ns; None means never, or no limit.

    A stream is snapshotted every `stream_events` events. The whole store is snapshotted after `store_events` events,
    after `store_ns` in a quiet period, or when the log has grown by `store_bytes`, whichever comes first. If less than
    `free_bytes` is free, retention runs at once. It removes nothing that it would not remove later.
    """

    stream_events: int | None = 1000
    store_events: int | None = None
    store_ns: int | None = None
    store_bytes: int | None = None
    quiet_ns: int = 60 * SECOND
    prune_ns: int | None = None
    compress_ns: int | None = None
    keep_all_ns: int | None = None
    keep_daily_ns: int | None = None
    keep_weekly_ns: int | None = None
    keep_count: int | None = None
    retain_every_ns: int = HOUR
    validate_every_ns: int | None = None
    commands_ns: int = DAY
    free_bytes: int | None = None


PRESETS: dict[str, Policy] = {
    "keep-all": Policy(),
    "keep-7-days": Policy(stream_events=1000, prune_ns=7 * DAY, free_bytes=FREE_BYTES),
    "keep-30-days": Policy(
        stream_events=None, store_ns=DAY, quiet_ns=0, prune_ns=30 * DAY, keep_count=7, free_bytes=FREE_BYTES
    ),
    "keep-90-days": Policy(
        stream_events=None,
        store_events=10_000,
        store_ns=6 * HOUR,
        store_bytes=500_000_000,
        compress_ns=7 * DAY,
        prune_ns=90 * DAY,
        keep_all_ns=DAY,
        keep_daily_ns=30 * DAY,
        keep_weekly_ns=365 * DAY,
        validate_every_ns=DAY,
        free_bytes=FREE_BYTES,
    ),
}

ALIASES = {
    "none": "keep-all",
    "control-plane": "keep-all",
    "reach": "keep-7-days",
    "community": "keep-30-days",
    "lighthouse": "keep-90-days",
}
"""Other names of presets: those of the systems whose numbers they have."""

VARIABLES: dict[str, tuple[str, int]] = {
    "stream_events": ("TALLY_SNAPSHOT_STREAM_EVENTS", 1),
    "store_events": ("TALLY_SNAPSHOT_STORE_EVENTS", 1),
    "store_ns": ("TALLY_SNAPSHOT_STORE_HOURS", HOUR),
    "store_bytes": ("TALLY_SNAPSHOT_STORE_BYTES", 1),
    "quiet_ns": ("TALLY_SNAPSHOT_QUIET_SECONDS", SECOND),
    "prune_ns": ("TALLY_PRUNE_DAYS", DAY),
    "compress_ns": ("TALLY_COMPRESS_DAYS", DAY),
    "keep_all_ns": ("TALLY_SNAPSHOTS_KEEP_ALL_HOURS", HOUR),
    "keep_daily_ns": ("TALLY_SNAPSHOTS_KEEP_DAILY_DAYS", DAY),
    "keep_weekly_ns": ("TALLY_SNAPSHOTS_KEEP_WEEKLY_DAYS", DAY),
    "keep_count": ("TALLY_SNAPSHOTS_KEEP_COUNT", 1),
    "retain_every_ns": ("TALLY_RETAIN_HOURS", HOUR),
    "validate_every_ns": ("TALLY_VALIDATE_HOURS", HOUR),
    "commands_ns": ("TALLY_COMMANDS_HOURS", HOUR),
    "free_bytes": ("TALLY_CLEANUP_FREE_BYTES", 1),
}
"""Setting -> its environment variable, and the unit of that in ns. The value `none` turns the setting off."""

PRESET_VARIABLE = "TALLY_PRESET"
MUST_BE_SET = frozenset({"quiet_ns", "retain_every_ns", "commands_ns"})
COMMANDS_NS_MIN = DAY


def policy(preset: str | None = None, *, environment: Mapping[str, str] = os.environ) -> Policy:
    """The policy of a preset (given here, or by TALLY_PRESET), with every setting from the environment."""
    given = preset or environment.get(PRESET_VARIABLE) or "keep-all"
    name = ALIASES.get(given, given)
    if name not in PRESETS:
        raise errors.InvalidValue(what="preset", value=name, must="one of " + ", ".join(PRESETS))
    changed = {}
    for knob, (variable, unit) in VARIABLES.items():
        text = environment.get(variable)
        if text is not None:
            changed[knob] = _value(knob, variable, text, unit)
    found = msgspec.structs.replace(PRESETS[name], **changed)
    if found.commands_ns < COMMANDS_NS_MIN:
        raise errors.InvalidValue(what=VARIABLES["commands_ns"][0], value=found.commands_ns // HOUR, must="24 or more")
    return found


def _value(knob: str, variable: str, text: str, unit: int) -> int | None:
    if text.strip().lower() == "none" and knob not in MUST_BE_SET:
        return None
    try:
        number = float(text)
        if not 0 <= number * unit < 2**63 or (int(number * unit) == 0 and knob != "quiet_ns"):
            raise ValueError
    except ValueError:
        must = "a number above 0" + ("" if knob in MUST_BE_SET else ", or none")
        raise errors.InvalidValue(what=variable, value=text, must=must) from None
    return int(number * unit)

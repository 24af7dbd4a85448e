"""What is asked of the source: the options of `spark.read.format("tallystick")`, parsed and checked once."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

import tallystick
from tallystick import Store, errors
from tallystick.store import capabilities
from tallystick.store.selection import Selection
from tallystick.store.stating import States

BATCH_EVENTS = 2_000  # about a megabyte: events are made into columns while a core still has them near
PARTITIONS_MAX = 10_000
PROOF_SECONDS = 10.0
_SERVERS = ("postgresql:", "postgres:")
_PATHS = frozenset({"files", "sqlite", "ndjson"})
OPTIONS = frozenset(
    {
        "url",
        "after",
        "until",
        "stream",
        "type",
        "kind",
        "tenant",
        "app",
        "env",
        "pruned",
        "holes",
        "final",
        "unchecked",
        "partitionevents",
        "parallelism",
        "maxeventspertrigger",
        "maxbytespertrigger",
        "timefrom",
        "timeuntil",
        "path",
        "order",
        "idfrom",
        "waitseconds",
        "expectedseq",
    }
)


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of which log. `after` is exclusive, `until` inclusive; None means the head.

    `over_pruned` and `over_holes` give what is left of a log; without them a missing range is an error. `final` says
    that the asker has seen `until` below the safe head: whoever plans need not be able to prove that again. `unchecked`
    is for verification, which names every event that does not hold instead of stopping at the first.
    """

    url: str
    after: int = 0
    until: int | None = None
    selection: Selection = Selection()
    over_pruned: bool = False
    over_holes: bool = False
    final: bool = False
    unchecked: bool = False
    partition_events: int | None = None
    cores: int | None = None
    trigger_events: int | None = None
    trigger_bytes: int | None = None


def parse(options: Mapping[str, str]) -> LogQuery:
    """The question that options ask. Names of options are not case-sensitive, as everywhere in Spark."""
    given = named(options)
    for name in given:
        if name not in OPTIONS:
            raise errors.InvalidValue(what="option", value=name, must="one of " + ", ".join(sorted(OPTIONS)))
    return LogQuery(
        url=url_in(given),
        after=number_in(given, "after") or 0,
        until=number_in(given, "until"),
        selection=_selection(given),
        over_pruned=_choice(given, "pruned"),
        over_holes=_choice(given, "holes"),
        final=given.get("final") == "true",
        unchecked=given.get("unchecked") == "true",
        partition_events=number_in(given, "partitionevents", least=1),
        cores=number_in(given, "parallelism", least=1),
        trigger_events=number_in(given, "maxeventspertrigger", least=1),
        trigger_bytes=number_in(given, "maxbytespertrigger", least=1),
    )


def named(options: Mapping[str, str]) -> dict[str, str]:
    """Options by their names in lower case."""
    return {name.lower(): value for name, value in options.items()}


def url_in(given: Mapping[str, str]) -> str:
    """The log that options name."""
    url = given.get("url") or given.get("path")
    if not url:
        must = (
            "the URL of a log, such as files:DIR (of a table that was created with a list of columns, Spark does not "
            "hand it over: leave the columns out, or ask it WITH (url = '…'))"
        )
        raise errors.InvalidValue(what="option url", value="nothing", must=must)
    return url


def _selection(given: Mapping[str, str]) -> Selection:
    return Selection(
        streams=_names(given, "stream"),
        types=_names(given, "type"),
        kinds=_names(given, "kind"),
        org=given.get("tenant"),
        app=given.get("app"),
        env=given.get("env"),
        time_from=number_in(given, "timefrom"),
        time_until=number_in(given, "timeuntil"),
    )


def described(selection: Selection) -> str:
    """What a selection asks for, in words that are the same for the same selection."""
    names = {"stream": selection.streams, "type": selection.types, "kind": selection.kinds}
    parts = [f"{name} {', '.join(sorted(found))}" for name, found in names.items() if found]
    meta = {"tenant": selection.org, "app": selection.app, "env": selection.env}
    meta |= {"from": _text(selection.time_from), "before": _text(selection.time_until)}
    parts += [f"{name} {value}" for name, value in meta.items() if value is not None]
    return "events of " + "; ".join(parts) if parts else "all events"


def _text(number: int | None) -> str | None:
    return None if number is None else f"{number} ns"


def _names(given: Mapping[str, str], name: str) -> frozenset[str]:
    """Names with commas between: no name holds one."""
    return frozenset(part.strip() for part in given.get(name, "").split(",") if part.strip())


def number_in(given: Mapping[str, str], name: str, *, least: int = 0) -> int | None:
    """The number that an option is; None if it is not given."""
    value = given.get(name)
    if value is None:
        return None
    if not value.isascii() or not value.isdecimal() or int(value) < least:
        raise errors.InvalidValue(what=f"option {name}", value=value, must=f"a number from {least} on")
    return int(value)


def _choice(given: Mapping[str, str], name: str) -> bool:
    """Whether what is missing may be left out: `refuse` (the default) or `skip`."""
    value = given.get(name, "refuse")
    if value not in ("refuse", "skip"):
        raise errors.InvalidValue(what=f"option {name}", value=value, must="refuse or skip")
    return value == "skip"


def absolute(url: str) -> str:
    """The URL with a whole path: Spark's processes work in other directories than the one who asks."""
    engine, colon, place = url.partition(":")
    is_path = engine in _PATHS and place and not place.startswith(":")
    return f"{engine}{colon}{os.path.abspath(place)}" if is_path else url


def address_of(store: Store) -> str:
    """The URL that opens the log of a store once more, in whichever process; not to be shown."""
    return store.log.address if isinstance(store.log, States) else store.log.url


def open_log(url: str) -> Store:
    """The log, for reading, in whichever process Spark wants it read."""
    require_shared(url)
    return tallystick.open(url, readonly=True)


def open_asked(query: LogQuery) -> Store:
    """The log that a question is about. A server is told the tenant, so that its row security holds the reader too."""
    if query.selection.org is None or not query.url.startswith(_SERVERS):
        return open_log(query.url)
    return tallystick.open(query.url, readonly=True, org=query.selection.org)


def head_past(store: Store, seen: int) -> int:
    """The head of a log that somebody has seen up to `seen`.

    Over PostgreSQL each handle proves the head for itself, and a new one may need a moment to get as far as another did
    before: until appends that are under way have ended.
    """
    head = store.log.head()
    return head if head >= seen else store.log.wait(seen - 1, timeout=PROOF_SECONDS)


def require_shared(url: str) -> None:
    """Refuse a log that lives in one process only."""
    if url.partition(":")[0] == "memory":
        raise errors.NotForSpark(what="read", url=url, reason="it is in the memory of one process")


def has_order(store: Store) -> bool:
    """Whether positions order a log as a whole."""
    return capabilities.GLOBAL_ORDER in store.log.capabilities


def require_order(store: Store, *, what: str) -> None:
    """Refuse a log whose positions do not order it as a whole."""
    if not has_order(store):
        reason = f"engine {store.log.engine!r} has no order over all of its streams"
        raise errors.NotForSpark(what=what, url=store.log.url, reason=reason)

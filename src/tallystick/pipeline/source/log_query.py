"""What a reader asks of a log: the options of `spark.read.format("tallystick")`, parsed and checked once."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

import tallystick
from tallystick import Store, errors
from tallystick.event import canonical
from tallystick.store import capabilities
from tallystick.store.query import match, to_wire
from tallystick.store.selection import Selection
from tallystick.store.server_sql import SqlServerLog

BATCH_EVENTS = 2_000  # about a megabyte: small enough to become columns while it is in a core's cache
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
        "actorid",
        "correlationid",
        "causationid",
        "tags",
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

    With `over_pruned` and `over_holes` a reader gets what is left of a log; without them a missing range is an error.
    `final` says that the caller has seen the safe head at or past `until`, so the planner need not prove it again.
    `unchecked` is for verification, which reports every damaged event instead of stopping at the first.
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
    """The query in a set of options. Names of options are not case-sensitive, as everywhere in Spark."""
    given = lower_case_names(options)
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


def lower_case_names(options: Mapping[str, str]) -> dict[str, str]:
    """The options, with their names in lower case."""
    return {name.lower(): value for name, value in options.items()}


def url_in(given: Mapping[str, str]) -> str:
    """The log that options name."""
    url = given.get("url") or given.get("path")
    if not url:
        must = (
            "the URL of a log, such as files:DIR (Spark does not pass on the URL of a table that was created with a "
            "list of columns: leave the columns out, or query it WITH (url = '…'))"
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
        actor_id=given.get("actorid"),
        correlation_id=given.get("correlationid"),
        causation_id=given.get("causationid"),
        query=match(tags=_tags(given["tags"])) if "tags" in given else None,
        time_from=number_in(given, "timefrom"),
        time_until=number_in(given, "timeuntil"),
    )


def describe(selection: Selection) -> str:
    """A selection in words: the same for equal selections, and different for others."""
    names = {"stream": selection.streams, "type": selection.types, "kind": selection.kinds}
    parts = [f"{name} {', '.join(sorted(found))}" for name, found in names.items() if found]
    meta = {"tenant": selection.org, "app": selection.app, "env": selection.env}
    meta |= {"actor": selection.actor_id, "correlation": selection.correlation_id, "cause": selection.causation_id}
    meta |= {"query": None if selection.query is None else canonical.encode_state(to_wire(selection.query)).decode()}
    meta |= {"from": _text(selection.time_from), "before": _text(selection.time_until)}
    parts += [f"{name} {value}" for name, value in meta.items() if value is not None]
    return "events of " + "; ".join(parts) if parts else "all events"


def _text(number: int | None) -> str | None:
    return None if number is None else f"{number} ns"


def _tags(text: str) -> list[str]:
    """One tag, or a JSON list of tags: a tag may have commas."""
    if not text.startswith("["):
        return [text]
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError:
        raise errors.InvalidValue(what="option tags", value=text[:200], must="a tag, or a JSON list of tags") from None


def _names(given: Mapping[str, str], name: str) -> frozenset[str]:
    """Names separated by commas: a name cannot contain one."""
    return frozenset(part.strip() for part in given.get(name, "").split(",") if part.strip())


def number_in(given: Mapping[str, str], name: str, *, least: int = 0) -> int | None:
    """The value of an option as a number; None if the option is not given."""
    value = given.get(name)
    if value is None:
        return None
    if not value.isascii() or not value.isdecimal() or int(value) < least:
        raise errors.InvalidValue(what=f"option {name}", value=value, must=f"a number from {least} on")
    return int(value)


def _choice(given: Mapping[str, str], name: str) -> bool:
    """Whether missing events are left out (`skip`) or refused (`refuse`, the default)."""
    value = given.get(name, "refuse")
    if value not in ("refuse", "skip"):
        raise errors.InvalidValue(what=f"option {name}", value=value, must="refuse or skip")
    return value == "skip"


def absolute_url(url: str) -> str:
    """The URL with an absolute path: Spark's processes have other working directories than the caller."""
    engine, colon, place = url.partition(":")
    is_path = engine in _PATHS and place and not place.startswith(":")
    return f"{engine}{colon}{os.path.abspath(place)}" if is_path else url


def address_of(store: Store) -> str:
    """The URL that opens the log of a store in any process. It may hold a password: do not print it."""
    return store.log.address if isinstance(store.log, SqlServerLog) else store.log.url


def open_log(url: str) -> Store:
    """Open a log for reading, in any process of Spark."""
    require_shared(url)
    return tallystick.open(url, readonly=True)


def open_for(query: LogQuery) -> Store:
    """Open the log of a query. A server gets the tenant too, so that its row security applies to this reader."""
    if query.selection.org is None or not query.url.startswith(_SERVERS):
        return open_log(query.url)
    return tallystick.open(query.url, readonly=True, org=query.selection.org)


def head_past(store: Store, seen: int) -> int:
    """The head of a log, once it is at `seen` or past it: another process has seen the log up to there.

    On PostgreSQL each handle proves the head for itself. A new handle may need a moment until it gets as far as
    another one: until the appends that are under way have ended.
    """
    head = store.log.head()
    return head if head >= seen else store.log.wait(seen - 1, timeout=PROOF_SECONDS)


def require_shared(url: str) -> None:
    """Refuse a log that only one process can reach."""
    if url.partition(":")[0] == "memory":
        raise errors.NotForSpark(what="read", url=url, reason="it is in the memory of one process")


def has_order(store: Store) -> bool:
    """Whether positions order the events of all streams of a log."""
    return capabilities.GLOBAL_ORDER in store.log.capabilities


def require_order(store: Store, *, what: str) -> None:
    """Refuse a log whose positions do not order the events of all streams."""
    if not has_order(store):
        reason = f"engine {store.log.engine!r} has no order over all of its streams"
        raise errors.NotForSpark(what=what, url=store.log.url, reason=reason)

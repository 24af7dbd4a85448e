"""`tally append`, `read`, `tail`, `streams` and `audit`: writing one event, and looking at those of a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import conditions, failures, options, output, times
from tallystick.store import iterate

if TYPE_CHECKING:
    from tallystick import Event, Query, Selection, Store

PAGE = 1000
WAIT_SECONDS = 1.0

# --- append ----------------------------------------------------------------------------------------------------------


def _expected(text: str) -> int:
    """A seq, `none` or `any`."""
    from tallystick.store import expectation

    with _as_usage():
        return expectation.from_text(text)


def _meta(text: str) -> tuple[list[str], Any]:
    """The path and the value of `KEY=TEXT` or `KEY:=JSON`; dots in the key make nested objects."""
    from tallystick.event import canonical

    key, sign, value = text.partition("=")
    if not sign or not all(key.removesuffix(":").split(".")):
        raise click.BadParameter(f"{text!r} is not KEY=VALUE.")
    if not key.endswith(":"):
        return key.split("."), value
    with _as_usage():
        return key[:-1].split("."), canonical.parse(value, what="meta")


def _id(text: str) -> bytes:
    """A UUID or a ULID."""
    from tallystick.event import ids

    with _as_usage():
        return ids.to_bytes(text)


def _tag(text: str) -> str:
    """A tag."""
    from tallystick.event import tags

    with _as_usage():
        return tags.check(text)


@contextmanager
def _as_usage() -> Iterator[None]:
    """Report a value that cannot be parsed as wrong usage: the store has not been asked yet."""
    from tallystick import errors

    try:
        yield
    except errors.InvalidInput as problem:
        raise click.BadParameter(problem.message + ".") from None


@click.command("append", short_help="Append one event.")
@options.url
@click.argument("stream", metavar="STREAM")
@click.argument("type_", metavar="TYPE")
@click.argument("payload", default="{}", metavar="[PAYLOAD|-]")
@click.option(
    "--expected",
    type=_expected,
    metavar="N|none|any",
    default="any",
    show_default=True,
    help="The last seq of the stream; none if it must not exist yet.",
)
@click.option(
    "--meta",
    "pairs",
    type=_meta,
    multiple=True,
    metavar="KEY=VALUE",
    help="Meta: KEY=TEXT, or KEY:=JSON. May be repeated.",
)
@click.option("--tag", "tags", type=_tag, multiple=True, metavar="TAG", help="A tag. May be repeated.")
@conditions.condition
@click.option(
    "--id",
    "id_",
    type=_id,
    metavar="UUID",
    help="The id of the event. An event with this id is stored once; a retry writes nothing.",
)
@click.option("--time", "time_ns", type=times.option, metavar="TIME", help="When it happened. Default: now.")
@click.option("--version", type=int, help="The schema version of the payload.")
@options.creation
@options.as_json
def append(
    url: str,
    stream: str,
    type_: str,
    payload: str,
    expected: int,
    pairs: tuple[tuple[list[str], Any], ...],
    tags: tuple[str, ...],
    items: tuple[Query, ...],
    unless_after: str | None,
    unless_beyond: int | None,
    id_: bytes | None,
    time_ns: int | None,
    version: int | None,
    profile: str | None,
    secrets: str | None,
    as_json: bool,
) -> None:
    """Append one event to a stream. The first append creates the store.

    PAYLOAD is a JSON object. Use - to read it from stdin. The default is {}.

    Tags are part of the event for ever: nothing erases them. Do not put names or addresses into them.

    With --unless the append depends on other events. Exit status 1 if one matches ITEM: words with a colon are tags,
    the others are types. `tally consult` shows an example.
    """
    import tallystick
    from tallystick.event import canonical, ids, names

    names.kind_of(stream)  # check what can be checked without a store first, so that a refusal creates none
    names.check_type(type_)
    text = sys.stdin.buffer.read() if payload == "-" else payload
    content = canonical.parse(text)
    canonical.check(content)
    unless = conditions.marker(items, unless_after, unless_beyond)
    minted = id_ or ids.default.mint(1, time_ns=time.time_ns())[0]  # here, so that it can be printed and retried
    meta = _nested(pairs)
    event = tallystick.NewEvent(type_, content, meta=meta, version=version, id=minted, time=time_ns, tags=tags)
    with tallystick.open(url, profile=profile, secrets=secrets) as store:
        done = store.append(stream, event, expected=expected, unless=unless)
    found = {
        "stream": done.stream,
        "seq": done.seq,
        "position": done.position,
        "id": ids.to_text(minted),
        "link": done.link.hex(),
    }
    if as_json:
        output.document(found | {"stored": bool(done.stored)})
        return
    if done.stored:
        output.note("the event was already stored; nothing was written")
    output.facts(found)


def _nested(pairs: tuple[tuple[list[str], Any], ...]) -> dict[str, Any]:
    """The meta object of `a.b=c` pairs."""
    meta: dict[str, Any] = {}
    for keys, value in pairs:
        inner = meta
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise click.BadParameter(f"{'.'.join(keys)} is inside a value.", param_hint="--meta")
        if keys[-1] in inner:
            raise click.BadParameter(f"{'.'.join(keys)} is given twice.", param_hint="--meta")
        inner[keys[-1]] = value
    return meta


# --- read and tail ---------------------------------------------------------------------------------------------------


@click.command("read", short_help="Print events.")
@options.url
@options.after
@options.until
@click.option("--limit", type=click.IntRange(1), help="Print at most this many events.")
@options.selection
@options.as_json
def read(url: str, after: int | None, until: int | None, limit: int | None, chosen: Selection, as_json: bool) -> int:
    """Print events in order of position: position, time, stream#seq, type, payload.

    Exit status 1 if a --stream does not exist. The events of the other streams are printed.
    """
    with options.open_reading(url) as store:
        status = options.note_missing(store, chosen.streams)
        if after is None:
            options.note_pruned(store)
        left = options.INT_MAX if limit is None else limit
        pages = store.pages(
            after=after or 0, until=until, selection=chosen, limit=min(PAGE, left), over_pruned=after is None
        )
        for page in pages:
            output.events(page.events[:left], as_json=as_json)
            left -= len(page.events)
            if left <= 0:
                break
    return status


@click.command("tail", short_help="Print the newest events, and follow.")
@options.url
@click.option(
    "-n",
    "--lines",
    "count",
    type=click.IntRange(0, 100_000),
    default=10,
    show_default=True,
    help="How many events to print first.",
)
@options.follow
@options.selection
@options.as_json
def tail(url: str, count: int, follow: bool, chosen: Selection, as_json: bool) -> int:
    """Print the last events of the log. With --follow, wait for more; another process may write them.

    Exit status 1 if a --stream does not exist. With --follow it is only reported, and waited for.
    """
    with options.open_reading(url) as store:
        status = options.note_missing(store, chosen.streams)
        head = store.head()
        newest = store.events(until=head, selection=chosen, over_pruned=True, backward=True)
        output.events(list(islice(newest, count))[::-1], as_json=as_json)
        if follow:
            try:
                _follow(store, head, chosen, as_json=as_json)
            except KeyboardInterrupt:
                return failures.DONE
    return status


def _follow(store: Store, after: int, chosen: Selection, *, as_json: bool) -> None:
    while True:
        head = store.wait(after, timeout=WAIT_SECONDS)
        for page in store.pages(after=after, until=head, selection=chosen, limit=PAGE, over_pruned=True):
            output.events(page.events, as_json=as_json)
            after = page.through


# --- streams and audit -----------------------------------------------------------------------------------------------


@click.command("streams", short_help="List the streams.")
@options.url
@click.option("--kind", metavar="KIND", help="Only streams of this kind.")
@click.option("--org", metavar="ORG", help="Only streams of this org.")
@options.as_json
def streams(url: str, kind: str | None, org: str | None, as_json: bool) -> int:
    """List the streams by name, with the last seq, the org, and the link of the last event.

    Exit status 1 if part of the log is damaged, because the list may then be incomplete.
    """
    with options.open_reading(url) as store:
        every = iterate.streams(store.log, prefix="" if kind is None else f"{kind}/")
        found = (info for info in every if org is None or info.org == org)
        if as_json:
            for info in found:
                output.document({"stream": info.stream, "seq": info.seq, "org": info.org, "link": info.link.hex()})
        else:
            rows = ((info.stream, info.seq, info.org, info.link.hex()) for info in found)
            output.table(("stream", "seq", "org", "link"), rows)
        holes = store.log.holes()
    for hole in holes:
        output.note(
            f"a stream may be missing or shorter: positions {hole.first} to {hole.last} are damaged: {hole.reason}"
        )
    return failures.NO if holes else failures.DONE


@click.command("audit", short_help="List what was done to the store.")
@options.url
@options.after
@click.option("--org", metavar="ORG", help="Only facts about this org.")
@click.option("--run", metavar="RUN", help="Only facts about this run.")
@click.option("--actor", metavar="ID", help="Only what this actor did.")
@options.time_range
@options.as_json
def audit(
    url: str,
    after: int | None,
    org: str | None,
    run: str | None,
    actor: str | None,
    time_from: int | None,
    time_until: int | None,
    as_json: bool,
) -> None:
    """List the control facts in order of position: settings, repairs, and everything that was removed or sealed."""
    from tallystick.store import control
    from tallystick.store.selection import select

    chosen = select(org=org, time_from=time_from, time_until=time_until)
    with options.open_reading(url) as store:
        for event in control.audit(store.log, after=after or 0, selection=chosen):
            if (run is None or _concerns(event, run)) and (actor is None or event.metadata.get("actor_id") == actor):
                output.events([event], as_json=as_json)


def _concerns(event: Event, run: str) -> bool:
    """Whether a control fact is about this run: it names its stream or its id, or is in a stream with its name."""
    fact = event.data or {}
    return (
        fact.get("stream") == f"run/{run}"
        or run in (fact.get("run"), fact.get("run_id"))
        or event.stream.partition("/")[2] in (run, f"run:{run}")
    )

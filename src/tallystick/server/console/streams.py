"""Streams: the list of them, the timeline of one, and its state at any event with what that event changed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, zip_longest
from typing import Any

import msgspec
from starlette.responses import Response

from tallystick import errors, state
from tallystick.event import canonical
from tallystick.event.model import Event
from tallystick.server.console import display, render, route
from tallystick.server.http.route import HttpRequest
from tallystick.server.service import Service
from tallystick.state import Reducer, State, Until
from tallystick.state.fold import replay
from tallystick.store import facts, iterate
from tallystick.store.ledger import Head
from tallystick.store.store import Store

PAGE_STREAMS = 100
PAGE_EVENTS = 40
STATE_CHARACTERS_MAX = 64_000
CHANGES_MAX = 200
VALUE_CHARACTERS_MAX = 300
_ABSENT = object()

pages = route.pages()
data = route.data()


@pages.get("/streams")
def show_streams(request: HttpRequest, after: str = "") -> Response:
    """Streams by name, after a cursor or from the beginning of a name."""
    store: Store = request.service.store
    begin = request.query_params.get("from", "").strip()
    found = store.streams(after=after or _before(begin), limit=PAGE_STREAMS + 1)
    return render.page(
        request,
        "streams.html",
        here="/streams",
        title="Streams",
        streams=found[:PAGE_STREAMS],
        begin=begin,
        after=after,
        following=found[PAGE_STREAMS - 1].stream if len(found) > PAGE_STREAMS else "",
    )


def _before(begin: str) -> str:
    """A text right before the beginning of a name, so that a page after it starts there."""
    if len(begin) < 2 or not begin.isascii():
        return ""
    return begin[:-1] + chr(ord(begin[-1]) - 1) + "~" if ord(begin[-1]) > ord("!") else begin[:-1]


@pages.get("/streams/{kind}/{name}")
def show_stream(
    request: HttpRequest, kind: str, name: str, before: int | None = None, at: int | None = None
) -> Response:
    """One stream: its state, with a slider, and its timeline."""
    service = request.service
    stream = f"{kind}/{name}"
    head, first = _bounds(service.store, stream)
    last = head.seq if before is None else min(max(0, before), head.seq)
    events, damage = _timeline(service.store, stream, first, last)
    shown_at = min(max(at if at is not None else last, first), head.seq)
    about = facts.stream_about(stream) if not kind.startswith("tally.") else ""
    known = service.store.stream_head(about) if about else None
    return render.page(
        request,
        "stream.html",
        here="/streams",
        title=stream,
        stream=stream,
        org=head.org,
        link=head.link.hex(),
        first=first,
        last=head.seq,
        at=shown_at,
        cut=first - 1,
        events=events,
        damage=damage,
        before=before,
        older=events[-1].seq - 1 if events and events[-1].seq > first else 0,
        reducers=_reducers(service, stream),
        about=about,
        known=known.seq if known else 0,
    )


def _bounds(store: Store, stream: str) -> tuple[Head, int]:
    """The end of a stream, and its first seq that was not pruned."""
    try:
        head = store.stream_head(stream)
    except errors.InvalidName:
        head = None
    if head is None:
        raise errors.NothingHere()
    cut = store.cut(stream)
    return head, min(cut.through + 1 if cut is not None else 1, head.seq)


def _timeline(store: Store, stream: str, first: int, last: int) -> tuple[list[Event], str]:
    """Events down from `last`, newest first; and why some cannot be read."""
    begin = max(first - 1, last - PAGE_EVENTS)
    try:
        return store.read_stream(stream, after=begin, until=last, limit=PAGE_EVENTS)[::-1], ""
    except errors.Damaged as damage:
        return _readable(store, stream, begin, last), damage.message
    except errors.HistoryPruned:
        return [], ""


def _readable(store: Store, stream: str, begin: int, last: int) -> list[Event]:
    found = []
    for seq in range(last, begin, -1):
        try:
            event = store.at(stream, seq)
        except errors.Damaged:
            continue
        if event is not None:
            found.append(event)
    return found


def _reducers(service: Service, stream: str) -> list[str]:
    """The reducers for a stream, the user's own first."""
    fitting = [item.name for item in service.reducers.values() if item.scope == "stream" and item.wants(stream)]
    return sorted(fitting, key=lambda name: name == "merge")


# --- the state -------------------------------------------------------------------------------------------------------


@data.get("/streams/{kind}/{name}/state")
def state_at(request: HttpRequest, kind: str, name: str, seq: int, reducer: str = "") -> Response:
    """The state right after an event, and what that event changed."""
    service = request.service
    stream = f"{kind}/{name}"
    head, first = _bounds(service.store, stream)
    chosen = service.reducers.get(reducer or (_reducers(service, stream) or ["merge"])[0])
    if chosen is None:
        raise errors.InvalidValue(what="reducer", value=reducer[:100], must="one that is served")
    at = min(max(seq, first), head.seq)
    before, after = _around(service.store, chosen, stream, at, first)
    return render.data(_state_data(service.store, stream, at, before, after))


def _around(store: Store, reducer: Reducer, stream: str, at: int, first: int) -> tuple[Any, State]:
    """The value before an event, and the state after it. Before the first event that is left, the value is empty."""
    if at <= first:
        return {}, state.fold(store, reducer, stream, until=Until(seq=at))
    found = state.fold(store, reducer, stream, until=Until(seq=at - 1))
    before = canonical.decode(found.body)  # a copy, because a user's reducer may change its argument
    return before, replay(store, reducer, found, until=Until(seq=at))


def _state_data(store: Store, stream: str, at: int, before: Any, after: State) -> dict[str, Any]:
    event = iterate.at(store.log, stream, at)
    changed, more = differences(before, after.value)
    text, left = display.pretty(after.body, STATE_CHARACTERS_MAX)
    source = "from a snapshot" if after.snapshot else "from the first event"
    return {
        "seq": at,
        "state": text + (f"\n… {left:,} more characters" if left else ""),
        "changes": changed,
        "cut": f"only the first {CHANGES_MAX} changes are shown" if more else "",
        "quiet": "It changed nothing in this state.",
        "event": event.type if event is not None else "this event",
        "time": display.moment(event.time) if event is not None else "",
        "from": f"folded {source}",
    }


# --- the difference of two states ------------------------------------------------------------------------------------


class FieldChange(msgspec.Struct, frozen=True):
    """One field: `added`, `removed` or `changed`, with its value before and after as JSON."""

    kind: str
    path: str
    before: str | None = None
    after: str | None = None


def differences(before: Any, after: Any) -> tuple[list[FieldChange], bool]:
    """The changes from one state to the next, up to a bound; and whether there are more."""
    found = list(islice(_walk("", before, after), CHANGES_MAX + 1))
    return found[:CHANGES_MAX], len(found) > CHANGES_MAX


def _walk(path: str, before: Any, after: Any) -> Iterator[FieldChange]:
    if type(before) is dict and type(after) is dict:
        for key in sorted(before.keys() | after.keys()):
            inner = f"{path}.{display.plain(key)}" if path else display.plain(key)
            yield from _walk(inner, before.get(key, _ABSENT), after.get(key, _ABSENT))
    elif type(before) is list and type(after) is list:
        for index, (old, new) in enumerate(zip_longest(before, after, fillvalue=_ABSENT)):
            yield from _walk(f"{path}[{index}]", old, new)
    elif before is _ABSENT:
        yield FieldChange("added", path or "state", None, _text(after))
    elif after is _ABSENT:
        yield FieldChange("removed", path or "state", _text(before), None)
    elif type(before) is not type(after) or before != after:
        yield FieldChange("changed", path or "state", _text(before), _text(after))


def _text(value: Any) -> str:
    text, left = display.cut(display.plain(canonical.encode_state(value).decode()), VALUE_CHARACTERS_MAX)
    return text + "…" if left else text

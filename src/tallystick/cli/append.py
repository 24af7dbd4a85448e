"""`tally append`: one event from the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from tallystick.cli import options, output, times


def _expected(text: str) -> int:
    """A seq, `none` or `any`."""
    from tallystick.store import expectation

    with _as_usage():
        return expectation.from_text(text)


def _meta(text: str) -> tuple[list[str], Any]:
    """`KEY=TEXT` or `KEY:=JSON`, the key with dots for objects inside objects."""
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


@contextmanager
def _as_usage() -> Iterator[None]:
    """An option that cannot be understood is a matter of usage, not an answer of the store."""
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
    help="Where the stream must be.",
)
@click.option(
    "--meta",
    "pairs",
    type=_meta,
    multiple=True,
    metavar="KEY=VALUE",
    help="Meta: KEY=TEXT, or KEY:=JSON. May be repeated.",
)
@click.option(
    "--id", "id_", type=_id, metavar="UUID", help="The id of the event; a retry with the same id writes nothing."
)
@click.option("--time", "time_ns", type=times.option, metavar="TIME", help="When it happened. Default: now.")
@click.option("--version", type=int, help="The schema version of the payload.")
@options.creation
@options.as_json
def command(
    url: str,
    stream: str,
    type_: str,
    payload: str,
    expected: int,
    pairs: tuple[tuple[list[str], Any], ...],
    id_: bytes | None,
    time_ns: int | None,
    version: int | None,
    profile: str | None,
    secrets: str | None,
    as_json: bool,
) -> None:
    """Append one event to a stream. The first append creates the store.

    PAYLOAD is a JSON object; - reads it from stdin; left out, it is {}.
    """
    import tallystick
    from tallystick.event import canonical, ids, names

    names.kind_of(stream)  # what can be refused without the store is, so that none is made for it
    names.check_type(type_)
    text = sys.stdin.buffer.read() if payload == "-" else payload
    content = canonical.parse(text)
    canonical.check(content)
    minted = id_ or ids.default.mint(1, time_ns=_now())[0]  # minted here, so that it can be shown and used for a retry
    event = tallystick.NewEvent(type_, content, meta=_nested(pairs), version=version, id=minted, time=time_ns)
    with tallystick.open(url, profile=profile, secrets=secrets) as store:
        done = store.append(stream, event, expected=expected)
    _show(
        {
            "stream": done.stream,
            "seq": done.seq,
            "position": done.position,
            "id": ids.to_text(minted),
            "link": done.link.hex(),
            "stored": bool(done.stored),
        },
        as_json=as_json,
    )


def _now() -> int:
    import time

    return time.time_ns()


def _nested(pairs: tuple[tuple[list[str], Any], ...]) -> dict[str, Any]:
    """The meta object of `a.b=c` pairs."""
    meta: dict[str, Any] = {}
    for keys, value in pairs:
        place = meta
        for key in keys[:-1]:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise click.BadParameter(f"{'.'.join(keys)} lies inside of a value.", param_hint="--meta")
        if keys[-1] in place:
            raise click.BadParameter(f"{'.'.join(keys)} is given twice.", param_hint="--meta")
        place[keys[-1]] = value
    return meta


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        output.document(found)
        return
    if found.pop("stored"):
        output.note("it was stored already; nothing was written")
    output.facts(found.items())

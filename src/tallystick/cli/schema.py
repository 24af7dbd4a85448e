"""`tally schema`: a catalog as JSON Schema, and whether a new catalog can read what the old one could."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click
import msgspec

from tallystick.cli import code, options, output


@click.group("schema", short_help="Export and compare catalogs of event types.")
def command() -> None:
    """Export a catalog as JSON Schema, and check that a changed catalog can still read every old event."""


@command.command("export", short_help="Write a catalog as JSON Schema.")
@click.argument("catalog", metavar="MODULE:CATALOG")
@click.option(
    "-o", "--output", "file", type=click.Path(dir_okay=False, writable=True), help="Write to FILE.", metavar="FILE"
)
def export(catalog: str, file: str | None) -> None:
    """Write the JSON Schema of every type and version in a catalog. The module is found in the
    working directory first.
    """
    from tallystick.event import schema

    text = schema.export_text(_guarded(catalog, _loaded)).encode()
    if file is None:
        output.write(text)
        return
    with open(file, "wb") as out:
        out.write(text)


@command.command("check", short_help="Check that a new catalog can read old events.")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@options.as_json
def check(old: str, new: str, as_json: bool) -> int:
    """Check that the catalog NEW can replace OLD. Each is a file written by `tally schema export`, or MODULE:CATALOG.

    A removed field, a changed type, a new field without a default, and a change without a new version are refused.
    Every finding is listed: exit status 1.
    """
    from tallystick.event import compatibility

    findings = compatibility.check(_document(old), _document(new))
    document = {"ok": not findings, "old": old, "new": new, "findings": findings}

    def show() -> None:
        if findings:
            rows = ((item.type, item.version, item.path, item.rule, item.message) for item in findings)
            output.table(("type", "version", "path", "rule", "message"), rows)
        else:
            click.echo("ok: every event that the old catalog can read, the new one can read too")

    return output.answer(not findings, document, show, as_json=as_json)


def _document(source: str) -> Any:
    """The exported catalog of a file or a module."""
    if os.path.exists(source) or ":" not in source:
        return _guarded(source, _of_file)
    return _of_module(source)


def _of_file(path: str) -> Any:
    with open(path, "rb") as file:
        return msgspec.json.decode(file.read())


def _of_module(source: str) -> Any:
    from tallystick.event import schema

    return schema.export(_guarded(source, _loaded))


def _loaded(source: str) -> Any:
    from tallystick import Catalog

    code.search_here()
    return Catalog.load(source)


def _guarded(source: str, load: Callable[[str], Any]) -> Any:
    """Load something of the user's. If that fails, nothing could be checked: exit status 2."""
    from tallystick import errors

    try:
        return load(source)
    except errors.Unavailable:
        raise
    except Exception as problem:
        raise click.ClickException(
            f"cannot load the catalog {source!r}: {type(problem).__name__}: {problem}"
        ) from problem

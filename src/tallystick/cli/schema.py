"""`tally schema`: the catalog as JSON Schema, and whether a new one may follow an old one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click
import msgspec

from tallystick.cli import code, failures, options, output


@click.group("schema", short_help="Export and compare catalogs of event types.")
def command() -> None:
    """Export a catalog as JSON Schema, and check that a changed one still reads every old event."""


@command.command("export", short_help="Write a catalog as JSON Schema.")
@click.argument("catalog", metavar="MODULE:CATALOG")
@click.option(
    "-o", "--output", "file", type=click.Path(dir_okay=False, writable=True), help="Write to FILE.", metavar="FILE"
)
def export(catalog: str, file: str | None) -> None:
    """Write the JSON Schema of every type and version in a catalog. The module is looked for here first."""
    from tallystick.event import schema

    text = schema.export_text(_guarded(catalog, _loaded)).encode()
    if file is None:
        output.write(text)
        return
    with open(file, "wb") as out:
        out.write(text)


@command.command("check", short_help="Check that schemas only grew.")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@options.as_json
def check(old: str, new: str, as_json: bool) -> int:
    """Check that the catalog NEW may follow OLD: each a file of `tally schema export`, or MODULE:CATALOG.

    A removed field, a changed type, a new field without a default or a change without a new version is refused:
    exit status 1, and every finding is listed.
    """
    from tallystick.event import compatibility

    findings = compatibility.check(_document(old), _document(new))
    status = failures.decide(failures.NO if findings else failures.DONE)
    if as_json:
        output.document({"ok": not findings, "old": old, "new": new, "findings": findings})
    elif findings:
        rows = ((item.type, item.version, item.path, item.rule, item.message) for item in findings)
        output.table(("type", "version", "path", "rule", "message"), rows)
    else:
        click.echo("ok: every event that fits the old catalog can be read with the new one")
    return status


def _document(place: str) -> Any:
    """The exported catalog in a file or of a module."""
    if os.path.exists(place) or ":" not in place:
        return _guarded(place, _of_file)
    return _of_module(place)


def _of_file(path: str) -> Any:
    with open(path, "rb") as file:
        return msgspec.json.decode(file.read())


def _of_module(place: str) -> Any:
    from tallystick.event import schema

    return schema.export(_guarded(place, _loaded))


def _loaded(place: str) -> Any:
    from tallystick import Catalog

    code.search_here()
    return Catalog.load(place)


def _guarded(place: str, load: Callable[[str], Any]) -> Any:
    """Load something of the user's. Whatever that raises, it is the question that could not be put: exit status 2."""
    from tallystick import errors

    try:
        return load(place)
    except errors.Unavailable:
        raise
    except Exception as problem:
        raise click.ClickException(
            f"cannot load the catalog {place!r}: {type(problem).__name__}: {problem}"
        ) from problem

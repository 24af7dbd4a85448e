"""`tally migrate`: bring a store of an older version up to this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import options, output

if TYPE_CHECKING:
    from tallystick import Store

FORMAT_FACTS = ("user_version", "format")


@click.command("migrate", short_help="Upgrade a store written by an older version.")
@options.url
@options.profile
@options.as_json
def command(url: str, profile: str | None, as_json: bool) -> None:
    """Upgrade the store to the format of this version, and say from which to which. Migrations only go forward.

    In a PostgreSQL database without a log, this makes one, with its roles: run it as a role that may create them.
    """
    import tallystick
    from tallystick.store.urls import redacted

    before = _format_before(url)
    with tallystick.open(url, create=_makes(url), profile=profile) as store:
        after, engine = _format(store), store.log.engine
    if as_json:
        output.document(
            {"url": redacted(url), "engine": engine, "from": before, "to": after, "migrated": before != after}
        )
    elif before != after:
        click.echo(f"migrated from format {before} to {after}")
    elif after is None:
        click.echo(f"nothing to do: stores of the engine {engine} have one format")
    else:
        click.echo(f"nothing to do: the store has format {after}")


def _format_before(url: str) -> Any:
    """The format as it is on disk, seen without changing it."""
    from tallystick import errors

    try:
        with options.open_reading(url) as store:
            return _format(store)
    except errors.OlderFormat as old:
        return old.found
    except errors.StoreNotFound:
        if not _makes(url):
            raise
        return 0


def _makes(url: str) -> bool:
    """Whether making the store is the business of whoever migrates it: a service's role cannot."""
    return url.partition(":")[0] in ("postgresql", "postgres")


def _format(store: Store) -> Any:
    facts = store.report().facts
    return next((facts[name] for name in FORMAT_FACTS if name in facts), None)

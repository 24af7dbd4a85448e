"""`tally serve`: the HTTP API and the console."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import code, options, output

if TYPE_CHECKING:
    from tallystick.server.settings import Settings

PORT = 8787


@click.command("serve", short_help="Serve the HTTP API and the console.")
@options.url
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. Any other than the local machine needs a token first.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="The port to listen on. 0 chooses a free one.",
)
@click.option("--readonly", is_flag=True, help="Only read. Another process may write.")
@click.option("--require-token", is_flag=True, help="Refuse requests without a token, even from this machine.")
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="NAME",
    help="Also accept requests for this host name. May be repeated.",
)
@click.option(
    "--infrastructure", multiple=True, metavar="KIND", help="Hide streams of this kind from tenants. May be repeated."
)
@click.option(
    "--window-ms",
    type=click.FloatRange(0, 10),
    default=0.0,
    help="Delay each commit by up to this many ms, so that others can share its fsync.",
)
@options.snapshot_hour
@options.refill_from(help="At the start, verify the store and refill damaged ranges from this store or export.")
@options.archive(
    "The archive of this log. Retention prunes only events that it holds.", variable=options.ARCHIVE_VARIABLE
)
@click.option(
    "--projection",
    "projections",
    multiple=True,
    metavar="MODULE:NAME",
    help="Keep the rows of this projection current. May be repeated.",
)
@code.reducers
@code.catalog
@options.as_json
def command(url: str, as_json: bool, **given: Any) -> None:
    """Serve the store at URL until SIGTERM or Ctrl-C. Appends that were accepted by then are finished and acknowledged.

    By default it only answers this machine. To listen on another address, issue a token first. Environment variables
    TALLY_SERVE_… set the limits: see docs/service.md.
    """
    try:
        from tallystick.server import listener, logs, service
    except ModuleNotFoundError as missing:
        raise click.ClickException(f"{missing.name} is not installed: pip install 'tallystick[serve]'") from None
    directory = given.pop("archive_directory")
    parts = {
        "archive": None if directory is None else lambda store: options.open_archive(directory, store),
        "catalog": code.load_catalog(given.pop("catalog_reference")),
        "reducers": code.load_reducers(given.pop("references")),
        "projections": [code.load_projection(reference) for reference in given.pop("projections")],
    }
    logged = logs.Logs(level=logs.level_from(os.environ))
    opened = service.open_service(_settings(url, given), **parts)
    try:
        listener.require_safe(opened)
        socket = listener.bind(opened.settings)
    except BaseException:
        opened.store.close()
        raise
    _note_damage(opened)
    with logged:
        listener.Listener(opened, ready=lambda address: _ready(address, as_json=as_json)).run([socket])


def _settings(url: str, given: dict[str, Any]) -> Settings:
    from tallystick.server.settings import Settings, limits_from

    return Settings(url=url, limits=limits_from(os.environ), **given)


def _ready(address: str, *, as_json: bool) -> None:
    document = {"address": address, "pid": os.getpid()}
    output.result(document, f"serving on {address} (Ctrl-C stops it)", as_json=as_json)


def _note_damage(opened: Any) -> None:
    if opened.not_refilled:
        output.note(f"not refilled: {opened.not_refilled}")
    for hole in opened.store.holes():
        output.note(f"damaged: positions {hole.first} to {hole.last} ({hole.reason}); appends are refused")

"""`tally pipeline archive`: what is new in a log, into Parquet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tallystick.cli import options, output, places, progress, spark

if TYPE_CHECKING:
    from tallystick.pipeline.archive.registration import RegisterResult


@click.command("archive", short_help="Put what is new into an archive of Parquet files.")
@options.url
@click.argument("directory", metavar="DIR", type=places.PLACE)
@click.option("--until", metavar="POSITION", type=click.IntRange(min=0), help="Archive no further than this.")
@click.option(
    "--bucket",
    "bucket_events",
    metavar="N",
    type=click.IntRange(min=1),
    default=500_000,
    show_default=True,
    help="Positions a file.",
)
@click.option(
    "--grace",
    "grace_seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=3600,
    show_default=True,
    help="How long files stay that are no longer part of the archive.",
)
@click.option(
    "--register",
    "formats",
    type=click.Choice(("delta", "iceberg")),
    multiple=True,
    help="List the files as a table of this format too.",
)
@spark.master
@spark.memory
@options.as_json
def command(
    url: str,
    directory: str,
    until: int | None,
    bucket_events: int,
    grace_seconds: float,
    formats: tuple[str, ...],
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Add everything up to the safe head that the archive does not have yet, and take out what was erased.

    The manifest is replaced in one step: killed anywhere, the archive is what it was, and the next run goes on.
    """
    with spark.session(master, memory=memory) as session, progress.tasks("archiving") as show:
        from tallystick.pipeline.jobs.archive import archive

        done = archive(
            session, url, directory, until=until, bucket_events=bucket_events, grace_seconds=grace_seconds, show=show
        )
        listed = [_registered(directory, kind) for kind in formats]
    if as_json:
        output.document(done)
        return
    erased = f", {done.erased} erased payloads taken out" if done.erased else ""
    click.echo(f"archived {done.events} events in {done.buckets} buckets{erased}")
    for table in listed:
        click.echo(f"{table.format}: {table.files} files listed, {table.added} new, {table.removed} gone")
    click.echo(f"{directory} holds {done.rows} events, {output.size(done.size)}, through position {done.through}")


def _registered(directory: str, kind: str) -> RegisterResult:
    from tallystick.pipeline.archive.registration import register

    return register(directory, kind)

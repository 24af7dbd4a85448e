"""`tally pipeline archive` and `compact`: a log in Parquet files."""

from __future__ import annotations

import click
import msgspec

from tallystick.cli import options, output, pipeline
from tallystick.cli.verify import show_problems

_BUCKET = click.option(
    "--bucket",
    "bucket_events",
    metavar="N",
    type=click.IntRange(min=1),
    default=500_000,
    show_default=True,
    help="At most this many positions per file.",
)
_GRACE = click.option(
    "--grace",
    "grace_seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=3600,
    show_default=True,
    help="How long to keep files that are no longer part of the archive.",
)


@click.command("archive", short_help="Add new events to an archive of Parquet files.")
@options.url
@click.argument("directory", metavar="DIR", type=options.LOCATION)
@click.option("--until", metavar="POSITION", type=click.IntRange(min=0), help="Archive up to this position.")
@_BUCKET
@_GRACE
@click.option(
    "--register",
    "formats",
    type=click.Choice(("delta", "iceberg")),
    multiple=True,
    help="Also register the files as a table of this format.",
)
@pipeline.spark
@options.as_json
def archive(
    url: str,
    directory: str,
    until: int | None,
    bucket_events: int,
    grace_seconds: float,
    formats: tuple[str, ...],
    spark: pipeline.Spark,
    as_json: bool,
) -> None:
    """Add every event up to the safe head that the archive does not have, and remove payloads that were erased.

    The manifest is replaced in one step. If the job is killed, the archive is unchanged, and the next run continues.
    """
    with pipeline.job(spark, "archiving") as (session, show):
        from tallystick.pipeline.archive.registration import register
        from tallystick.pipeline.jobs.archive import archive

        done = archive(
            session, url, directory, until=until, bucket_events=bucket_events, grace_seconds=grace_seconds, show=show
        )
        tables = [register(directory, kind) for kind in formats]
    if as_json:
        output.document(done)
        return
    erased = f", {done.erased} erased payloads removed" if done.erased else ""
    click.echo(f"archived {done.events} events in {done.buckets} buckets{erased}")
    for table in tables:
        click.echo(f"{table.format}: {table.files} files registered, {table.added} new, {table.removed} removed")
    click.echo(f"{directory} holds {done.rows} events, {output.size(done.size)}, through position {done.through}")


@click.command("compact", short_help="Merge small files of an archive.")
@click.argument("directory", metavar="DIR", type=options.LOCATION)
@_BUCKET
@_GRACE
@pipeline.spark
@options.as_json
def compact(directory: str, bucket_events: int, grace_seconds: float, spark: pipeline.Spark, as_json: bool) -> int:
    """Merge neighbouring buckets of the archive in DIR. A file that was changed since it was archived is refused.

    If different events have the same id, they are listed, and their buckets are not merged: exit status 1.
    """
    with pipeline.job(spark, "compacting") as (session, show):
        from tallystick.pipeline.jobs.compact import compact

        done = compact(session, directory, bucket_events=bucket_events, grace_seconds=grace_seconds, show=show)

    def show_done() -> None:
        if done.problems:
            show_problems(done.problems)
        click.echo(f"{done.buckets_before} buckets became {done.buckets_after}")
        click.echo(f"{output.size(done.size_before)} became {output.size(done.size_after)}")

    return output.answer(done.ok, {"ok": done.ok} | msgspec.to_builtins(done), show_done, as_json=as_json)

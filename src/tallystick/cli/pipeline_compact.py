"""`tally pipeline compact`: fewer, larger files in an archive."""

from __future__ import annotations

import click
import msgspec

from tallystick.cli import failures, options, output, places, progress, spark
from tallystick.cli.verify import show_problems


@click.command("compact", short_help="Merge small files of an archive.")
@click.argument("directory", metavar="DIR", type=places.PLACE)
@click.option(
    "--bucket",
    "bucket_events",
    metavar="N",
    type=click.IntRange(min=1),
    default=500_000,
    show_default=True,
    help="Positions a file at most.",
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
@spark.master
@spark.memory
@options.as_json
def command(directory: str, bucket_events: int, grace_seconds: float, master: str, memory: str, as_json: bool) -> int:
    """Merge neighbouring buckets of the archive in DIR. A file that is not as it was archived is refused.

    Ids that stand for different events are listed, and their buckets stay as they are: exit status 1.
    """
    with spark.session(master, memory=memory) as session, progress.tasks("compacting") as show:
        from tallystick.pipeline.jobs.compact import compact

        done = compact(session, directory, bucket_events=bucket_events, grace_seconds=grace_seconds, show=show)
    status = failures.decide(failures.DONE if done.ok else failures.NO)
    if as_json:
        output.document({"ok": done.ok} | msgspec.to_builtins(done))
        return status
    if done.problems:
        show_problems(done.problems)
    click.echo(f"{done.buckets_before} buckets became {done.buckets_after}")
    click.echo(f"{output.size(done.size_before)} became {output.size(done.size_after)}")
    return status

"""`tally pipeline verify`: is everything in the log and its archive what it claims to be?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from tallystick.cli import failures, options, output, progress, spark
from tallystick.cli.verify import show_problems

if TYPE_CHECKING:
    from tallystick.pipeline.jobs.verify import VerifyResult


@click.command("verify", short_help="Check every event on Spark.")
@options.url
@spark.archive
@spark.master
@spark.memory
@options.as_json
def command(url: str, archive_directory: str | None, master: str, memory: str, as_json: bool) -> int:
    """Check checksums, sequences, links, fingerprints, erasures and heads of the whole log, and list what is wrong.

    With --archive, its files, its rows and the log are held against each other. Exit status 0 if nothing is wrong, 1
    otherwise.
    """
    with spark.session(master, memory=memory) as session, progress.tasks("verifying") as show:
        from tallystick.pipeline.jobs.verify import verify

        found = verify(session, url, archive_directory, show=show)
    status = failures.decide(failures.DONE if found.ok else failures.NO)
    if as_json:
        from tallystick.store.stating import shown

        output.document({"ok": found.ok, "url": shown(url)} | msgspec.to_builtins(found))
    else:
        _show(found)
    return status


def _show(found: VerifyResult) -> None:
    if found.problems:
        show_problems(found.problems)
        more = " or more" if found.truncated else ""
        click.echo(f"{len(found.problems)}{more} wrong in {found.events} events")
    else:
        erased = f", {found.erased} of them erased" if found.erased else ""
        pruned = f", {found.pruned} pruned from the log" if found.pruned else ""
        click.echo(f"ok: {found.events} events{erased} in {found.streams} streams{pruned}, head {found.until}")
    for text in found.unsure:
        output.note(f"not looked at: {text}")

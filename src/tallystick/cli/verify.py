"""`tally verify`: is everything in the store what it claims to be?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import failures, options, output, progress

if TYPE_CHECKING:
    from tallystick.store.events import Problem


@click.command("verify", short_help="Check every event and every structure.")
@options.url
@options.as_json
def command(url: str, as_json: bool) -> int:
    """Check every frame, checksum, sequence and link, and list each thing that is wrong.

    Exit status 0 if nothing is, 1 otherwise.
    """
    from tallystick.store.verify import verify

    with options.open_reading(url) as store:
        total = store.head()
        with progress.bar("verifying", total=total) as move:
            found = verify(store.log, progress=move)
        status = failures.decide(failures.DONE if found.ok else failures.NO)
        answer = {
            "ok": found.ok,
            "url": url,
            "store_id": store.log.store_id.hex(),
            "events": found.events,
            "streams": found.streams,
            "erased": found.erased,
            "head": found.head,
            "truncated": found.truncated,
        }
    if as_json:
        output.document(answer | {"problems": found.problems})
    else:
        _show(answer, found.problems)
    return status


def _show(answer: dict[str, Any], problems: list[Problem]) -> None:
    if problems:
        show_problems(problems)
        more = " or more" if answer["truncated"] else ""
        click.echo(f"{len(problems)}{more} wrong in {answer['events']} events of {answer['streams']} streams")
        return
    erased = f", {answer['erased']} of them erased" if answer["erased"] else ""
    click.echo(f"ok: {answer['events']} events{erased} in {answer['streams']} streams, head {answer['head']}")


def show_problems(problems: list[Problem] | tuple[Problem, ...]) -> None:
    """A table of what is wrong and where."""
    output.table(
        ("position", "stream", "seq", "what", "reason"),
        ((item.position or "", item.stream, item.seq or "", item.what, item.reason) for item in problems),
    )

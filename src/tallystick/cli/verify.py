"""`tally verify`: check everything in a store, and how problems are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import code, options, output, progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized

    from tallystick.store.events import Problem
    from tallystick.store.page import Hole


@click.command("verify", short_help="Check every event and every structure.")
@options.url
@code.reducers
@code.catalog
@options.as_json
def command(url: str, references: tuple[str, ...], catalog_reference: str | None, as_json: bool) -> int:
    """Check every frame, checksum, sequence, link, snapshot and control fact, and list every problem.

    With --reducer, the snapshots and fingerprints of that reducer are also compared with a replay, with each other, and
    with the reducer's invariants. In the log of a community, signatures are checked too. Exit status 0 if nothing is
    wrong, 1 otherwise. Accepted losses are listed, but are not problems.

    Damage is recorded in the store: appends are refused until `tally doctor --repair` has verified the whole store.
    Problems that reducers or signatures show, and those of projections, consumers and dead letters, are reported but
    not recorded.
    """
    from tallystick.store.urls import redacted

    chosen = code.load_reducers(references)
    with code.open_store(url, catalog_reference, readonly=True) as store:
        total = store.head()
        with progress.parts({"verifying": total, "signatures": total}) as move:
            found = store.verify(reducers=chosen, progress=move)
        for line in found.unchecked:
            click.echo(f"not checked: {line}", err=True)
        answer = {
            "ok": found.ok,
            "url": redacted(url),
            "store_id": store.log.store_id.hex(),
            "events": found.events,
            "streams": found.streams,
            "erased": found.erased,
            "pruned": found.pruned,
            "snapshots": found.snapshots,
            "head": found.head,
            "truncated": found.truncated,
            "unrecorded": found.unrecorded,
            "accepted": found.accepted,
        }
    document = answer | {"problems": found.problems}
    return output.answer(found.ok, document, lambda: _show(answer, found.problems), as_json=as_json)


def _show(answer: dict[str, Any], problems: list[Problem]) -> None:
    show_accepted(answer["accepted"])
    if problems:
        show_problems(problems)
        count = counted(problems, answer["truncated"])
        click.echo(f"{count} in {answer['events']} events of {answer['streams']} streams")
        show_unrecorded(answer["unrecorded"])
        return
    erased = f", {answer['erased']} of them erased" if answer["erased"] else ""
    pruned = f", {answer['pruned']} pruned" if answer["pruned"] else ""
    snapshots = f", {answer['snapshots']} snapshots" if answer["snapshots"] else ""
    events = f"{answer['events']} events{erased} in {answer['streams']} streams{pruned}{snapshots}"
    click.echo(f"ok: {events}, head {answer['head']}")


def show_unrecorded(reason: str) -> None:
    """Print why damage could not be recorded, so that nobody relies on appends being refused."""
    if reason:
        click.echo("not recorded, so appends are not refused: " + output.printable(reason), err=True)


def counted(problems: Sized, truncated: bool) -> str:
    """How many problems were found; the list is truncated if there may be more."""
    number = len(problems)
    return f"{number}{' or more' if truncated else ''} problem{'s' if number != 1 or truncated else ''}"


def show_problems(problems: list[Problem] | tuple[Problem, ...]) -> None:
    """Print a table of problems, and what to do about each kind."""
    from tallystick.store import reasons

    output.table(
        ("position", "stream", "seq", "what", "reason"),
        ((item.position or "", item.stream, item.seq or "", item.what, item.reason) for item in problems),
    )
    for what, advice in reasons.advice_for(problems).items():
        click.echo(f"{what}: {advice}")


def show_accepted(holes: Iterable[Hole]) -> None:
    """Print the losses that were accepted before."""
    for hole in holes:
        click.echo(f"accepted loss: positions {hole.first} to {hole.last}: " + output.printable(hole.reason))

"""`tally verify`: is everything in the store what it claims to be?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import code, failures, losses, options, output, progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallystick.store.events import Problem
    from tallystick.store.store import Store


@click.command("verify", short_help="Check every event and every structure.")
@options.url
@code.reducers
@code.catalog
@options.as_json
def command(url: str, references: tuple[str, ...], catalog_reference: str | None, as_json: bool) -> int:
    """Check every frame, checksum, sequence, link, snapshot and control fact, and list each thing that is wrong.

    With --reducer, snapshots and fingerprints of that reducer are also compared with a replay, with each other, and
    with the reducer's invariants. The log of a community has its signatures checked too. Exit status 0 if nothing is
    wrong, 1 otherwise. Losses that were accepted are listed; they are nothing wrong.

    Damage that is found goes on record in the store: appends are refused until `tally doctor --repair` finds everything
    sound. What the reducers and signatures show, and what is wrong with rows of projections, places of consumers and
    dead letters, is reported and not put on record.
    """
    from tallystick.state import validation
    from tallystick.store.kept_check import problems_beside
    from tallystick.store.stating import shown
    from tallystick.store.verify import verify

    chosen = code.load_reducers(references)
    with code.open_store(url, catalog_reference, readonly=True) as store:
        total = store.head()
        with progress.bar("verifying", total=total) as move:
            found = verify(store.log, progress=move)
        if chosen:
            with progress.bar("replaying", total=None) as move:
                for problem in validation.problems(store, chosen, progress=move):
                    found.add(problem)
        if store.profile.signed:
            for problem in _wrong_signatures(store, total):
                found.add(problem)
        for problem in problems_beside(store.log):
            found.add(problem)
        status = failures.decide(failures.DONE if found.ok else failures.NO)
        answer = {
            "ok": found.ok,
            "url": shown(url),
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
    if as_json:
        output.document(answer | {"problems": found.problems})
    else:
        _show(answer, found.problems)
    return status


def _wrong_signatures(store: Store, total: int) -> Iterator[Problem]:
    """What is wrong with the signatures of a community's log; where they cannot be checked, that is said."""
    try:
        from tallystick.community import signatures
    except ModuleNotFoundError as missing:
        hint = "pip install 'tallystick[community]'"
        click.echo(f"signatures were not checked: {missing.name} is not installed ({hint})", err=True)
        return
    with progress.bar("signatures", total=total) as move:
        yield from signatures.problems(store, progress=move)


def _show(answer: dict[str, Any], problems: list[Problem]) -> None:
    losses.show_accepted(answer["accepted"])
    if problems:
        show_problems(problems)
        more = " or more" if answer["truncated"] else ""
        click.echo(f"{len(problems)}{more} wrong in {answer['events']} events of {answer['streams']} streams")
        show_unrecorded(answer["unrecorded"])
        return
    erased = f", {answer['erased']} of them erased" if answer["erased"] else ""
    pruned = f", {answer['pruned']} pruned" if answer["pruned"] else ""
    snapshots = f", {answer['snapshots']} snapshots" if answer["snapshots"] else ""
    events = f"{answer['events']} events{erased} in {answer['streams']} streams{pruned}{snapshots}"
    click.echo(f"ok: {events}, head {answer['head']}")


def show_unrecorded(reason: str) -> None:
    """Say that what was found is not on record, so that nobody relies on appends being refused."""
    if reason:
        click.echo("not put on record, so appends are not refused: " + output.printable(reason), err=True)


def show_problems(problems: list[Problem] | tuple[Problem, ...]) -> None:
    """A table of what is wrong and where."""
    output.table(
        ("position", "stream", "seq", "what", "reason"),
        ((item.position or "", item.stream, item.seq or "", item.what, item.reason) for item in problems),
    )

"""`tally doctor`: how a store is, and what its last opening had to mend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tallystick.cli import failures, losses, options, output, progress
from tallystick.cli.verify import show_problems, show_unrecorded
from tallystick.store import iterate

if TYPE_CHECKING:
    from tallystick import Store
    from tallystick.store.events import Problem
    from tallystick.store.page import Hole
    from tallystick.store.refill import Refilled

PAGE = 10_000


@click.command("doctor", short_help="Show how a store is; mend what can be mended.")
@options.url
@click.option(
    "--repair",
    is_flag=True,
    help="Open for writing, so that recovery runs; it does only what loses nothing. Damage on record is cleared if the "
    "whole store is verified again and nothing is wrong.",
)
@options.refill_from(
    "--from",
    help="With --repair: refill what is damaged from this store (a URL) or export (a file). All is checked first.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Give up damaged ranges for good, if there is no copy to refill from. The bytes are kept, a control fact is "
    "recorded, and appends go on. Only a file log offers it.",
)
@click.option("--dry-run", is_flag=True, help="With --accept-loss: only show what would be lost.")
@click.option("--quick", is_flag=True, help="Show what is known already, without reading the log.")
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    url: str,
    repair: bool,
    refill_from: str | None,
    accept_loss: bool,
    dry_run: bool,
    quick: bool,
    as_json: bool,
) -> int:
    """Show the facts of a store: size, free space, index, locks, damaged ranges, and what recovery found and did.

    Without --repair the store is opened for reading only. Exit status 1 if something is wrong. `tally verify` checks
    the events themselves. Damage that is found goes on record, and appends are refused until it is settled.
    """
    import tallystick
    from tallystick.store.damage import problem_of, put_on_record
    from tallystick.store.side_check import side_problems

    is_given = context.get_parameter_source("refill_from") is ParameterSource.COMMANDLINE
    if is_given and not repair:
        raise click.UsageError("--refill-from goes with --repair")
    if (repair and accept_loss) or (dry_run and not accept_loss):
        raise click.UsageError("--accept-loss goes without --repair, and --dry-run with --accept-loss")
    accepted = tallystick.accept_loss(url, dry_run=dry_run) if accept_loss else None
    if accepted is not None and dry_run:
        output.document(accepted) if as_json else losses.show(accepted, dry_run=True)
        return failures.DONE
    refilled = _refill(url, refill_from) if refill_from is not None and repair else None
    with tallystick.open(url, readonly=not repair, create=False) as store:
        cleared, unrecorded = (_cleared(store), "") if repair else ([], "")
        report = store.report()
        problems, holes = list(report.problems), store.holes()
        if not quick:
            structures = _structures(store)
            holes += [hole for hole in _read_through(store) if hole not in holes]
            unrecorded = put_on_record(store.log.damage, [*structures, *map(problem_of, holes)])
            problems += [problem for problem in structures if problem not in problems]
            problems += side_problems(store.log)
        found = _facts(store) | {
            "ok": not problems and not holes,
            "repair": repair,
            "facts": report.facts,
            "recovered": report.recovered,
            "refilled": refilled,
            "accepted": accepted,
            "losses": [loss.hole for loss in store.log.losses()],
            "cleared": cleared,
            "unrecorded": unrecorded,
            "holes": holes,
            "problems": problems,
        }
    status = failures.decide(failures.DONE if found["ok"] else failures.NO)
    if as_json:
        output.document(found)
    else:
        _show(found)
    return status


def _refill(url: str, source: str) -> Refilled:
    """Take what is damaged from another store or from an export."""
    import tallystick

    with progress.bar("comparing", total=None) as move:
        return tallystick.refill(url, source, progress=move)


def _cleared(store: Store) -> list[Problem]:
    """What was on record and is settled, because the whole store was verified again and nothing is wrong."""
    from tallystick.store.repair import repair

    known = store.log.damage.known()
    if not known or store.holes():
        return []
    with progress.bar("verifying", total=store.head()) as move:
        repair(store, progress=move)
    left = store.log.damage.known()
    return [problem for problem in known if problem not in left]


def _facts(store: Store) -> dict[str, Any]:
    return {
        "url": store.log.url,
        "engine": store.log.engine,
        "store_id": store.log.store_id.hex(),
        "profile": store.profile.name,
        "settings": store.settings,
        "head": store.head(),
        "floor": store.floor(),
    }


def _structures(store: Store) -> list[Problem]:
    """What is wrong with the engine's own structures."""
    with progress.bar("checking", total=None) as move:
        return list(store.log.check(move))


def _read_through(store: Store) -> list[Hole]:
    """The holes that are met when the log is read from end to end."""
    holes: list[Hole] = []
    with progress.bar("reading", total=store.head()) as move:
        for page in iterate.pages(store.log, limit=PAGE, over_holes=True, over_pruned=True):
            holes += [hole for hole in page.holes if not hole.accepted]
            move(page.through)
    return holes


def _show(found: dict[str, Any]) -> None:
    named = {key: found[key] for key in ("url", "engine", "store_id", "profile", "head", "floor")}
    settings = {f"setting {key}": value for key, value in found["settings"].items()}
    facts = {**named, **settings, **found["facts"]}
    output.facts((name.replace("_", " "), _value(name, value)) for name, value in facts.items())
    for deed in found["recovered"]:
        click.echo("recovery: " + output.printable(deed))
    if found["refilled"] is not None:
        _show_refilled(found["refilled"])
    if found["accepted"] is not None:
        losses.show(found["accepted"], dry_run=False)
    losses.show_accepted(found["losses"])
    if found["cleared"]:
        click.echo(f"cleared: {len(found['cleared'])} on record as damaged; all was verified again, nothing is wrong")
    for hole in found["holes"]:
        click.echo(f"damaged: positions {hole.first} to {hole.last}: " + output.printable(hole.reason))
    starts = {hole.first for hole in found["holes"]}
    if others := [problem for problem in found["problems"] if problem.position not in starts]:
        show_problems(others)
    show_unrecorded(found["unrecorded"])
    if found["ok"]:
        click.echo("nothing is wrong")
    elif not found["repair"]:
        click.echo("`tally doctor --repair` mends what can be mended without losing anything")


def _show_refilled(refilled: Refilled) -> None:
    for hole in refilled.ranges:
        click.echo(f"refilled: positions {hole.first} to {hole.last} from " + output.printable(refilled.source))
    for deed in refilled.done:
        click.echo("refilled: " + output.printable(deed))
    if not refilled.made:
        click.echo("refilled: nothing was damaged")


def _value(name: str, value: Any) -> Any:
    """A fact for people: sizes humanised, lists in a row."""
    if type(value) is int and name.endswith("bytes"):
        return output.size(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else value

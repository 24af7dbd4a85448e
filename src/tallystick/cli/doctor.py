"""`tally doctor` and `tally migrate`: the state of a store, its repair, and its upgrade."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tallystick.cli import failures, options, output, progress
from tallystick.cli.verify import show_accepted, show_problems, show_unrecorded
from tallystick.store import iterate

if TYPE_CHECKING:
    from tallystick import Store
    from tallystick.store.acceptance import Acceptance
    from tallystick.store.events import Problem
    from tallystick.store.page import Hole
    from tallystick.store.refill import Refilled

PAGE = 10_000
STREAMS_SHOWN = 20
FORMAT_FACTS = ("user_version", "format")


@click.command("doctor", short_help="Show the state of a store, and repair it if asked.")
@options.url
@click.option(
    "--repair",
    is_flag=True,
    help="Open for writing, so that recovery runs; it never removes data. If the whole store then verifies, the "
    "record of damage is cleared.",
)
@options.refill_from(
    "--from",
    help="With --repair: refill damaged ranges from this store (a URL) or export (a file), after checking all of it.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Give up damaged ranges permanently, if there is no copy to refill from. The damaged bytes are kept, a "
    "control fact is recorded, and appends work again. Only for a file log.",
)
@click.option("--dry-run", is_flag=True, help="With --accept-loss: only show what would be lost.")
@click.option("--quick", is_flag=True, help="Only show what is already known, without reading the log.")
@options.as_json
@click.pass_context
def doctor(
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

    Without --repair the store is opened read-only. Exit status 1 if something is wrong. `tally verify` checks the
    events themselves. Damage is recorded in the store, and appends are refused until it is repaired or accepted.
    """
    import tallystick
    from tallystick.store.damage import problem_of, put_on_record
    from tallystick.store.side_check import side_problems

    is_given = context.get_parameter_source("refill_from") is ParameterSource.COMMANDLINE
    if is_given and not repair:
        raise click.UsageError("--refill-from needs --repair.")
    if (repair and accept_loss) or (dry_run and not accept_loss):
        raise click.UsageError("--accept-loss cannot be used with --repair, and --dry-run needs --accept-loss.")
    accepted = tallystick.accept_loss(url, dry_run=dry_run) if accept_loss else None
    if accepted is not None and dry_run:
        output.document(accepted) if as_json else _show_losses(accepted, dry_run=True)
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
    return output.answer(found["ok"], found, lambda: _show(found), as_json=as_json)


def _refill(url: str, source: str) -> Refilled:
    """Refill damaged ranges from another store or from an export."""
    import tallystick

    with progress.bar("comparing", total=None) as move:
        return tallystick.refill(url, source, progress=move)


def _cleared(store: Store) -> list[Problem]:
    """The damage that was on record and was cleared, because the whole store was verified and nothing is wrong."""
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
    """The problems of the engine's own structures."""
    with progress.bar("checking", total=None) as move:
        return list(store.log.check(move))


def _read_through(store: Store) -> list[Hole]:
    """The damaged ranges that a read of the whole log meets."""
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
    output.facts({name.replace("_", " "): _value(name, value) for name, value in facts.items()})
    for text in found["recovered"]:
        click.echo("recovery: " + output.printable(text))
    if found["refilled"] is not None:
        _show_refilled(found["refilled"])
    if found["accepted"] is not None:
        _show_losses(found["accepted"], dry_run=False)
    show_accepted(found["losses"])
    if found["cleared"]:
        click.echo(f"cleared: {len(found['cleared'])} records of damage; the whole store was verified again")
    for hole in found["holes"]:
        click.echo(f"damaged: positions {hole.first} to {hole.last}: " + output.printable(hole.reason))
    starts = {hole.first for hole in found["holes"]}
    if others := [problem for problem in found["problems"] if problem.position not in starts]:
        show_problems(others)
    show_unrecorded(found["unrecorded"])
    if found["ok"]:
        click.echo("nothing is wrong")
    elif not found["repair"]:
        click.echo("`tally doctor --repair` repairs everything that can be repaired without losing data")


def _show_refilled(refilled: Refilled) -> None:
    for hole in refilled.ranges:
        click.echo(f"refilled: positions {hole.first} to {hole.last} from " + output.printable(refilled.source))
    for text in refilled.done:
        click.echo("refilled: " + output.printable(text))
    if not refilled.made:
        click.echo("refilled: nothing was damaged")


def _value(name: str, value: Any) -> Any:
    """A fact as people read it: sizes with units, lists with commas."""
    if type(value) is int and name.endswith("bytes"):
        return output.size(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else value


def _show_losses(accepted: Acceptance, *, dry_run: bool) -> None:
    """Print which positions and seqs are lost, what is unknown, and where the damaged bytes are."""
    verb = "would be lost" if dry_run else "lost"
    for loss in accepted.losses:
        known = "an index knows its streams" if loss.is_indexed else "no index of it is left"
        click.echo(f"{verb}: positions {loss.first} to {loss.last} ({loss.count}); {known}")
    for lost in accepted.streams[:STREAMS_SHOWN]:
        click.echo(f"{verb}: {lost.stream} seq {lost.first} to {lost.last}")
    _more(len(accepted.streams))
    for name in accepted.uncertain[:STREAMS_SHOWN]:
        click.echo(f"{name} may have lost events at its end; new events get a seq above any that may have been used")
    _more(len(accepted.uncertain))
    if any(not loss.is_indexed for loss in accepted.losses):
        click.echo("a stream that lost all its events may start again at seq 1: its name is unknown")
    for kept in accepted.kept:
        click.echo(f"kept: {kept.file}, sha256 {kept.sha256}")
    if not accepted.losses:
        click.echo("no event is lost: there is nothing to accept")


def _more(count: int) -> None:
    if count > STREAMS_SHOWN:
        click.echo(f"and {count - STREAMS_SHOWN} more streams")


# --- migrate ---------------------------------------------------------------------------------------------------------


@click.command("migrate", short_help="Upgrade a store written by an older version.")
@options.url
@options.profile
@options.as_json
def migrate(url: str, profile: str | None, as_json: bool) -> None:
    """Upgrade the store to the format of this version, and print the old and the new format. There is no way back.

    In a PostgreSQL database without a log, this creates one, with its roles. Run it as a role that may create roles.
    """
    import tallystick
    from tallystick.store.urls import redacted

    before = _format_before(url)
    with tallystick.open(url, create=_creates(url), profile=profile) as store:
        after, engine = _format(store), store.log.engine
    if as_json:
        output.document(
            {"url": redacted(url), "engine": engine, "from": before, "to": after, "migrated": before != after}
        )
    elif before != after:
        click.echo(f"migrated from format {before} to {after}")
    elif after is None:
        click.echo(f"nothing to do: the engine {engine} has only one format")
    else:
        click.echo(f"nothing to do: the store has format {after}")


def _format_before(url: str) -> Any:
    """The format on disk, which is not changed."""
    from tallystick import errors

    try:
        with options.open_reading(url) as store:
            return _format(store)
    except errors.OlderFormat as old:
        return old.found
    except errors.StoreNotFound:
        if not _creates(url):
            raise
        return 0


def _creates(url: str) -> bool:
    """Whether a migration creates the store: in PostgreSQL the role of a service cannot."""
    return url.partition(":")[0] in ("postgresql", "postgres")


def _format(store: Store) -> Any:
    facts = store.report().facts
    return next((facts[name] for name in FORMAT_FACTS if name in facts), None)

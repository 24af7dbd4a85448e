"""`tally deadletters`: what consumers could not handle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from tallystick.cli import modules, options, output, times
from tallystick.cli.project import open_beside_writer

if TYPE_CHECKING:
    from tallystick.store.deadletters import DeadLetter

LISTED_MAX = 100_000


@click.command("deadletters", short_help="Show, replay or drop what consumers could not handle.")
@options.url
@click.option("--consumer", metavar="NAME", help="Only letters of this consumer.")
@click.option("--replay", type=options.Position, metavar="POSITION", help="Handle the event there once more.")
@click.option("--handler", metavar="MODULE:NAME", help="What handles it: a function of one event.")
@click.option("--drop", type=options.Position, metavar="POSITION", help="Give up on the event there.")
@click.option("--recount", is_flag=True, help="Some vanished underneath: take those that are left for all there are.")
@modules.catalog
@options.as_json
def command(
    url: str,
    consumer: str | None,
    replay: int | None,
    handler: str | None,
    drop: int | None,
    recount: bool,
    catalog: str | None,
    as_json: bool,
) -> None:
    """List the events that consumers gave up on, with the reasons. The events themselves stay in the log.

    With --consumer and --replay, the handler gets the event once more; its letter goes if that goes well. With
    --consumer and --drop the letter goes. Letters are counted: if some are missing, nothing is listed until --recount
    has recorded that as a control fact.
    """
    if recount:
        if (consumer, replay, handler, drop) != (None, None, None, None):
            raise click.UsageError("--recount is about all letters: give it alone.")
        _recount(url, as_json=as_json)
        return
    if replay is None and drop is None and handler is None:
        _list(url, consumer, as_json=as_json)
        return
    if consumer is None or (replay is None) == (drop is None) or (replay is not None and handler is None):
        raise click.UsageError(
            "give --consumer, and either --drop POSITION or --replay POSITION --handler MODULE:NAME."
        )
    if drop is not None:
        _drop(url, consumer, drop, as_json=as_json)
    elif replay is not None and handler is not None:
        _replay(url, consumer, replay, handler, catalog, as_json=as_json)


def _list(url: str, consumer: str | None, *, as_json: bool) -> None:
    with options.open_reading(url) as store:
        rows = store.log.dead_letters.letters(consumer, limit=LISTED_MAX + 1)
    if len(rows) > LISTED_MAX:
        output.note(f"these are the first {LISTED_MAX:,}; there are more")
        del rows[LISTED_MAX:]
    if as_json:
        for letter in rows:
            output.document(msgspec.structs.asdict(letter))
        return
    output.table(("position", "consumer", "event", "type", "attempts", "parked", "reason"), map(_row, rows))


def _row(letter: DeadLetter) -> tuple[Any, ...]:
    event = f"{letter.stream}#{letter.seq}"
    parked = times.to_text(letter.parked)
    return (letter.position, letter.consumer, event, letter.type, letter.attempts, parked, letter.reason)


def _drop(url: str, consumer: str, position: int, *, as_json: bool) -> None:
    from tallystick.projections import drop_letter

    with open_beside_writer(url) as store:
        letter = drop_letter(store, consumer, position)
    _say("dropped", letter.consumer, letter.position, as_json=as_json)


def _recount(url: str, *, as_json: bool) -> None:
    import tallystick
    from tallystick.projections import recount_letters

    with tallystick.open(url, create=False) as store:
        fact = recount_letters(store, reason="tally deadletters --recount")
    if as_json:
        output.document(msgspec.structs.asdict(fact))
        return
    kept = "nobody knows how many" if fact.kept is None else f"{fact.kept}"
    click.echo(f"{kept} were counted, {fact.found} are left and are all there are from now on")


def _replay(url: str, consumer: str, position: int, reference: str, catalog: str | None, *, as_json: bool) -> None:
    from tallystick.projections import replay_letter
    from tallystick.projections.reference import named

    modules.look_here()
    handler = named(reference, what="handler")
    with open_beside_writer(url, catalog=catalog) as store:
        replay_letter(store, consumer, position, _blamed(handler, reference))
    _say("replayed", consumer, position, as_json=as_json)


def _blamed(handler: Any, reference: str) -> Any:
    """A handler whose exceptions are told as its own, not as ours."""
    from tallystick import errors
    from tallystick.projections.reasons import reason_of

    def handle(event: Any) -> None:
        try:
            handler(event)
        except errors.TallyError:
            raise
        except Exception as problem:
            reason = reason_of(problem)
            raise errors.HandlerFailed(handler=reference, position=event.position, reason=reason) from problem

    return handle


def _say(done: str, consumer: str, position: int, *, as_json: bool) -> None:
    if as_json:
        output.document({"done": done, "consumer": consumer, "position": position})
    else:
        click.echo(f"{done} the letter of {consumer} about position {position}")

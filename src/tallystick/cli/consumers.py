"""`tally consumers` and `tally deadletters`: the consumers of a log, and the events that they could not handle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from tallystick.cli import code, options, output, times
from tallystick.cli.projections import print_gauges, reason

if TYPE_CHECKING:
    from tallystick.store.deadletters import DeadLetter

LISTED_MAX = 100_000


@click.group("consumers", short_help="List, drop and reset the consumers of a store.")
def command() -> None:
    """List, drop and reset the consumers of a store: everyone who keeps a checkpoint in its log.

    Until it is dropped, a consumer prevents the pruning of events that it has not seen, even if nobody runs it.
    """


@command.command("list", short_help="List the consumers.")
@options.url
@options.as_json
def list_(url: str, as_json: bool) -> None:
    """List every consumer with a checkpoint in this store, how far it lags behind the log, and its dead letters."""
    print_gauges(url, "consumer", as_json=as_json)


@command.command("drop", short_help="Drop a consumer.")
@options.url
@click.argument("name", metavar="NAME")
@click.option("--letters", is_flag=True, help="Also drop its dead letters.")
@reason
@options.as_json
def drop(url: str, name: str, letters: bool, reason: str, as_json: bool) -> None:
    """Drop the checkpoint of a consumer. A control fact records it.

    A consumer with dead letters is refused without --letters. If a consumer with this name is started later, it begins
    with the first event. Stop the consumer first, or its checkpoint comes back.
    """
    from tallystick.projections import drop_consumer

    with code.open_store(url, readonly=False) as store:
        done = drop_consumer(store, name, letters=letters, reason=reason)
    letters_too = f", and {done.dead_letters} dead letters" if done.dead_letters else ""
    text = f"dropped consumer {done.name}, which was at position {done.position}{letters_too}"
    output.result(done, text, as_json=as_json)


@command.command("reset", short_help="Move a consumer to another position.")
@options.url
@click.argument("name", metavar="NAME")
@click.option(
    "--to",
    "position",
    type=options.Position,
    required=True,
    help="Continue after this position; 0 starts at the first event.",
)
@reason
@options.as_json
def reset(url: str, name: str, position: int, reason: str, as_json: bool) -> None:
    """Move a consumer to another position. A control fact records it.

    If it is moved back, it handles events a second time. If it is moved forward, it never sees the events between.
    Stop the consumer first: a running one uses the new position from its next batch on, or overwrites it.
    """
    from tallystick.projections import reset_consumer

    with code.open_store(url, readonly=False) as store:
        done = reset_consumer(store, name, position, reason=reason)
    text = f"consumer {done.name} continues after position {done.position}; it was at {done.before}"
    output.result(done, text, as_json=as_json)


# --- dead letters ----------------------------------------------------------------------------------------------------


@click.command("deadletters", short_help="List, replay or drop dead letters of consumers.")
@options.url
@click.option("--consumer", metavar="NAME", help="Only dead letters of this consumer.")
@click.option("--replay", type=options.Position, metavar="POSITION", help="Handle the event at this position again.")
@click.option("--handler", metavar="MODULE:NAME", help="The handler for --replay: a function of one event.")
@click.option("--drop", type=options.Position, metavar="POSITION", help="Drop the dead letter for this position.")
@click.option(
    "--recount",
    is_flag=True,
    help="Accept that dead letters are missing: from now on, count only those that are left.",
)
@code.catalog
@options.as_json
def deadletters(
    url: str,
    consumer: str | None,
    replay: int | None,
    handler: str | None,
    drop: int | None,
    recount: bool,
    catalog_reference: str | None,
    as_json: bool,
) -> None:
    """List the events that consumers gave up on, with the reasons. The events themselves stay in the log.

    With --consumer and --replay, call the handler with the event. If it succeeds, the dead letter is deleted. With
    --consumer and --drop, delete the dead letter. Dead letters are counted. If some are missing, nothing is listed
    until --recount has recorded the loss as a control fact.
    """
    if recount:
        if (consumer, replay, handler, drop) != (None, None, None, None):
            raise click.UsageError("--recount concerns all dead letters: use it without other options.")
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
        _replay(url, consumer, replay, handler, catalog_reference, as_json=as_json)


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

    with code.open_shared(url) as store:
        letter = drop_letter(store, consumer, position)
    _show_done("dropped", letter.consumer, letter.position, as_json=as_json)


def _recount(url: str, *, as_json: bool) -> None:
    import tallystick
    from tallystick.projections import recount_letters

    with tallystick.open(url, create=False) as store:
        fact = recount_letters(store, reason="tally deadletters --recount")
    kept = "an unknown number of" if fact.kept is None else f"{fact.kept}"
    text = f"{kept} dead letters were counted, and {fact.found} are left; from now on the count is {fact.found}"
    output.result(msgspec.structs.asdict(fact), text, as_json=as_json)


def _replay(
    url: str, consumer: str, position: int, reference: str, catalog_reference: str | None, *, as_json: bool
) -> None:
    from tallystick.projections import replay_letter
    from tallystick.projections.reference import named

    code.search_here()
    handler = named(reference, what="handler")
    with code.open_shared(url, catalog_reference) as store:
        replay_letter(store, consumer, position, _named(handler, reference))
    _show_done("replayed", consumer, position, as_json=as_json)


def _named(handler: Any, reference: str) -> Any:
    """The handler, with its exceptions reported as its own and not as ours."""
    from tallystick import errors

    def handle(event: Any) -> None:
        try:
            handler(event)
        except errors.TallyError:
            raise
        except Exception as problem:
            reason = errors.reason_of(problem)
            raise errors.HandlerFailed(handler=reference, position=event.position, reason=reason) from problem

    return handle


def _show_done(done: str, consumer: str, position: int, *, as_json: bool) -> None:
    document = {"done": done, "consumer": consumer, "position": position}
    output.result(document, f"{done} the dead letter of {consumer} for position {position}", as_json=as_json)

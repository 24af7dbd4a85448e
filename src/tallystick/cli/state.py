"""`tally state`: the state of a stream, now or at any earlier point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from tallystick.cli import code, options, output, times

if TYPE_CHECKING:
    from tallystick import Store
    from tallystick.state import Reducer, State, Until


@click.command("state", short_help="Show the state of a stream at any point.")
@options.url
@click.argument("stream", required=False, default="")
@code.reducers
@code.catalog
@click.option(
    "--at",
    metavar="SEQ|TIME",
    help="The state at this seq (position, for the whole store) or time (2026-01-31T12:00:00Z).",
)
@click.option("--no-snapshots", is_flag=True, help="Fold from the first event, without snapshots.")
@click.option("--degraded", is_flag=True, help="If the log is damaged, show the state before the damage.")
@click.option("--seal", is_flag=True, help="Seal the fingerprint of the stream at its last event.")
@options.as_json
def command(
    url: str,
    stream: str,
    references: tuple[str, ...],
    catalog_reference: str | None,
    at: str | None,
    no_snapshots: bool,
    degraded: bool,
    seal: bool,
    as_json: bool,
) -> int:
    """Fold a stream with a reducer and print the resulting state as JSON.

    Leave out STREAM for a reducer of scope "store", which folds the whole log. With a time, the fold stops before the
    first event that is later. Exit status 1 if damage stopped the fold early.
    """
    from tallystick import state

    chosen = code.load_reducers(references)
    if len(chosen) != 1:
        raise click.UsageError("give exactly one reducer with --reducer MODULE:NAME.")
    if seal and (at is not None or not stream):
        raise click.UsageError("--seal needs a STREAM, and cannot be used with --at.")
    with code.open_store(url, catalog_reference, readonly=not seal) as store:
        _require_stream(store, stream, degraded)
        sealed = state.seal(store, chosen[0], stream) if seal else None
        found = state.fold(
            store, chosen[0], stream, until=_until(at, stream), snapshots=not no_snapshots, degraded=degraded
        )
        answer = _answer(store, chosen[0], found) | ({"sealed": sealed.fingerprint} if sealed else {})

    def show() -> None:
        click.echo(msgspec.json.format(found.body, indent=2))
        output.note(_summary(answer))

    return output.answer(not found.damage, answer, show, as_json=as_json)


def _require_stream(store: Store, stream: str, degraded: bool) -> None:
    """Refuse a stream that does not exist. In a damaged log that may be unknown."""
    from tallystick import errors

    try:
        if stream and store.stream_head(stream) is None:
            raise errors.StreamNotFound(stream=stream, url=store.log.url)
    except errors.Damaged:
        if not degraded:
            raise


def _until(at: str | None, stream: str) -> Until:
    from tallystick.state import Until

    if at is None:
        return Until()
    if at.isascii() and at.isdigit():
        return Until(seq=int(at)) if stream else Until(position=int(at))
    return Until(time=times.option(at))


def _answer(store: Store, reducer: Reducer, found: State) -> dict[str, Any]:
    return {
        "stream": found.stream,
        "seq": found.seq,
        "position": found.position,
        "link": found.link.hex(),
        "reducer": reducer.name,
        "reducer_version": reducer.version,
        "state": msgspec.Raw(found.body),
        "state_hash": found.hash.hex(),
        "snapshot": found.snapshot.hex() if found.snapshot is not None else None,
        "events_folded": found.events,
        "damage": found.damage,
    }


def _summary(answer: dict[str, Any]) -> str:
    where = f"{answer['stream']} at seq {answer['seq']}" if answer["stream"] else f"the store at {answer['position']}"
    start = f"snapshot {answer['snapshot']} and " if answer["snapshot"] else ""
    text = f"{where}, position {answer['position']}, from {start}{answer['events_folded']} events"
    text += f"; sealed {answer['sealed']}" if "sealed" in answer else ""
    return text + (f"; {answer['damage']}" if answer["damage"] else "")

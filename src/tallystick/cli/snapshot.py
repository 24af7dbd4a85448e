"""`tally snapshot`: making, listing and protecting snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import code, failures, options, output, progress, times

if TYPE_CHECKING:
    from tallystick import Store
    from tallystick.state import Reducer, SnapshotEntry


@click.command("snapshot", short_help="Make snapshots of streams or of the whole store.")
@options.url
@click.argument("streams", nargs=-1, metavar="[STREAM]...")
@code.reducers
@code.catalog
@click.option("--protect", is_flag=True, help="Protect the new snapshots from retention.")
@click.option("--full", is_flag=True, help="Write the whole state, not the difference from the last snapshot.")
@click.option("--list", "listing", is_flag=True, help="List the snapshots, and make none.")
@click.option("--unprotect", metavar="ID", help="Remove the protection of one snapshot of the stream.")
@options.as_json
def command(
    url: str,
    streams: tuple[str, ...],
    references: tuple[str, ...],
    catalog_reference: str | None,
    protect: bool,
    full: bool,
    listing: bool,
    unprotect: str | None,
    as_json: bool,
) -> int:
    """Make a snapshot of each STREAM with each reducer that folds it. Without a STREAM, make a set of snapshots of the
    whole store, all at one position.

    A snapshot that already exists is not made again. Exit status 1 if a STREAM does not exist.
    """
    chosen = code.load_reducers(references)
    if not chosen and not listing and unprotect is None:
        raise click.UsageError("give at least one reducer with --reducer MODULE:NAME.")
    with code.open_store(url, catalog_reference, readonly=listing) as store:
        status = options.note_missing(store, streams) if unprotect is None else failures.DONE
        if unprotect is not None:
            _unprotect(store, streams, unprotect)
        elif listing:
            _show([entry for stream in streams or ("",) for entry in _listed(store, stream)], as_json=as_json)
        elif streams:
            _show(list(_made(store, streams, chosen, protect=protect, full=full)), as_json=as_json)
        else:
            _whole(store, chosen, protect=protect, as_json=as_json)
    return status


def _unprotect(store: Store, streams: tuple[str, ...], snapshot: str) -> None:
    from tallystick import state

    try:
        id_ = bytes.fromhex(snapshot)
    except ValueError:
        raise click.UsageError(
            f"{snapshot!r} is not the id of a snapshot: `tally snapshot URL STREAM --list` lists them."
        ) from None
    if len(streams) > 1:
        raise click.UsageError("give only the stream of the snapshot.")
    state.protect(store, streams[0] if streams else "", id_, protected=False)


def _listed(store: Store, stream: str) -> list[SnapshotEntry]:
    from tallystick import state

    return list(state.entries(store, stream))


def _made(store: Store, streams: tuple[str, ...], chosen: tuple[Reducer, ...], *, protect: bool, full: bool) -> Any:
    from tallystick import state

    with progress.bar("snapshots", total=len(streams)) as move:
        for done, stream in enumerate(streams, 1):
            folding = [item for item in chosen if item.scope == "stream" and item.wants(stream)]
            if not folding:
                raise click.UsageError(f"no reducer folds {stream!r}.")
            for item in folding:
                entry = state.make(store, item, stream, protect=protect, incremental=not full)
                if entry is not None:
                    yield entry
            move(done)


def _whole(store: Store, chosen: tuple[Reducer, ...], *, protect: bool, as_json: bool) -> None:
    from tallystick import state

    made = state.make_all(store, chosen, protect=protect)
    found = store.find(made)
    assert found is not None
    answer = {"set": made.hex(), "position": found.data["position"], "snapshots": len(found.data["snapshots"])}
    text = f"{answer['snapshots']} snapshots at position {answer['position']}: set {answer['set']}"
    output.result(answer, text, as_json=as_json)


def _show(entries: list[SnapshotEntry], *, as_json: bool) -> None:
    rows = [_row(entry) for entry in entries]
    if as_json:
        for row in rows:
            output.document(row)
        return
    headings = ("snapshot", "stream", "seq", "position", "reducer", "kind", "size", "made", "protected")
    output.table(headings, ([*row.values()] for row in rows))


def _row(entry: SnapshotEntry) -> dict[str, Any]:
    fact = entry.fact
    return {
        "snapshot": entry.id.hex(),
        "stream": fact.stream,
        "seq": fact.seq,
        "position": fact.position,
        "reducer": f"{fact.reducer} {fact.reducer_version}",
        "kind": fact.kind,
        "bytes": fact.body_bytes,
        "made": times.to_text(entry.made),
        "protected": entry.protected,
    }

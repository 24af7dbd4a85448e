"""`tally erase`: remove the payload of one event for good."""

from __future__ import annotations

import click
import msgspec

from tallystick.cli import code, options, output


@click.command("erase", short_help="Remove the payload of one event.")
@options.url
@click.argument("stream")
@click.argument("seq", type=click.IntRange(1))
@click.option("--reason", required=True, help="Why, for the audit trail. No personal data: this cannot be erased.")
@code.reducers
@code.catalog
@click.option("--accept", is_flag=True, help="Also if a state from before a cut is lost with its snapshot.")
@options.as_json
def command(
    url: str,
    stream: str,
    seq: int,
    reason: str,
    references: tuple[str, ...],
    catalog_reference: str | None,
    accept: bool,
    as_json: bool,
) -> None:
    """Erase a payload: envelope, checksum and link stay, so the chain still verifies and calls it erased.

    Snapshots that hold it are dropped, those of the named reducers made again, fingerprints sealed again, responses
    of commands dropped, all in one commit.
    """
    from tallystick import state

    chosen = code.load_reducers(references)
    with code.open_store(url, catalog_reference, readonly=False) as store:
        done = state.erase(store, stream, seq, reason=reason, reducers=chosen, accept=accept)
        reclaimed = store.log.reclaim(compress_before=None, progress=lambda amount: None)
    if as_json:
        output.document(msgspec.to_builtins(done) | {"reclaimed": reclaimed.done})
        return
    click.echo(
        f"erased seq {seq} of {stream}: {done.dropped} snapshots dropped, {done.made} made again, "
        f"{done.sealed} fingerprints sealed again, {done.responses} responses dropped"
    )
    for deed in reclaimed.done:
        click.echo(f"  {deed}")
    if not done.salted:
        output.note("the payload had no salt: a small one can be guessed from its checksum, which stays")

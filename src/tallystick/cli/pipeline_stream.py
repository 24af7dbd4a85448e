"""`tally pipeline stream`: a projection kept current by Structured Streaming."""

from __future__ import annotations

import click

from tallystick.cli import modules, options, output, places, spark


@click.command("stream", short_help="Keep a projection current by Structured Streaming.")
@options.url
@click.argument("reference", metavar="MODULE:NAME")
@click.option(
    "--checkpoint",
    metavar="DIR",
    required=True,
    type=places.PLACE,
    help="Where the query keeps its place.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on as events are appended, until Ctrl-C.")
@click.option(
    "--batch",
    "batch_events",
    metavar="N",
    type=click.IntRange(min=1),
    default=200_000,
    show_default=True,
    help="Positions a batch at most.",
)
@click.option(
    "--batch-bytes",
    metavar="N",
    type=click.IntRange(min=1),
    default=256 << 20,
    show_default=True,
    help="Bytes of events a batch at most; one event may have more.",
)
@modules.catalog
@spark.master
@spark.memory
@options.as_json
def command(
    url: str,
    reference: str,
    checkpoint: str,
    follow: bool,
    batch_events: int,
    batch_bytes: int,
    catalog: str | None,
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Apply every event that the rows have not seen, each exactly once, whatever is killed and started again."""
    import tallystick
    from tallystick.projections import ViewReader

    projection, known = modules.projection(reference), modules.loaded_catalog(catalog)
    with spark.session(master, memory=memory) as session:
        from tallystick.pipeline.jobs.stream import stream
        from tallystick.pipeline.spark.failures import clear

        with clear():
            bounds = {"batch_events": batch_events, "batch_bytes": batch_bytes}
            query = stream(session, url, projection, checkpoint, catalog=known, follow=follow, **bounds)
            try:
                query.awaitTermination()
            except KeyboardInterrupt:
                query.stop()
    with tallystick.open(url, readonly=True) as store:
        position = ViewReader(store, projection.name).position()
    answer = {"projection": projection.name, "position": position}
    if as_json:
        output.document(answer)
    else:
        output.facts(answer.items())

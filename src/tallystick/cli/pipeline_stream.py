"""`tally pipeline stream`: keeping a projection current with Structured Streaming."""

from __future__ import annotations

import click

from tallystick.cli import code, options, output, pipeline


@click.command("stream", short_help="Keep a projection current with Structured Streaming.")
@options.url
@click.argument("reference", metavar="MODULE:NAME")
@click.option(
    "--checkpoint",
    metavar="DIR",
    required=True,
    type=options.LOCATION,
    help="Where the query stores its own checkpoint.",
)
@options.follow
@click.option(
    "--batch",
    "batch_events",
    metavar="N",
    type=click.IntRange(min=1),
    default=200_000,
    show_default=True,
    help="At most this many positions per batch.",
)
@click.option(
    "--batch-bytes",
    metavar="N",
    type=click.IntRange(min=1),
    default=256 << 20,
    show_default=True,
    help="At most this many bytes of events per batch, but at least one event.",
)
@code.catalog
@pipeline.spark
@options.as_json
def command(
    url: str,
    reference: str,
    checkpoint: str,
    follow: bool,
    batch_events: int,
    batch_bytes: int,
    catalog_reference: str | None,
    spark: pipeline.Spark,
    as_json: bool,
) -> None:
    """Apply every event that the rows have not seen, each exactly once, even if the job is killed and started again."""
    import tallystick
    from tallystick.projections import ViewReader

    projection, catalog = code.load_projection(reference), code.load_catalog(catalog_reference)
    with pipeline.session(spark) as session:
        from tallystick.pipeline.jobs.stream import stream
        from tallystick.pipeline.spark.failures import clear

        with clear():
            bounds = {"batch_events": batch_events, "batch_bytes": batch_bytes}
            query = stream(session, url, projection, checkpoint, catalog=catalog, follow=follow, **bounds)
            try:
                query.awaitTermination()
            except KeyboardInterrupt:
                query.stop()
    with tallystick.open(url, readonly=True) as store:
        position = ViewReader(store, projection.name).position()
    output.facts({"projection": projection.name, "position": position}, as_json=as_json)

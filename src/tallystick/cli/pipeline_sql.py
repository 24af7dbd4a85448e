"""`tally pipeline sql`: a question to the log, in SQL."""

from __future__ import annotations

from typing import Any

import click

from tallystick.cli import options, output, progress, spark

ROWS_MAX = 1000


@click.command("sql", short_help="Ask the log in SQL.")
@options.url
@click.argument("query")
@spark.archive
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), default=ROWS_MAX, show_default=True, help="Rows at most."
)
@spark.master
@spark.memory
@options.as_json
def command(
    url: str, query: str, archive_directory: str | None, limit: int, master: str, memory: str, as_json: bool
) -> None:
    """Answer QUERY over the view `events`: the columns of events, `at`, `org`, and payload fields as data.NAME.

    Such as: select type, count(*), sum(data.cents) from events group by type
    """
    with spark.session(master, memory=memory) as session, progress.tasks("asking") as show:
        from tallystick.pipeline.jobs.query import sql
        from tallystick.pipeline.spark.failures import clear
        from tallystick.pipeline.spark.progress import watched

        with clear(), watched(session, "sql", show):
            answer = sql(session, url, query, archive_directory)
            rows = [row.asDict(recursive=True) for row in answer.limit(limit).collect()]
            names = answer.columns
    if as_json:
        for row in rows:
            output.document({name: _plain(value) for name, value in row.items()})
    else:
        output.table(names, ([_plain(row[name]) for name in names] for row in rows))


def _plain(value: Any) -> Any:
    return bytes(value).hex() if isinstance(value, (bytes, bytearray)) else value

"""Chapter: the log as a table of Spark: archived, verified, rebuilt and measured."""

from __future__ import annotations

import importlib.util
from typing import Any

import tallystick
from examples.demo.stage import Chapter, Stage, tally_command
from tallystick.projections import Projection, ViewReader
from tallystick.projections import rebuild as rebuild_in_process


class ToolUse(Projection):
    """How often each agent's run called a tool, and how often that failed."""

    name = "demo.tools"
    types = ("tool.called", "tool.returned")
    key = "stream"

    def initial(self) -> dict[str, Any]:
        """No calls yet."""
        return {"calls": 0, "failed": 0}

    def apply(self, used: dict[str, Any], event: Any) -> dict[str, Any]:
        """Count a call, or a failed answer."""
        if event.type == "tool.called":
            return used | {"calls": used["calls"] + 1}
        return used | {"failed": used["failed"] + (not event.data["ok"])}


def play(stage: Stage) -> bool:
    """Archive, verify, rebuild, measure growth. Without PySpark, say how to install it."""
    if not stage.options.spark:
        stage.say("skipped: --no-spark")
        return True
    if importlib.util.find_spec("pyspark") is None:
        stage.say("PySpark is not installed: pip install 'tallystick[spark]', and run the demo again.")
        return True
    from tallystick.pipeline import session

    with stage.console.status("starting Spark …"):
        spark = session("local[2]", memory="2g")
    try:
        return _play(stage, spark)
    finally:
        spark.stop()


def _play(stage: Stage, spark: Any) -> bool:
    from tallystick.pipeline.jobs.archive import archive
    from tallystick.pipeline.jobs.growth import growth
    from tallystick.pipeline.jobs.growth_page import write_page
    from tallystick.pipeline.jobs.verify import verify

    place = stage.options.directory / "archive"
    with stage.console.status("archiving, verifying, rebuilding …"):
        archived = archive(spark, stage.url, place)
        verified = verify(spark, stage.url, place)
        same, rows = _rebuilt(stage, spark)
        found = growth(spark, stage.url, place)
        page = write_page(found, stage.options.directory / "growth.html")
    mib = archived.size / (1 << 20)
    problems = len(verified.problems)
    stage.table(
        [
            ("archived", f"{archived.events:,}", f"events in {archived.buckets} Parquet files, {mib:,.1f} MiB"),
            ("verified", f"{verified.events:,}", f"events by Spark's own SHA-256, {problems} wrong"),
            (
                "rebuilt",
                f"{rows:,}",
                "rows of a projection, " + ("as in one process" if same else "NOT as in one process"),
            ),
            ("grows by", f"{found.events_a_day:,.0f}", "events a day, at this rate"),
        ]
    )
    stage.say(f"plots: {page}")
    command = f"{tally_command()} pipeline sql {stage.url} --archive {place}"
    stage.suggest(f'{command} "select type, count(*) from events group by type"', "ask the log in SQL")
    return verified.ok and same


def _rebuilt(stage: Stage, spark: Any) -> tuple[bool, int]:
    """Whether Spark and one process give the same rows, and how many."""
    from tallystick.pipeline.jobs.rebuild import rebuild

    with tallystick.open(stage.url) as store:
        rebuild_in_process(store, ToolUse())
        expected = ViewReader(store, ToolUse.name).fingerprint()
        rebuild(spark, store, ToolUse(), stage.options.directory / "archive")
        found = ViewReader(store, ToolUse.name).fingerprint()
    return found == expected, found.rows


CHAPTER = Chapter("The log on Spark", play)

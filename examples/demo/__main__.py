"""`python -m examples.demo [--events N] [--dir DIR] [--engine ENGINE]`: 0 if all is well, 1 if it is not."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.rule import Rule

from examples.demo import crash, life, pipeline, proof
from examples.demo.stage import Options, Stage, prepare
from tallystick import errors

CHAPTERS = (crash.CHAPTER, proof.CHAPTER, pipeline.CHAPTER, life.CHAPTER)
EVENTS = 200_000
EVENTS_MIN = 100


def main(arguments: Sequence[str] | None = None) -> int:
    """Play every chapter."""
    options = _options(arguments)
    console = Console()
    started = time.perf_counter()
    try:
        prepare(options.directory)
        stage = Stage(options, console)
        console.print(f"\n[bold]Tallystick[/]: {options.events:,} events into [cyan]{stage.url}[/]", highlight=False)
        outcomes = [_play(stage, number) for number in range(len(CHAPTERS))]
    except errors.TallyError as problem:
        console.print(f"\nThe demo stopped: {problem}", style="red", highlight=False)
        return 2
    good = all(outcomes)
    _close(stage, good, time.perf_counter() - started)
    return 0 if good else 1


def _play(stage: Stage, number: int) -> bool:
    chapter = CHAPTERS[number]
    stage.console.print()
    stage.console.print(Rule(f"[bold]{number + 1}. {chapter.title}[/]", align="left", style="dim"))
    return chapter.play(stage)


def _close(stage: Stage, good: bool, seconds: float) -> None:
    console = stage.console
    console.print()
    if good:
        console.print(f"[bold green]All is well[/], after {seconds:,.0f} s. Try next:", highlight=False)
    else:
        console.print(f"[bold red]Something is wrong[/], after {seconds:,.0f} s. Look closer:", highlight=False)
    if stage.options.engine == "postgres":
        console.print(f"  the server has stopped; its data is in {stage.options.directory}/server\n", highlight=False)
        return
    width = max(len(command) for command, _ in stage.commands)
    for command, purpose in stage.commands:
        console.print(f"  [cyan]{command:<{width}}[/]  [dim]{purpose}[/]", highlight=False, soft_wrap=True)
    console.print()


def _options(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description="A writer is killed; nothing is lost.")
    parser.add_argument("--events", type=int, default=EVENTS, help=f"how many events (default {EVENTS:,})")
    parser.add_argument(
        "--dir", type=Path, default=Path("demo-data"), help="where to put the store (default demo-data)"
    )
    parser.add_argument("--engine", choices=("files", "sqlite", "postgres"), default="files")
    parser.add_argument("--seed", type=int, default=1, help="a different seed gives different events")
    parser.add_argument("--no-spark", action="store_true", help="skip the chapter on Spark, which takes the longest")
    parser.add_argument("--pretend", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.events < EVENTS_MIN:
        parser.error(f"--events must be at least {EVENTS_MIN}")
    return Options(
        events=given.events,
        directory=given.dir,
        engine=given.engine,
        seed=given.seed,
        pretend=given.pretend,
        spark=not given.no_spark,
    )


if __name__ == "__main__":
    sys.exit(main())

"""Progress bars on stderr. If stderr is not a terminal, nothing is shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

Move = Callable[[int], None]


@contextmanager
def bar(title: str, *, total: int | None, in_bytes: bool = False, shown: bool = True) -> Iterator[Move]:
    """A bar, and a function that takes how much is done so far. `total` None: unknown."""
    if not shown or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, completed=done)


@contextmanager
def parts(totals: Mapping[str, int | None]) -> Iterator[Callable[[str, int], None]]:
    """A bar for each part of an operation, and a function that takes the part and how much of it is done."""
    bars: dict[str, Move] = {}
    with ExitStack() as stack:

        def move(part: str, done: int) -> None:
            if part not in bars:
                stack.close()  # the previous part is done
                bars[part] = stack.enter_context(bar(part, total=totals.get(part)))
            bars[part](done)

        yield move


@contextmanager
def tasks(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar whose total changes, and a function that takes how many tasks are done, and the total."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("tasks"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)

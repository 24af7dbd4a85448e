"""The checks of `tally verify` on the tables themselves, and the facts that `tally doctor` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tallystick.engines.postgres.connections import ReadConnections
from tallystick.store.events import Problem

STUCK_S = 10.0
_CHECKS = (
    "check_schema",
    "check_heads",
    "check_orders",
    "check_scopes",
    "check_sequence",
    "check_cuts",
    "check_erasures",
    "check_snapshots",
    "check_tags",
)


def check(connections: ReadConnections, progress: Callable[[int], None]) -> Iterator[Problem]:
    """What is wrong with the schema, and where its tables contradict each other."""
    for done, name in enumerate(_CHECKS):
        progress(done)
        for what, reason, position, stream, seq in connections.rows(name):
            yield Problem(what, reason, position, stream, seq)


def report(connections: ReadConnections) -> tuple[dict[str, Any], list[Problem]]:
    """Sizes, growth, versions, and who appends. An append that hangs is a problem, and so is a foreign lock."""
    names, values = zip(*connections.rows("describe"), strict=True)
    facts: dict[str, Any] = {name: _fact(value) for name, value in zip(names, values, strict=True)}
    held = [_Holder(*row) for row in connections.rows("list_appenders")]
    facts["appending"] = [str(each) for each in held if each.is_appender]
    stuck = [each for each in held if each.is_appender and (each.seconds or 0) >= STUCK_S]
    foreign = [each for each in held if not each.is_appender]
    return facts, [
        *(Problem("stuck appender", str(each)) for each in stuck),
        *(Problem("foreign lock", f"{each} holds a lock of the log") for each in foreign),
    ]


def _fact(value: str | None) -> str | int | None:
    return int(value) if value is not None and value.lstrip("-").isdecimal() else value


class _Holder(NamedTuple):
    """A session or prepared transaction that holds a lock of the log."""

    pid: int | None
    application: str | None
    state: str | None
    seconds: float | None
    login: str | None
    is_appender: bool

    def __str__(self) -> str:
        since = "" if self.seconds is None else f", {self.seconds:.0f} s in its transaction"
        what = "a prepared transaction" if self.pid is None else f"server process {self.pid}"
        by = f"login {self.login or 'not known'}"
        return f"{what} ({self.application or 'no name'}, {by}, {self.state or 'state not shown'}{since})"

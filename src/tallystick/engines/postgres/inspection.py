"""What `tally verify` checks of the tables themselves, and what `tally doctor` shows of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tallystick.engines.postgres.connections import Reading
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
)


def check(connections: Reading, progress: Callable[[int], None]) -> Iterator[Problem]:
    """Everything that is wrong with the schema, and with what its tables say of each other."""
    for done, name in enumerate(_CHECKS):
        progress(done)
        for what, reason, position, stream, seq in connections.rows(name):
            yield Problem(what, reason, position, stream, seq)


def report(connections: Reading) -> tuple[dict[str, Any], list[Problem]]:
    """Sizes, growth, versions, and who is appending; an append that hangs is a problem with a name."""
    names, values = zip(*connections.rows("describe"), strict=True)
    facts: dict[str, Any] = {name: _fact(value) for name, value in zip(names, values, strict=True)}
    appenders = connections.rows("list_appenders")
    facts["appending"] = [_who(*row) for row in appenders]
    stuck = [Problem("stuck appender", _who(*row)) for row in appenders if (row[3] or 0) >= STUCK_S]
    return facts, stuck


def _fact(value: str | None) -> str | int | None:
    return int(value) if value is not None and value.lstrip("-").isdecimal() else value


def _who(pid: int, application: str | None, state: str | None, seconds: float | None) -> str:
    since = "" if seconds is None else f", {seconds:.0f} s in its transaction"
    return f"server process {pid} ({application or 'no name'}, {state or 'state not shown'}{since})"

"""What `tally verify` checks of the tables themselves, and what `tally doctor` shows of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

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
)


def check(connections: ReadConnections, progress: Callable[[int], None]) -> Iterator[Problem]:
    """Everything that is wrong with the schema, and with what its tables say of each other."""
    for done, name in enumerate(_CHECKS):
        progress(done)
        for what, reason, position, stream, seq in connections.rows(name):
            yield Problem(what, reason, position, stream, seq)


def report(connections: ReadConnections) -> tuple[dict[str, Any], list[Problem]]:
    """Sizes, growth, versions, and who is appending; an append that hangs is a problem with a name."""
    names, values = zip(*connections.rows("describe"), strict=True)
    facts: dict[str, Any] = {name: _fact(value) for name, value in zip(names, values, strict=True)}
    held = connections.rows("list_appenders")
    appenders = [_who(*row) for row in held if row[-1]]
    stuck = [Problem("stuck appender", _who(*row)) for row in held if row[-1] and (row[3] or 0) >= STUCK_S]
    foreign = [Problem("foreign lock", f"{_who(*row)} holds a lock of the log") for row in held if not row[-1]]
    facts["appending"] = appenders
    return facts, stuck + foreign


def _fact(value: str | None) -> str | int | None:
    return int(value) if value is not None and value.lstrip("-").isdecimal() else value


def _who(
    pid: int | None, application: str | None, state: str | None, seconds: float | None, login: str | None, ours: bool
) -> str:
    since = "" if seconds is None else f", {seconds:.0f} s in its transaction"
    what = "a prepared transaction" if pid is None else f"server process {pid}"
    by = f"login {login or 'not known'}"
    return f"{what} ({application or 'no name'}, {by}, {state or 'state not shown'}{since})"

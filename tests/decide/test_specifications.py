"""The test kit for deciders and projections: it accepts what holds, and shows the difference to what does not."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, field_serializer

from tallystick import Catalog, Event, NewEvent, errors
from tallystick.decide import Decider
from tallystick.projections import Projection, TableProjection
from tallystick.testing.bank import Account, Deposited, Opened, Overdrawn, Withdrawn, catalog
from tallystick.testing.projections import Scenario
from tallystick.testing.specification import Specification

account = Specification(Account, catalog=catalog)
rich = account.given(Opened(owner="Ada"), Deposited(amount=5))


def test_events_that_follow() -> None:
    """TAG-06: one, several and none; each specification begins again."""
    rich.when(Account.withdraw, amount=3).then(Withdrawn(amount=3))
    rich.when(Account.withdraw, 5).then(Withdrawn(amount=5))
    rich.when(Account.withdraw, 5).then_state(0)
    rich.then_state(5)
    account.given().when(Account.open, owner="Ada", first=2).then(Opened(owner="Ada"), Deposited(amount=2))
    account.given().when(Account.close).then()


def test_errors_that_follow() -> None:
    """TAG-06: those of the domain, and those of wrong arguments."""
    rich.when(Account.withdraw, amount=6).then_error(Overdrawn)
    rich.when(Account.withdraw, amont=6).then_error(
        errors.DecisionInvalid, match=r"no argument 'amont'; its arguments are \(amount\)"
    )  # type: ignore[call-overload]
    account.given(NewEvent("account.frozen", {})).when(Account.close).then_error(errors.TypeNotTaken)


def said(call: Any) -> str:
    """What a failing specification prints."""
    with pytest.raises(AssertionError) as failed:
        call()
    return str(failed.value)


def test_other_events_are_shown_with_the_difference() -> None:
    """TAG-06: lines that were expected and lines that were found, and the call that gave them."""
    shown = said(lambda: rich.when(Account.withdraw, amount=3).then(Withdrawn(amount=4)))
    assert [line for line in shown.splitlines() if line and line[0] != "?"] == [
        "Account.withdraw(amount=3) appended other events (- expected, + found)",
        "- Withdrawn(amount=4)",
        "+ Withdrawn(amount=3)",
    ]
    shown = said(lambda: account.given().when(Account.open, "Ada", first=2).then(Opened(owner="Ada")))
    assert shown.splitlines()[1:] == ["  Opened(owner='Ada')", "+ Deposited(amount=2)"]
    assert "- 5\n+ 4" in said(lambda: rich.when(Account.withdraw, 1).then_state(5))
    assert "- 4\n+ 5" in said(lambda: rich.then_state(4))


def test_an_error_in_place_of_events_is_shown() -> None:
    """TAG-06: and events in place of an error, another error, another message."""
    assert said(lambda: rich.when(Account.withdraw, 9).then(Withdrawn(amount=9))).startswith(
        "Account.withdraw(9) raised Overdrawn"
    )
    assert "- Overdrawn\n+ Withdrawn(amount=1)" in said(lambda: rich.when(Account.withdraw, 1).then_error(Overdrawn))
    assert "- KeyError\n+ Overdrawn: " in said(lambda: rich.when(Account.withdraw, 9).then_error(KeyError))
    assert "- money\n+ " in said(lambda: rich.when(Account.withdraw, 9).then_error(Overdrawn, match="money"))


lossy = Catalog()


@lossy.event("mark.set")
class MarkSet(BaseModel):
    """A model that does not come back from the log as it was."""

    at: datetime

    @field_serializer("at")
    def _day(self, at: datetime) -> str:
        return at.date().isoformat() + "T00:00:00Z"


class Mark(Decider):
    """Sets marks."""

    def initial(self) -> int:
        return 0

    def evolve(self, state: int, event: MarkSet) -> int:
        return state + 1

    def set(self, state: int, at: datetime) -> MarkSet:
        """Set a mark."""
        return MarkSet(at=at)


def test_events_are_compared_as_they_come_back_from_the_log() -> None:
    """TAG-06: a model whose JSON loses something does not pass."""
    at = datetime(2026, 1, 24, 10, tzinfo=UTC)
    shown = said(lambda: Specification(Mark, catalog=lossy).given().when(Mark.set, at).then(MarkSet(at=at)))
    assert "other events" in shown


# --- projections -----------------------------------------------------------------------------------------------------


class Balances(Projection):
    """What each account has."""

    types = ("account.deposited", "account.withdrawn")

    def initial(self) -> Any:
        return 0

    def apply(self, state: Any, event: Event) -> Any:
        return state + event.data["amount"] * (1 if event.type == "account.deposited" else -1)


class Deposits(TableProjection):
    """One row per deposit."""

    types = ("account.deposited",)
    tables = ("deposits",)

    def create(self, execute: Any) -> None:
        execute("CREATE TABLE {deposits} (stream TEXT, amount INTEGER)")

    def apply(self, execute: Any, event: Event) -> Any:
        execute("INSERT INTO {deposits} VALUES (?, ?)", (event.stream, event.data["amount"]))


def test_states_of_a_projection() -> None:
    """CP-08: models as events, and a difference by key."""
    scenario = Scenario(Balances(), catalog=catalog).given(Deposited(amount=5), stream="account/1")
    scenario.when(Deposited(amount=2), stream="account/2").then({"account/2": 2})
    shown = said(lambda: scenario.then({"account/2": 3, "account/3": 1}))
    assert shown.splitlines()[0] == "Balances changed other states (- expected, + found)"
    assert "- 'account/2': 3" in shown
    assert "+ 'account/2': 2" in shown
    assert "- 'account/3': 1" in shown
    with pytest.raises(errors.ProjectionInvalid, match="use then"):
        scenario.then_rows("SELECT 1", [(1,)])


def test_rows_of_tables() -> None:
    """CP-08: a projection with tables is specified by queries."""
    scenario = Scenario(Deposits(), catalog=catalog).given(Deposited(amount=5), stream="account/1")
    query = "SELECT stream, amount FROM {deposits} ORDER BY amount"
    scenario.when(Deposited(amount=2), stream="account/2").then_rows(query, [["account/2", 2], ["account/1", 5]])
    shown = said(lambda: scenario.then_rows(query, [("account/2", 2)]))
    assert shown.splitlines() == [
        "Deposits has other rows (- expected, + found)",
        "  ('account/2', 2)",
        "+ ('account/1', 5)",
    ]

"""A decider for tests: accounts that are opened, filled and emptied."""

from __future__ import annotations

from pydantic import BaseModel

from tallystick import Catalog
from tallystick.decide import Decider

catalog = Catalog()


@catalog.event("account.opened")
class Opened(BaseModel):
    """An account was opened."""

    owner: str


@catalog.event("account.deposited")
class Deposited(BaseModel):
    """Money was paid in."""

    amount: int


@catalog.event("account.withdrawn")
class Withdrawn(BaseModel):
    """Money was paid out."""

    amount: int


AccountEvent = Opened | Deposited | Withdrawn


class Overdrawn(Exception):
    """There is not enough money."""


class Account(Decider):
    """The state is the balance."""

    def initial(self) -> int:
        return 0

    def evolve(self, state: int, event: AccountEvent) -> int:
        match event:
            case Deposited(amount=amount):
                return state + amount
            case Withdrawn(amount=amount):
                return state - amount
            case Opened():
                return state

    def open(self, state: int, owner: str, first: int = 0) -> list[Opened | Deposited]:
        """Open an account, perhaps with some money in it."""
        return [Opened(owner=owner), Deposited(amount=first)] if first else [Opened(owner=owner)]

    def deposit(self, state: int, amount: int) -> Deposited:
        """Pay money in."""
        return Deposited(amount=amount)

    def withdraw(self, state: int, amount: int) -> Withdrawn:
        """Pay money out, if there is enough."""
        if amount > state:
            raise Overdrawn
        return Withdrawn(amount=amount)

    def close(self, state: int) -> list[Withdrawn]:
        """Pay out all that is left; nothing if nothing is."""
        return [Withdrawn(amount=state)] if state else []


class SnapshottedAccount(Account):
    """The same with a snapshot every three events."""

    snapshot_every = 3

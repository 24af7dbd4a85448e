"""A bank: a withdrawal takes effect once per request, and never overdraws an account. Run it twice: the second time the
withdrawal is a repeat, so only the deposit counts.

    python examples/bank.py
"""

from pydantic import BaseModel

import tallystick
from tallystick.decide import Decider, Decisions

catalog = tallystick.Catalog()


@catalog.event("account.deposited")
class Deposited(BaseModel):
    amount: int


@catalog.event("account.withdrawn")
class Withdrawn(BaseModel):
    amount: int


class Account(Decider):
    def initial(self) -> int:
        return 0

    def evolve(self, balance: int, event: Deposited | Withdrawn) -> int:
        return balance + event.amount if isinstance(event, Deposited) else balance - event.amount

    def deposit(self, balance: int, amount: int) -> Deposited:
        return Deposited(amount=amount)

    def withdraw(self, balance: int, amount: int) -> Withdrawn:
        if amount > balance:
            raise ValueError(f"there are only {balance}")
        return Withdrawn(amount=amount)


with tallystick.open("files:bank", catalog=catalog) as store:
    accounts = Decisions(store, Account)
    accounts.run("account/42", Account.deposit, amount=10)
    accounts.request(idempotency_key="r-1").run("account/42", Account.withdraw, amount=5)
    print(f"{accounts.load('account/42').state} are left; the log is verified: {store.verify().ok}")

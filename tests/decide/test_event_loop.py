"""Decisions in an event loop: the same rules, and as many tasks as there are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tallystick import aio, errors
from tallystick.testing.bank import Account, Deposited, Overdrawn, catalog

STREAM = "account/42"

# --- in an event loop ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["memory", "files", "sqlite"])
def test_the_same_in_an_event_loop(engine: str, tmp_path: Path) -> None:
    """TAG-06: fifty tasks withdraw at once; the rule holds, keys take effect once, errors are the same."""
    url = "memory:" if engine == "memory" else f"{engine}:{tmp_path}/log"

    async def run() -> None:
        async with await aio.open(url, catalog=catalog) as store:
            accounts = aio.Decisions(store, Account, conflict_tries=200)
            await accounts.run(STREAM, Account.open, owner="Ada", first=30)
            tasks = [accounts.run(STREAM, Account.withdraw, amount=1) for _ in range(50)]
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert sum(isinstance(outcome, Overdrawn) for outcome in outcomes) == 20
            loaded = await accounts.load(STREAM)
            assert (loaded.state, loaded.seq) == (0, 32)
            request = accounts.request(idempotency_key="r-1", actor_id="ada")
            twice = await asyncio.gather(*(request.run(STREAM, Account.deposit, 5) for _ in range(5)))
            assert sorted(done.repeated for done in twice) == [False] + [True] * 4
            assert [(done.seq, done.events) for done in twice] == [(33, (Deposited(amount=5),))] * 5
            with pytest.raises(errors.IdempotencyKeyReuse):
                await request.run(STREAM, Account.deposit, 6)
            with pytest.raises(errors.DecisionInvalid):
                await accounts.run(STREAM, Account.deposit, amont=5)  # type: ignore[call-overload]
            assert (await accounts.run("account/1", Account.close)).events == ()

    asyncio.run(run())


def test_conflicts_in_an_event_loop_are_bounded() -> None:
    """TAG-06: a decision that always conflicts is given up there too."""

    async def run() -> None:
        async with await aio.open("memory:", catalog=catalog) as store:
            calls: list[int] = []

            class Hopeless(Account):
                def deposit(self, state: int, amount: int) -> Deposited:
                    """Somebody is always faster."""
                    calls.append(state)
                    store.store.append(STREAM, Deposited(amount=1))
                    return Deposited(amount=amount)

            with pytest.raises(errors.Conflict):
                await aio.Decisions(store, Hopeless, conflict_tries=4).run(STREAM, Hopeless.deposit, 1)
            assert calls == [0, 1, 2, 3]

    asyncio.run(run())

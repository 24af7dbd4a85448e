"""`tally projections` and `tally consumers`: listing, dropping and resetting."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tallystick
from tallystick.projections import Live
from tallystick.store.deadletters import DeadLetter
from tallystick.testing.builders import events
from tallystick.testing.shop import PLACED, OrderTotals, order_event


@pytest.fixture
def read(tally: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with a projection and a consumer that stopped."""
    monkeypatch.setenv("TALLY_ACTOR", "ada")
    with tallystick.open(url) as store:
        store.append("order/1", [order_event(PLACED) for _ in range(4)])
        Live(store, OrderTotals()).catch_up()
        store.save_checkpoint("mailer", 1)
        store.log.dead_letters.park(DeadLetter("mailer", 1, "order/1", 1, PLACED, 3, 0, "refused"))
        store.append("order/1", events(4))
    return url


def test_projections_are_listed_and_dropped(tally, read, lines):
    """CP-07, CP-13: they are listed with their lag; the audit trail says who dropped one, and why."""
    (found,) = lines(tally("projections", "list", read, "--json"))
    assert (found["name"], found["position"], found["lag_events"]) == ("OrderTotals", 4, 4)
    assert "OrderTotals" in tally("projections", "list", read).stdout
    done = json.loads(tally("projections", "drop", read, "OrderTotals", "--reason", "unused", "--json").stdout)
    assert (done["name"], done["position"], done["reason"]) == ("OrderTotals", 4, "unused")
    assert done["epochs"] == [1]  # each once, also where rows and tables share their places
    assert lines(tally("projections", "list", read, "--json")) == []
    (fact,) = lines(tally("audit", read, "--json"))
    assert (fact["type"], fact["payload"]["reason"], fact["meta"]["actor_id"]) == (
        "tally.projection.dropped",
        "unused",
        "ada",
    )
    assert tally("verify", read).exit_code == 0


def test_consumers_are_listed_reset_and_dropped(tally, read, lines):
    """CP-07: a consumer with dead letters is dropped only with --letters."""
    (found,) = lines(tally("consumers", "list", read, "--json"))
    assert (found["name"], found["position"], found["lag_events"], found["dead_letters"]) == ("mailer", 1, 7, 1)
    assert "dead letters" in tally("consumers", "list", read).stdout
    assert "continues after position 5; it was at 1" in tally("consumers", "reset", read, "mailer", "--to", "5").stdout
    refused = tally("consumers", "drop", read, "mailer")
    assert refused.exit_code == 1
    assert "consumer 'mailer' has 1 dead letters" in refused.stderr
    assert (
        "dropped consumer mailer, which was at position 5, and 1 dead letters"
        in tally("consumers", "drop", read, "mailer", "--letters").stdout
    )
    assert lines(tally("consumers", "list", read, "--json")) == []
    assert [fact["type"] for fact in lines(tally("audit", read, "--json"))] == [
        "tally.consumer.reset",
        "tally.consumer.dropped",
    ]


def test_a_name_that_is_not_there_is_exit_status_1(tally, read, lines):
    """A refused drop is not recorded."""
    for arguments in (
        ("projections", "drop", read, "Nothing"),
        ("consumers", "drop", read, "nobody"),
        ("consumers", "reset", read, "nobody", "--to", "1"),
        ("consumers", "reset", read, "mailer", "--to", "99"),
    ):
        assert tally(*arguments).exit_code == 1
    assert lines(tally("audit", read, "--json")) == []


def test_a_store_that_is_not_there_is_not_made(tally, url, tmp_path):
    """Listing and dropping create nothing."""
    assert tally("projections", "list", url).exit_code == 2
    assert tally("consumers", "drop", url, "mailer").exit_code == 2
    assert list(tmp_path.iterdir()) == []

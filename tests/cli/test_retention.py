"""`tally state`, `snapshot`, `prune`, `erase`, `retain`, and what `verify` and `audit` say after them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import tallystick
from tallystick import NewEvent

Tally = Callable[..., Result]

CODE = """
class Balance:
    name, version = "balance", 1
    step_types = ("order.closed",)
    def initial(self):
        return {"cents": 0, "erased": 0}
    def apply(self, state, event):
        if event.data is None:
            return state | {"erased": state["erased"] + 1}
        return state | {"cents": state["cents"] + event.data.get("cents", 0)}

class Total:
    name, version, scope = "total", 1, "store"
    def initial(self):
        return {"events": 0}
    def apply(self, state, event):
        return {"events": state["events"] + 1}

class Broken:
    name, version = "broken", 1
"""
BALANCE = ("--reducer", "shop:Balance")


@pytest.fixture
def shop(url: str, tally: Tally, tmp_path: Path) -> str:
    """A store with one order of two steps, and a module with reducers next to it."""
    (tmp_path / "shop.py").write_text(CODE)
    with tallystick.open(url) as store:
        for _ in range(2):
            store.append("order/1", [NewEvent("order.paid", {"cents": n}, meta={"org": "acme"}) for n in (1, 2)])
            store.append("order/1", NewEvent("order.closed", {}, meta={"org": "acme"}))
    return url


def _document(result: Result) -> dict[str, Any]:
    assert result.exit_code in (0, 1), result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_state_shows_what_a_stream_adds_up_to(tally: Tally, shop: str) -> None:
    """EVT-02: now, at a seq and at a time; the state is on stdout as JSON, its origin on stderr."""
    shown = tally("state", shop, "order/1", *BALANCE)
    assert json.loads(shown.stdout) == {"cents": 6, "erased": 0}
    assert "order/1 at seq 6, position 6, from 6 events" in shown.stderr
    assert _document(tally("state", shop, "order/1", *BALANCE, "--at", "4", "--json"))["state"]["cents"] == 4
    at = _document(tally("state", shop, "order/1", *BALANCE, "--at", "1999-01-01", "--json"))
    assert (at["seq"], at["state"]["cents"]) == (0, 0)
    assert _document(tally("state", shop, "--reducer", "shop:Total", "--json"))["state"] == {"events": 6}


def test_snapshots_are_made_listed_and_unprotected(tally: Tally, shop: str) -> None:
    """LH-14, LH-15: snapshots of a stream, protected ones, and sets of the whole store."""
    made = _document(tally("snapshot", shop, "order/1", *BALANCE, "--protect", "--json"))
    assert (made["seq"], made["protected"]) == (6, True)
    assert made["snapshot"] in tally("snapshot", shop, "order/1", "--list").stdout
    assert tally("snapshot", shop, "order/1", "--unprotect", made["snapshot"]).exit_code == 0
    assert _document(tally("snapshot", shop, "order/1", "--list", "--json"))["protected"] is False
    whole = tally("snapshot", shop, *BALANCE, "--reducer", "shop:Total")
    assert "2 snapshots at position" in whole.stdout
    state = _document(tally("state", shop, "order/1", *BALANCE, "--json"))
    assert (state["snapshot"], state["events_folded"]) == (made["snapshot"], 0)


def test_prune_says_why_not_and_then_prunes(tally: Tally, shop: str) -> None:
    """EVT-03, settled 17: --dry-run lists every reason; without --accept it is refused; the state does not change."""
    dry = tally("prune", shop, "order/1", "--before", "3", *BALANCE, "--dry-run")
    assert dry.exit_code == 1
    assert "cannot prune without snapshot" in dry.stdout
    assert "does not end a step" in dry.stdout
    refused = tally("prune", shop, "order/1", "--before", "4", *BALANCE, "--snapshot")
    assert (refused.exit_code, "--accept" in refused.stderr) == (1, True)
    done = _document(tally("prune", shop, "order/1", "--before", "4", *BALANCE, "--snapshot", "--accept", "--json"))
    assert (done["count"], done["pruned"]) == (3, True)
    assert _document(tally("state", shop, "order/1", *BALANCE, "--json"))["state"]["cents"] == 6
    checked = tally("verify", shop, *BALANCE)
    assert (checked.exit_code, "3 pruned" in checked.stdout) == (0, True)


def test_reading_after_a_prune_shows_what_is_left_and_says_so(tally: Tally, shop: str) -> None:
    """From the beginning, `read` and `export` give what is left, with a note; a position below the floor is refused."""
    tally("prune", shop, "order/1", "--before", "4", *BALANCE, "--snapshot", "--accept")
    for command in ("read", "export"):
        shown = tally(command, shop, "--stream", "order/1")
        assert shown.stdout.count("order/1") == 3
        assert "pruned: order/1 up to seq 3" in shown.stderr
        refused = tally(command, shop, "--after", "1")
        assert (refused.exit_code, "were pruned" in refused.stderr) == (1, True)
    assert "order.closed" in tally("tail", shop, "-n", "50").stdout


def test_erase_leaves_the_chain_whole(tally: Tally, shop: str) -> None:
    """EVT-14: the payload is gone, snapshots are made again, and the tenant's audit trail has the reason."""
    tally("snapshot", shop, "order/1", *BALANCE)
    done = _document(tally("erase", shop, "order/1", "2", "--reason", "ticket 17", *BALANCE, "--json"))
    assert (done["dropped"], done["made"], done["salted"]) == (1, 1, False)
    assert _document(tally("state", shop, "order/1", *BALANCE, "--json"))["state"] == {"cents": 4, "erased": 1}
    checked = tally("verify", shop, *BALANCE)
    assert (checked.exit_code, "1 of them erased" in checked.stdout) == (0, True)
    assert "(erased)" in tally("read", shop).stdout
    assert "ticket 17" in tally("audit", shop, "--org", "acme").stdout
    assert tally("audit", shop, "--org", "other").stdout == ""
    again = tally("erase", shop, "order/1", "2", "--reason", "again")
    assert (again.exit_code, "erased already" in again.stderr) == (1, True)


def test_the_audit_trail_says_who_did_it(tally: Tally, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """EVT-05: actions on the command line can be found by actor, by org and by time."""
    monkeypatch.setenv("TALLY_ACTOR", "ada")
    tally("snapshot", shop, "order/1", *BALANCE)
    monkeypatch.setenv("TALLY_ACTOR", "bob")
    tally("erase", shop, "order/1", "2", "--reason", "ticket 17")
    by_ada = tally("audit", shop, "--actor", "ada").stdout.splitlines()
    assert [line.split()[3] for line in by_ada] == ["tally.snapshotted"]
    assert "tally.erased" in tally("audit", shop, "--actor", "bob").stdout
    assert tally("audit", shop, "--actor", "eve").stdout == ""
    assert tally("audit", shop, "--to", "2000-01-01").stdout == ""


def test_retain_keeps_everything_unless_told(tally: Tally, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settled 4: without a preset nothing is removed; a variable takes effect, and the reasons are printed."""
    assert "nothing to do" in tally("retain", shop, *BALANCE, "--dry-run").stdout
    monkeypatch.setenv("TALLY_PRUNE_DAYS", "0.0000000001")
    shown = tally("retain", shop, *BALANCE, "--dry-run")
    assert "has no snapshot of it" in shown.stdout
    tally("snapshot", shop, "order/1", *BALANCE)
    done = _document(tally("retain", shop, *BALANCE, "--json"))
    assert [(deed["what"], deed["count"]) for deed in done["deeds"]] == [("pruned", 6)]


def test_a_sealed_fingerprint_is_checked_by_verify(tally: Tally, shop: str, tmp_path: Path) -> None:
    """EVT-04, EVT-11: a fingerprint is sealed on the command line; code that changed silently is found."""
    sealed = _document(tally("state", shop, "order/1", *BALANCE, "--seal", "--json"))["sealed"]
    assert len(sealed) == 64
    assert tally("verify", shop, *BALANCE).exit_code == 0
    (tmp_path / "other.py").write_text(CODE.replace('"cents", 0)}', '"cents", 0) + 1}'))
    found = tally("verify", shop, "--reducer", "other:Balance")
    assert (found.exit_code, "fingerprint" in found.stdout) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("state", "order/1"), 2, "--reducer"),
        (("state", "order/1", "--reducer", "shop"), 1, "MODULE:NAME"),
        (("state", "order/1", "--reducer", "shop:Nobody"), 2, "Nobody"),
        (("state", "order/1", "--reducer", "shop:Broken"), 1, "apply"),
        (("state", "order/1", *BALANCE, "--at", "yesterday"), 2, "yesterday"),
        (("state", "order/1", *BALANCE, "--seal", "--at", "1"), 2, "--seal"),
        (("snapshot", "order/1"), 2, "--reducer"),
        (("snapshot", "order/1", "--unprotect", "zz"), 2, "not the id of a snapshot"),
        (("prune", "order/1"), 2, "--before"),
        (("prune", "order/none", "--before", "2"), 1, "no such stream"),
        (("erase", "order/1", "99", "--reason", "x"), 1, "no such event"),
        (("erase", "order/1", "1"), 2, "--reason"),
        (("retain", "--preset", "everything"), 2, "everything"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
def test_bad_input_is_refused_with_what_to_do(
    tally: Tally, shop: str, arguments: tuple[str, ...], status: int, says: str
) -> None:
    """Bad input: one sentence and the exit status, no stack trace, and nothing is written."""
    with tallystick.open(shop, readonly=True) as store:
        head = store.head()
    result = tally(arguments[0], shop, *arguments[1:])
    assert result.exit_code == status, result.output
    assert says in result.stderr
    assert "Traceback" not in result.output
    with tallystick.open(shop, readonly=True) as store:
        assert store.head() == head

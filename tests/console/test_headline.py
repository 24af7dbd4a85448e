"""What the overview says first is what is known: every state, in the page as it is sent."""

from __future__ import annotations

import html
import json
import re
import sqlite3
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tallystick
from tallystick import Store
from tallystick.projections import Gauge, Lag, Live
from tallystick.server.console import headline
from tallystick.server.health import FailedCheck, Verdict
from tallystick.server.jobs import Job
from tallystick.store.deadletters import DeadLetter, LetterCounts
from tallystick.store.events import Problem
from tallystick.testing.builders import event, events
from tallystick.testing.shop import OrderTotals

from . import serving

DAY_NS = 86_400_000_000_000
NOW = 1000 * DAY_NS
CHECKS = dict.fromkeys(("store", "log", "index", "space", "writer", "verification"), True)


def verified(*, ago_days: float = 0.0, problems: int = 0, unchecked: tuple[str, ...] = ()) -> Job:
    result = {"ok": not problems, "problems": [{}] * problems, "unchecked": list(unchecked)}
    ended = NOW - int(ago_days * DAY_NS)
    return Job(
        id="1", kind="verify", subject="", by="", state="done", done=1, total=1, began=0, ended=ended, result=result
    )


def reader(
    name: str = "mailer", *, behind: int = 0, seconds: float = 0.0, letters: int = 0, damaged: bool = False
) -> Gauge:
    return Gauge("consumer", name, Lag(10**9 - behind, 10**9, seconds), letters, damaged)


def seen(**changed: Any) -> headline.Seen:
    """A service that is well, but for what is changed."""
    well: dict[str, Any] = {
        "verdict": Verdict(True, (), {"checks": CHECKS}),
        "lags": (),
        "verified": verified(),
        "free_bytes": 10**12,
        "free_bytes_min": 256 << 20,
        "failures": {},
        "not_writing": "",
        "now": NOW,
    }
    return headline.Seen(**(well | changed))


def wrong(check: str) -> Verdict:
    return Verdict(False, (FailedCheck(check, "it is wrong"),), {"checks": CHECKS | {check: False}})


STATES: dict[str, tuple[headline.Seen, str, str]] = {
    "well": (seen(), "ok", ""),
    "a reader that is a little behind": (seen(lags=[reader(behind=999, seconds=299)]), "ok", ""),
    "our own bookkeeping": (seen(lags=[reader("tally.upkeep", behind=10**6, seconds=10**6)]), "ok", ""),
    "behind by events": (seen(lags=[reader(behind=1000, seconds=1)]), "warn", "lag"),
    "behind by age": (seen(lags=[reader(behind=1, seconds=300)]), "warn", "lag"),
    "far behind by events": (seen(lags=[reader(behind=100_000)]), "bad", "lag"),
    "far behind by age": (seen(lags=[reader(behind=1, seconds=86_400)]), "bad", "lag"),
    "dead letters that vanished": (
        seen(letters=LetterCounts(kept=3, by_consumer={"mailer": 2})),
        "bad",
        "dead letters",
    ),
    "one dead letter": (seen(lags=[reader(letters=1)]), "bad", "dead letters"),
    "never verified": (seen(verified=None), "warn", "verification"),
    "verified long ago": (seen(verified=verified(ago_days=7.1)), "warn", "verification"),
    "verified lately": (seen(verified=verified(ago_days=6.9)), "ok", ""),
    "not all verified": (seen(verified=verified(unchecked=("signatures",))), "warn", "verification"),
    "found wrong": (seen(verified=verified(problems=2)), "bad", "verification"),
    "damage": (seen(verdict=wrong("log")), "bad", "log"),
    "index": (seen(verdict=wrong("index")), "bad", "index"),
    "no answer": (seen(verdict=wrong("store")), "bad", "store"),
    "poisoned": (seen(verdict=wrong("writer")), "bad", "writer"),
    "no space": (seen(verdict=wrong("space")), "bad", "space"),
    "little space": (seen(free_bytes=1 << 30 - 1), "warn", "space"),
    "space that nobody knows": (seen(free_bytes=None), "ok", ""),
    "read-only": (seen(not_writing="opened for reading"), "warn", "writer"),
    "a reader whose place is damaged": (seen(lags=[reader(damaged=True)]), "bad", "lag"),
    "a scheduler that stopped": (seen(scheduler="ReadOnly"), "bad", "scheduler"),
    "stopped": (seen(failures={"Spending": "it failed"}), "bad", "projection Spending"),
}


@pytest.mark.parametrize("name", STATES)
def test_each_state_has_its_line_and_its_headline(name: str) -> None:
    """CP-14: the thresholds of docs/console.md; one line is not well, and the headline follows it."""
    given, state, what = STATES[name]
    found = headline.lines(given)
    assert [line.what for line in found if line.state != "ok"] == ([what] if what else [])
    said = headline.headline(found)
    assert (said["state"], said["ok"]) == (state, state == "ok")
    assert (said["says"] == "All is well") == (state == "ok")
    assert all(line.says for line in found)


def test_what_a_failed_look_would_have_shown_is_not_known() -> None:
    """CP-14: if the store does not answer, no readers and no letters are seen, which does not mean there are none."""
    found = {line.what: line for line in headline.lines(seen(failure="Unavailable"))}
    assert [found[what].state for what in ("store", "lag", "dead letters")] == ["bad", "warn", "warn"]
    assert headline.headline(list(found.values()))["state"] == "bad"


def test_the_page_states_the_thresholds() -> None:
    """The page for operators and the code have the same numbers."""
    text = (Path(__file__).parents[2] / "docs" / "console.md").read_text("utf-8")
    for stated in (
        "1,000 events behind",
        "for 5 minutes",
        "100,000 events, or a day",
        "older than 7 days",
        "four times",
    ):
        assert stated in text
    assert (headline.LAG_EVENTS_WARN, headline.LAG_EVENTS_BAD) == (1_000, 100_000)
    assert (headline.LAG_SECONDS_WARN, headline.LAG_SECONDS_BAD) == (300, 86_400)
    assert (headline.VERIFIED_DAYS_WARN, headline.SPACE_TIMES_WARN) == (7, 4)


def _behind(store: Store) -> None:
    store.append("order/1", events(2700))
    store.save_checkpoint("mailer", 101)
    for position in range(1, 54):
        store.log.dead_letters.park(DeadLetter("mailer", position, "order/1", position, "t", 3, 0, "refused"))


def _consumer_changed(store: Store) -> None:
    store.save_checkpoint("mailer", 1)
    with closing(sqlite3.connect(store.log.url.removeprefix("sqlite:"))) as database, database:
        database.execute("UPDATE checkpoints SET link_position = 0")


def _projection_changed(store: Store) -> None:
    Live(store, OrderTotals()).catch_up()
    with closing(sqlite3.connect(store.log.url.removeprefix("sqlite:"))) as database, database:
        database.execute("UPDATE views SET link_position = 0")


def _letters_without_a_place(store: Store) -> None:
    store.append("order/1", event())
    store.log.dead_letters.park(DeadLetter("mailer", 1, "order/1", 1, "t", 3, 0, "refused"))


def _damaged(store: Store) -> None:
    store.append("order/1", event())
    store.log.damage.keep([Problem("checksum", "a byte was changed", 1, "order/1", 1)])


PAGES: dict[str, tuple[Callable[[Store], None], bool, str, list[str]]] = {
    "a consumer behind, and dead letters": (
        _behind,
        True,
        "bad",
        ["consumer mailer is 2,600 events behind", "53 of mailer"],
    ),
    "letters of a consumer without a place": (_letters_without_a_place, True, "bad", ["1 of mailer"]),
    "a consumer's place that was changed": (
        _consumer_changed,
        False,
        "bad",
        ["the checkpoint of consumer mailer is damaged"],
    ),
    "a projection's place that was changed": (
        _projection_changed,
        False,
        "bad",
        ["the checkpoint of projection OrderTotals is damaged"],
    ),
    "damage on record": (_damaged, False, "bad", ["the engine reports a problem"]),
    "never verified": (
        lambda store: None,
        False,
        "warn",
        ["the log was not verified since the service started", "1 thing to look at"],
    ),
    "well": (lambda store: None, True, "ok", ["All is well", "found nothing wrong"]),
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_says_what_is_known(name: str, tmp_path: Path) -> None:
    """CP-14: over a real service, in the HTML and in what the page asks for every second."""
    stock, verify, state, wanted = PAGES[name]
    url = f"sqlite:{tmp_path}/log.db"
    with tallystick.open(url) as store:
        store.append("order/0", event())
        stock(store)
    with serving.serving(url, log=tmp_path / "log.txt", TALLY_SERVE_FREE_BYTES_MIN="1") as served:
        if verify:
            _verify(served)
        page = html.unescape(_asked(served.console).decode())
        chip = re.search(r'class="chip large (\w+)" id="verdict"[^>]*>([^<]*)<', page)
        assert chip is not None
        assert chip.group(1) == state
        assert ("All is well" in page) == (state == "ok")
        for text in wanted:
            assert text in page
        told = json.loads(_asked(f"{served.console}/data/overview"))
        assert (told["verdict"]["state"], told["verdict"]["says"]) == chip.groups()


def _asked(address: str, body: bytes | None = None) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(address, body), timeout=30) as answer:
        found: bytes = answer.read()
        return found


def _verify(served: serving.Served) -> None:
    job = json.loads(_asked(f"{served.address}/v1/integrity/verify", b""))["id"]
    for _ in range(600):
        if json.loads(_asked(f"{served.address}/v1/jobs/{job}"))["state"] != "running":
            return
        time.sleep(0.1)
    raise AssertionError("the verification did not end")

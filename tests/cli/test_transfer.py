"""`tally export --whole`, `tally import` of it, and `tally copy`: moving logs with pruned and erased parts."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tallystick
from tallystick import errors, moving
from tallystick.testing import upkeep
from tallystick.testing.builders import events

TARGETS = {"files:log": "sqlite:new.db", "sqlite:log.db": "files:new"}


@pytest.fixture
def past(tally: Any, url: str) -> str:
    """A store with pruned and erased events."""
    with tallystick.open(url) as store:
        store.append("order/1", events(5))
        store.append("order/2", events(2))
        upkeep.erase(store, "order/1", 4)
        upkeep.prune(store, "order/1", 3)
    return url


def test_a_log_with_a_past_goes_through_a_pipe(tally, past):
    """SAFE-06: `tally export | tally import` moves it without options; both sides verify and export the same."""
    exported = tally("export", past)
    assert exported.exit_code == 0
    assert [json.loads(line).get("tally") for line in exported.stdout.splitlines()][:3] == ["export", "cut", "pruned"]
    done = json.loads(tally("import", TARGETS[past], "-", "--json", stdin=exported.stdout).stdout)
    assert (done["whole"], done["imported"], done["pruned"], done["appended_because"]) == (True, 6, 3, None)
    assert tally("verify", TARGETS[past]).exit_code == 0
    again = tally("export", TARGETS[past]).stdout
    assert again.splitlines()[1:-1] == exported.stdout.splitlines()[1:-1]


def test_an_import_run_twice_writes_nothing_twice(tally, past):
    """SAFE-06: the second import reports that everything was already stored."""
    exported = tally("export", past).stdout
    tally("import", TARGETS[past], "-", stdin=exported)
    assert (
        "imported 0 events from 11 lines, 6 were already stored"
        in tally("import", TARGETS[past], "-", stdin=exported).stdout
    )


def test_an_export_that_was_cut_off_is_exit_status_1(tally, past):
    """SAFE-06: status 0 means that the export was complete; an incomplete one can be continued."""
    exported = tally("export", past).stdout.splitlines(keepends=True)
    for end in range(1, len(exported)):
        result = tally("import", TARGETS[past], "-", stdin="".join(exported[:end]))
        assert result.exit_code == 1
        assert "it was cut off" in result.stderr
    assert tally("import", TARGETS[past], "-", stdin="".join(exported)).exit_code == 0
    assert tally("verify", TARGETS[past]).exit_code == 0


@pytest.mark.security
def test_a_line_that_was_changed_is_named(tally, past):
    """SAFE-06: also for what no link covers: a position, the id of a pruned event."""
    exported = tally("export", past).stdout
    for old, new in (('"n":1}', '"n":2}'), ('"events":[[1,', '"events":[[2,'), ('"through":3', '"through":2')):
        assert old in exported
        result = tally("import", "memory:", "-", stdin=exported.replace(old, new, 1))
        assert result.exit_code == 1
        assert result.stderr.startswith("error: line")


def test_a_log_without_a_past_is_lines_of_events(tally, url, lines):
    """A plain export has one line per event; a whole one also has a first and a last line."""
    with tallystick.open(url) as store:
        store.append("order/1", events(3))
    plain, whole = tally("export", url).stdout, tally("export", url, "--whole").stdout
    assert len(plain.splitlines()) == 3
    assert whole.splitlines()[1:-1] == plain.splitlines()


def test_control_facts_move_with_a_whole_log(tally, url, lines):
    """SAFE-06: a whole export brings them into an empty store, even if nothing was pruned."""
    tally("append", url, "order/1", "order.placed", "{}", "--secrets", "warn")
    exported = tally("export", url, "--whole").stdout
    assert tally("import", TARGETS[url], "-", stdin=exported).exit_code == 0
    assert tally("export", TARGETS[url]).stdout == tally("export", url).stdout
    assert json.loads(tally("audit", TARGETS[url], "--json").stdout)["stream"] == "tally.store/settings"


def test_events_alone_of_a_log_with_a_past_say_what_to_do(tally, past):
    """SAFE-06: an erased event without its fact is refused, with advice."""
    result = tally("import", TARGETS[past], "-", stdin=tally("export", past, "--events-only").stdout)
    assert result.exit_code == 1
    assert "tally export --whole" in result.stderr


def test_a_part_of_a_log_is_never_whole(tally, past):
    """An option that chooses a part gives lines of events; together with --whole it is refused."""
    assert '"tally":' not in tally("export", past, "--stream", "order/2").stdout
    assert '"tally":' not in tally("export", past, "--after", "5").stdout
    assert tally("export", past, "--whole", "--stream", "order/2").exit_code == 2


def test_a_whole_log_without_a_past_is_appended_to_one_with_a_life(tally, url, lines):
    """Its events are complete, so they can be appended; the reason is printed."""
    with tallystick.open(url) as store:
        store.append("order/1", events(3))
    tally("append", TARGETS[url], "order/9", "a", "{}")
    result = tally("import", TARGETS[url], "-", stdin=tally("export", url, "--whole").stdout)
    assert result.exit_code == 0
    assert "appended as new events, because it holds other events" in result.stdout
    assert len(lines(tally("export", TARGETS[url]))) == 4


def test_a_store_with_a_life_of_its_own_is_left_as_it_was(tally, past, lines):
    """SAFE-06: two histories are not mixed."""
    tally("append", TARGETS[past], "order/9", "a", "{}")
    result = tally("import", TARGETS[past], "-", stdin=tally("export", past).stdout)
    assert result.exit_code == 1
    assert "it holds other events" in result.stderr
    assert len(lines(tally("export", TARGETS[past]))) == 1


def test_runs_cannot_take_over_a_log_with_a_past(tally, past):
    """SAFE-06: an engine that cannot hold them says what it lacks."""
    result = tally("copy", past, "ndjson:runs")
    assert result.exit_code == 1
    assert "no order between streams" in result.stderr


def test_copy_makes_the_same_log(tally, past):
    """SAFE-06: in one command, with the profile of the source; a second run continues it."""
    done = json.loads(tally("copy", past, TARGETS[past], "--json").stdout)
    assert (done["imported"], done["pruned"], done["whole"]) == (6, 3, True)
    tally("append", past, "order/2", "a", "{}")
    done = json.loads(tally("copy", past, TARGETS[past], "--json").stdout)
    assert (done["imported"], done["skipped"]) == (1, 6)
    assert tally("verify", TARGETS[past]).exit_code == 0


def test_runs_move_to_any_engine(tally, url):
    """SAFE-06: the positions of a store of runs are not kept, but its links are."""
    for run in ("run/a", "run/b"):
        tally("append", "ndjson:runs", run, "run.started", "{}")
    assert tally("copy", "ndjson:runs", url).exit_code == 0
    assert tally("verify", url).exit_code == 0
    assert json.loads(tally("copy", "ndjson:runs", url, "--json").stdout)["skipped"] == 2


def test_the_setting_of_the_guard_comes_after_the_move(tally, past, lines):
    """`--secrets` is recorded after the move, because a whole export needs an empty store."""
    exported = tally("export", past).stdout
    assert tally("import", TARGETS[past], "-", "--secrets", "warn", stdin=exported).exit_code == 0
    assert lines(tally("audit", TARGETS[past], "--json"))[-1]["type"] == "tally.setting.changed"
    assert tally("verify", TARGETS[past]).exit_code == 0


def test_a_damaged_log_is_not_copied(tally, url, tmp_path):
    """SAFE-06: damage is reported by name, and the copy is not taken for a complete one."""
    with tallystick.open(url) as store:
        for number in range(300):
            store.append("order/1", events(10, first=number))
    engine, _, place = url.partition(":")
    path = tmp_path / place / "current.log" if engine == "files" else tmp_path / place
    data = bytearray(path.read_bytes())
    at = data.rindex(b'{"n":150}')
    data[at + 5] ^= 0xFF
    path.write_bytes(data)
    result = tally("copy", url, TARGETS[url])
    assert result.exit_code in (1, 2)
    assert result.stderr.startswith("error:")


def test_a_log_that_is_pruned_meanwhile_is_no_whole_export(tmp_path):
    """SAFE-06: otherwise half of it would be from before the prune and half from after."""
    with tallystick.open(f"sqlite:{tmp_path}/log.db") as store:
        store.append("order/1", events(2500))
        found = moving.export(store, whole=True)
        parts = [next(found), next(found)]
        upkeep.prune(store, "order/1", 2000)
        with pytest.raises(errors.ExportOutdated):
            parts.extend(found)
        with tallystick.open("memory:") as target, pytest.raises(moving.ImportRefused):
            moving.import_lines(target, parts)

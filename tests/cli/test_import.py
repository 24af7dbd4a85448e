"""`tally import`: which lines are accepted, which are refused, and what is printed."""

from __future__ import annotations

import json
from typing import Any

import pytest


def new_id(number: int) -> str:
    return f"0199b000-0000-7000-8000-{number:012x}"


def event(number: int, stream: str = "order/1", **more: Any) -> dict[str, Any]:
    base = {"stream": stream, "type": "order.placed", "payload": {"n": number}, "id": new_id(number), "time": number}
    return base | more


def text(*events: dict[str, Any] | str) -> str:
    return "".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in events)


def answer(result: Any) -> tuple[int, int, int, int]:
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    return found["imported"], found["skipped"], found["lines"], found["head"]


def test_positions_follow_the_order_of_the_file(tally, url, lines):
    """Streams that alternate in the file alternate in the log."""
    given = [event(n, f"order/{n % 3}") for n in range(1, 20)]
    assert answer(tally("import", url, "-", "--batch", "7", "--json", stdin=text(*given))) == (19, 0, 19, 19)
    assert [item["id"] for item in lines(tally("export", url))] == [item["id"] for item in given]


def test_a_batch_is_one_commit(tally, url, lines):
    """A conflict on the last line of a batch refuses the whole batch, and no other."""
    given = [event(n) for n in range(1, 6)] + [event(6, expected=99)]
    result = tally("import", url, "-", "--batch", "3", stdin=text(*given))
    assert result.exit_code == 1
    assert "line 6: stream 'order/1' is at seq 5, expected 99" in result.stderr
    assert "3 events" in result.stderr
    assert "up to line 3" in result.stderr
    assert len(lines(tally("export", url))) == 3


def test_running_it_again_writes_nothing_twice(tally, url):
    """Lines with stored ids are skipped, also if the batches are different."""
    given = text(*[event(n, f"order/{n % 2}") for n in range(1, 11)])
    assert answer(tally("import", url, "-", "--batch", "4", "--json", stdin=given)) == (10, 0, 10, 10)
    assert answer(tally("import", url, "-", "--batch", "3", "--json", stdin=given)) == (0, 10, 10, 10)


def test_a_file_that_has_grown_adds_its_end(tally, url):
    """Stored lines are skipped and new ones appended, also within one batch."""
    first = [event(n) for n in range(1, 4)]
    tally("import", url, "-", stdin=text(*first))
    assert answer(tally("import", url, "-", "--json", stdin=text(*first, event(4)))) == (1, 3, 4, 4)


def test_a_stored_line_behind_new_ones_is_still_a_retry(tally, url):
    """The order of stored and new lines in a batch does not matter."""
    tally("import", url, "-", stdin=text(event(1)))
    given = text(event(2), event(1), event(3), event(4, "order/2"))
    assert answer(tally("import", url, "-", "--json", stdin=given)) == (3, 1, 4, 4)


def test_a_line_repeated_in_a_batch_is_a_retry(tally, url):
    """The same line twice is one event."""
    given = text(event(1), event(2), event(1), event(2))
    assert answer(tally("import", url, "-", "--json", stdin=given)) == (2, 2, 4, 2)


def test_an_id_with_two_contents_is_refused(tally, url):
    """In one batch or over two, an id names one event."""
    other = event(1, payload={"n": "other"})
    together = tally("import", url, "-", stdin=text(event(1), other))
    assert (together.exit_code, "line 2: line 1 has the same id" in together.stderr) == (1, True)
    apart = tally("import", url, "-", "--batch", "1", stdin=text(event(1), other))
    assert (apart.exit_code, "line 2: event id" in apart.stderr) == (1, True)


def test_lines_without_ids_are_new_events_each(tally, url):
    """Two equal lines without an id are two events."""
    line = {"stream": "order/1", "type": "order.placed", "payload": {}}
    assert answer(tally("import", url, "-", "--json", stdin=text(line, line))) == (2, 0, 2, 2)


def test_expectations_hold_line_by_line(tally, url):
    """A line's expectation is about the stream after the lines before it."""
    given = text(
        event(1, expected="none"), event(2, expected=1), event(3), event(4, expected=3), event(5, expected="any")
    )
    assert answer(tally("import", url, "-", "--json", stdin=given)) == (5, 0, 5, 5)
    twice = text(event(6, "order/2", expected="none"), event(7, "order/2", expected="none"))
    assert "line 2: stream 'order/2' is at seq 1, expected 0" in tally("import", url, "-", stdin=twice).stderr


GOOD = json.dumps(event(1))
BAD_LINES = {
    "no json": ("{oops", "not JSON"),
    "not utf-8": (b'{"stream":"\xff"}', "not JSON"),
    "no object": ("[1]", "Expected `object`, got `array`"),
    "no stream": ('{"type":"t","payload":{}}', "missing required field `stream`"),
    "no payload": ('{"type":"t","stream":"a/b"}', "missing required field `payload`"),
    "erased payload": (json.dumps(event(2, payload=None)), "was erased"),
    "payload a list": (json.dumps(event(2, payload=[])), "Expected `object`, got `array` - at `$.payload`"),
    "unknown key": (json.dumps(event(2, expectd=1)), "unknown field `expectd`"),
    "key twice": ('{"stream":"a/b","stream":"a/c","type":"t","payload":{}}', "the key appears twice"),
    "key twice inside": ('{"stream":"a/b","type":"t","payload":{"a":1,"a":2}}', "the key appears twice"),
    "bad stream": (json.dumps(event(2, "Order")), "not a valid name"),
    "reserved stream": (json.dumps(event(2, "tally.store/settings")), "reserved for control facts"),
    "bad type": (json.dumps(event(2, type="1")), "not a valid name"),
    "bad id": (json.dumps(event(2, id="7")), "event id is '7'"),
    "bad time": (json.dumps(event(2, time=-1)), "time is -1"),
    "time a bool": (json.dumps(event(2, time=True)), "Expected `int | null`, got `bool` - at `$.time`"),
    "bad version": (json.dumps(event(2, version=0)), "version is 0"),
    "bad expectation": (json.dumps(event(2, expected="soon")), "expected is 'soon'"),
    "bad meta": (json.dumps(event(2, meta={"org": 7})), "meta at '/org'"),
    "secret": (json.dumps(event(2, payload={"k": "ghp_" + "a1B2" * 9})), "looks like a secret"),
    "bad checksum": (json.dumps(event(2, checksum="00" * 32)), "its payload has the checksum"),
    "bad hex": (json.dumps(event(2, checksum="zz")), "its 'checksum' must be hex digits"),
    "bad seq": (json.dumps(event(2, seq=7)), "it would have seq 2 in 'order/1', the line says 7"),
    "bad link": (json.dumps(event(2, link="00" * 32)), "it would have the link"),
    "other org": (json.dumps(event(2, meta={"org": "blue"})), "belongs to org 'acme'"),
    "too large": (json.dumps(event(2, payload={"t": "x" * (1 << 20)})), "the limit is 1048576"),
    "endless line": ("x" * (5 << 20), "the limit is 4194304"),
}


@pytest.mark.parametrize("damage", BAD_LINES)
def test_a_bad_line_is_named_and_nothing_of_its_batch_written(tally, damage):
    """Exit 1, with the line, the reason, and what is stored; earlier lines of the batch are not written."""
    line, complaint = BAD_LINES[damage]
    line = line if isinstance(line, bytes) else line.encode()
    first = json.dumps(event(1, meta={"org": "acme"})).encode()
    result = tally("import", "sqlite:a.db", "-", "--batch", "2", stdin=b"\n".join([first, b"", line, GOOD.encode()]))
    assert result.exit_code == 1, result.stderr
    assert result.stderr.startswith("error: line 3: ")
    assert complaint in result.stderr
    assert "Stored before that: 0 events" in result.stderr
    assert tally("export", "sqlite:a.db").stdout == ""


def test_a_file_that_is_bad_from_the_start_creates_no_store(tally, tmp_path, url):
    """If the first batch is bad, no store is created."""
    assert tally("import", url, "-", stdin="{oops\n").exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_cannot_be_imported(tally, tmp_path, url):
    """A missing file exits with 2 and creates nothing."""
    assert tally("import", url, "nothing.ndjson").exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_the_error_as_json_says_how_far_it_came(tally):
    """With --json the error has the line, the cause and the counts."""
    result = tally("import", "sqlite:a.db", "-", "--batch", "1", "--json", stdin=text(event(1), "{oops"))
    found = json.loads(result.stderr)
    assert found["error"] == "ImportRefused"
    values = found["values"]
    assert (values["line"], values["cause"], values["imported"], values["last_line"]) == (2, "NotCanonical", 1, 1)


def test_an_export_comes_in_with_its_claims_checked(tally, url, lines):
    """Exported lines give the same chain; a second import skips all of them."""
    tally(
        "import",
        "sqlite:origin.db",
        "-",
        stdin=text(*[event(n, f"order/{n % 3}", meta={"org": "a"}) for n in range(1, 12)]),
    )
    exported = tally("export", "sqlite:origin.db").stdout
    assert answer(tally("import", url, "-", "--batch", "4", "--json", stdin=exported)) == (11, 0, 11, 11)
    assert tally("export", url).stdout == exported
    assert answer(tally("import", url, "-", "--batch", "5", "--json", stdin=exported)) == (0, 11, 11, 11)


def test_a_changed_export_is_refused_before_it_is_written(tally, url):
    """A changed payload, time or order is named by its line, and nothing is written."""
    tally("import", "sqlite:origin.db", "-", stdin=text(*[event(n) for n in range(1, 4)]))
    good = tally("export", "sqlite:origin.db").stdout.splitlines(keepends=True)
    payload = good[1].replace('"payload":{"n":2}', '"payload":{"n":3}')
    time = good[1].replace('"time":2,', '"time":3,')
    for changed, number in (
        ([good[0], payload, good[2]], 2),
        ([good[0], time, good[2]], 2),
        ([good[0], good[2], good[1]], 2),
        (good[1:], 1),
    ):
        result = tally("import", url, "-", stdin="".join(changed))
        assert result.exit_code == 1
        assert result.stderr.startswith(f"error: line {number}: it")
        assert tally("export", url).stdout == ""


def test_a_stored_event_must_be_what_the_line_claims(tally, url):
    """A line whose id is stored at another seq is refused."""
    tally("import", url, "-", stdin=text(event(1), event(2)))
    result = tally("import", url, "-", stdin=text(event(2, seq=1)))
    assert result.exit_code == 1
    assert "it would have seq 2 in 'order/1', the line says 1" in result.stderr


def test_control_facts_of_another_store_are_left_out(tally, url, lines):
    """Control facts of an export are left out, because they are about the other store; their number is printed."""
    tally("append", "sqlite:origin.db", "order/1", "order.placed", "{}", "--secrets", "warn")
    exported = tally("export", "sqlite:origin.db").stdout
    result = tally("import", url, "-", stdin=exported)
    assert result.exit_code == 0
    assert "imported 1 events from 2 lines, 1 control facts of the other store were left out" in result.stdout
    assert [item["stream"] for item in lines(tally("export", url))] == ["order/1"]


def test_signatures_travel(tally, url, lines):
    """A signature is hex in the line, and is exported as it was imported."""
    tally("import", url, "-", stdin=text(event(1, signature="ab" * 64)))
    assert lines(tally("export", url))[0]["signature"] == "ab" * 64


def test_the_profile_says_which_meta_a_line_needs(tally):
    """A missing key is named with its line."""
    result = tally("import", "sqlite:a.db", "-", "--profile", "control-plane", stdin=text(event(1)))
    assert result.exit_code == 1
    assert "line 1: event 0 (order.placed) lacks meta 'actor_type'" in result.stderr


@pytest.mark.parametrize("batch", ["1", "1000"])
@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"payload": {"a": 1}}, {"payload": {"a": True}}),
        ({"payload": {"a": 1}}, {"payload": {"a": 1.0}}),
        ({"payload": {"a": [{"b": 0.0}]}}, {"payload": {"a": [{"b": False}]}}),
        ({"meta": {"k": 1}}, {"meta": {"k": True}}),
        ({"signature": "ab" * 64}, {"signature": "cd" * 64}),
        ({"seq": 1}, {"seq": 77, "checksum": "00" * 32}),
    ],
    ids=["true", "float", "deep", "meta", "signature", "claims"],
)
def test_one_id_with_two_contents_is_refused(tally, url, lines, batch, one, two):
    """Settled 6: 1, 1.0 and true are different content, in one batch and in two; the same line twice is one event."""
    result = tally("import", url, "-", "--batch", batch, stdin=text(event(1, **one), event(1, **two)))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: line 2: ")
    assert len(lines(tally("export", url))) == (1 if batch == "1" else 0)
    same = text(event(1, **one), event(1, **one))
    assert tally("import", url, "-", "--batch", batch, stdin=same).exit_code == 0
    assert len(lines(tally("export", url))) == 1


def test_a_repeated_line_that_cannot_be_stored_is_named(tally, url):
    """An integer that no event can hold is refused by name, also where two lines have the same id."""
    bad = event(1, payload={"n": 2**63})
    result = tally("import", url, "-", stdin=text(bad, bad))
    assert result.exit_code == 1
    assert result.stderr.startswith("error: line")
    assert "beyond int64" in result.stderr

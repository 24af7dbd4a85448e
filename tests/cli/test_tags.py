"""Tags and conditions on the command line."""

from __future__ import annotations

import json

import pytest

JOINED = "student.subscribed"


@pytest.fixture
def joined(tally, url):
    """Append a subscription with tags."""

    def run(stream, *tags, options=()):
        given = [part for tag in tags for part in ("--tag", tag)]
        return tally("append", url, stream, JOINED, "{}", *given, *options)

    return run


def test_tags_are_in_the_event(tally, joined, url, lines):
    """TAG-01: --tag may be repeated, and stands next to meta and labels."""
    labels = ["--meta", "tags.label=correction", "--meta", "org=acme"]
    assert joined("sub/1", "student:s7", "course:c1", options=labels).exit_code == 0
    (found,) = lines(tally("read", url, "--json"))
    assert found["meta"] == {"org": "acme", "tags": ["course:c1", "label:correction", "student:s7"]}


def test_every_list_selects_by_tags_and_cause(tally, joined, url, lines):
    """TAG-01: read, tail and export take --tag (all of them), --actor-id, --correlation-id and --causation-id."""
    for number in range(6):
        meta = ["--meta", f"actor_id=a{number % 3}", "--meta", f"correlation_id=c{number % 2}"]
        meta += ["--meta", f"causation_id=k{number // 3}"]
        joined(f"sub/{number % 2}", f"two:{number % 2}", f"three:{number % 3}", options=meta)
    wanted = {
        ("--tag", "two:1"): [2, 4, 6],
        ("--tag", "two:1", "--tag", "three:0"): [4],
        ("--actor-id", "a2"): [3, 6],
        ("--correlation-id", "c0", "--causation-id", "k1"): [5],
        ("--tag", "two"): [],
        ("--actor-id", "a"): [],
    }
    for options, positions in wanted.items():
        for command in (("read", url, "--json"), ("tail", url, "--json"), ("export", url)):
            result = tally(*command, *options)
            assert (result.exit_code, [event["position"] for event in lines(result)]) == (0, positions), options


def test_a_name_is_taken_once(tally, joined, url):
    """TAG-02: --unless with an item alone: nothing that matches may exist. Exit status 1, and nothing is written."""
    claim = ["--unless", "name:ada"]
    assert joined("account/1", "name:ada", options=claim).exit_code == 0
    refused = joined("account/2", "name:ada", options=claim)
    assert refused.exit_code == 1
    assert "error: the condition does not hold" in refused.stderr
    assert "tags=['name:ada']" in refused.stderr
    assert "\n  Consult the query again" in refused.stderr
    assert tally("streams", url).stdout.count("account/") == 1
    as_json = joined("account/2", "name:ada", options=[*claim, "--json"])
    assert json.loads(as_json.stderr)["error"] == "ConditionFailed"
    assert as_json.stdout == ""


def test_consult_decide_append(tally, joined, url):
    """TAG-02: the marker of `tally consult` admits an append until something that matches is added."""
    joined("sub/1", "course:c1", "student:s1")
    items = [f"{JOINED} course:c1", '{"types": ["course.closed"], "tags": ["course:c1"]}']
    found = json.loads(tally("consult", url, *items, "--json").stdout)
    assert [event["seq"] for event in found["events"]] == [1]
    assert [item["types"] for item in found["marker"]["items"]] == [[JOINED], ["course.closed"]]
    unless = ["--unless", items[0], "--unless", items[1], "--unless-after", found["marker"]["after"]]
    unless += ["--unless-beyond", found["marker"]["beyond"]]
    assert joined("sub/1", "course:c2", options=unless).exit_code == 0
    assert joined("sub/1", "course:c1", options=unless).exit_code == 0
    assert joined("sub/1", "course:c1", options=unless).exit_code == 1
    assert joined("sub/1", "course:c1", options=["--unless", items[0], "--unless-after", "3"]).exit_code == 0
    later = json.loads(tally("consult", url, *items, "--after", found["marker"]["after"], "--json").stdout)
    assert [event["seq"] for event in later["events"]] == [3, 4]


def test_a_person_sees_events_and_the_marker(tally, joined, url):
    """TAG-02: the events are on stdout as `read` prints them, the options of the append on stderr."""
    joined("sub/1", "course:c1", options=["--meta", "org=acme"])
    shown = tally("consult", url, "course:c1")
    assert shown.stdout == tally("read", url).stdout
    assert "--unless-after 1." in shown.stderr
    assert "--unless-beyond 0" in shown.stderr
    assert tally("consult", url, "course:c1", "--org", "bolt").stdout == ""


def test_lines_with_tags_are_imported(tally, url, lines):
    """TAG-01: a new line has its tags as "tags" or in the meta; an exported line keeps its link."""
    given = [
        {"stream": "sub/1", "type": JOINED, "payload": {}, "tags": ["b:1", "a:1"]},
        {"stream": "sub/1", "type": JOINED, "payload": {}, "meta": {"tags": ["c:1"], "org": "acme"}},
        {"stream": "sub/1", "type": JOINED, "payload": {}},
    ]
    text = "\n".join(map(json.dumps, given))
    assert tally("import", url, "-", stdin=text).exit_code == 0
    exported = tally("export", url).stdout
    assert tally("import", "files:other", "-", stdin=exported).exit_code == 0
    found = lines(tally("read", "files:other", "--json"))
    assert [event["meta"] for event in found] == [{"tags": ["a:1", "b:1"]}, {"org": "acme", "tags": ["c:1"]}, {}]
    assert tally("export", "files:other").stdout == exported


MANY = [part for number in range(33) for part in ("--tag", f"t:{number}")]
ITEMS = [part for number in range(65) for part in ("--unless", f"t:{number}")]
BAD = [
    (["--tag", ""], 2),
    (["--tag", "a" * 257], 2),
    (["--tag", "ü" * 129], 2),
    (["--tag", "a\nb"], 2),
    (MANY, 1),
    (["--meta", 'tags:=["a","a\\n"]'], 1),
    (["--unless", ""], 2),
    (["--unless", " "], 2),
    (["--unless", "a:" + "b" * 255], 2),
    (["--unless", "no_type!"], 2),
    (["--unless", " ".join(f"t:{number}" for number in range(33))], 2),
    (["--unless", '{"tag": ["a:1"]}'], 2),
    (["--unless", '{"tags": "a:1"}'], 2),
    (["--unless", '{"tags": ['], 2),
    (ITEMS, 2),
    (["--unless", "a:1", "--unless-after", "99"], 1),
    (["--unless", "a:1", "--unless-after", "-1"], 1),
    (["--unless", "a:1", "--unless-after", "x"], 1),
    (["--unless", "a:1", "--unless-after", ""], 1),
    (["--unless", "a:1", "--unless-beyond", "-1"], 2),
    (["--unless-after", "0"], 2),
    (["--unless-beyond", "1"], 2),
]


@pytest.mark.parametrize(("options", "status"), BAD, ids=range(len(BAD)))
def test_bad_input_is_refused_by_name(tally, joined, url, options, status):
    """TAG-01, TAG-02: one line that names the rule, no stack trace, and nothing is written."""
    joined("sub/1", "b:1")
    before = tally("export", url).stdout
    refused = joined("sub/1", "a:1", options=options)
    assert refused.exit_code == status, refused.stderr
    assert "Traceback" not in refused.stderr
    assert len([line for line in refused.stderr.splitlines() if "rror: " in line]) == 1
    assert tally("export", url).stdout == before


def test_a_consultation_needs_items(tally, joined, url):
    """TAG-02: an empty query, too many items, and a store that does not exist are refused."""
    joined("sub/1", "b:1")
    for items in ([], [""], ["no_type!"], [f"t:{number}" for number in range(65)]):
        assert tally("consult", url, *items).exit_code == 2, items
    assert tally("consult", url, "{}", "--after", "x").exit_code == 1
    assert tally("consult", "files:none", "{}").exit_code == 2
    assert len(json.loads(tally("consult", url, "{}", "--json").stdout)["events"]) == 1


def test_a_marker_of_another_store_is_refused(tally, joined, url):
    """TAG-02: its positions mean other events."""
    joined("sub/1", "b:1")
    tally("append", "files:other", "sub/1", JOINED, "{}", "--tag", "b:1")
    marker = json.loads(tally("consult", "files:other", "b:1", "--json").stdout)["marker"]
    refused = joined("sub/1", "a:1", options=["--unless", "a:1", "--unless-after", marker["after"]])
    assert refused.exit_code == 1
    assert "does not belong to this history" in refused.stderr


def test_an_engine_without_conditions_says_so(tally):
    """TAG-02: a store of runs keeps tags, and refuses conditions by name."""
    assert tally("append", "ndjson:runs", "run/1", "step.done", "{}", "--tag", "a:1").exit_code == 0
    for command in (
        ["append", "ndjson:runs", "run/1", "step.done", "{}", "--unless", "a:1"],
        ["consult", "ndjson:runs", "a:1"],
    ):
        refused = tally(*command)
        assert refused.exit_code == 1
        assert "does not offer conditions" in refused.stderr
    assert tally("read", "ndjson:runs", "--json").stdout.count("\n") == 1

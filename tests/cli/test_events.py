"""`tally read`, `tail`, `streams`, `audit` and `export`."""

from __future__ import annotations

import hashlib
import json

import pytest

FIELDS = [
    "position",
    "stream",
    "seq",
    "type",
    "version",
    "id",
    "time",
    "payload",
    "meta",
    "checksum",
    "link",
    "signature",
]
READERS = ["read", "tail", "streams", "audit", "export", "verify", "doctor", "migrate"]


@pytest.fixture
def filled(tally, url):
    """A store with six events in three streams of two orgs."""
    events = [
        {
            "stream": f"{kind}/{n}",
            "type": f"{kind}.made",
            "payload": {"n": n},
            "meta": {"org": org, "app": "shop"},
            "time": n,
        }
        for n in (1, 2)
        for kind, org in (("order", "acme"), ("invoice", "acme"), ("order.x", "blue"))
    ]
    tally("import", url, "-", stdin="".join(json.dumps(event) + "\n" for event in events))
    return url


@pytest.mark.parametrize("reader", READERS)
def test_a_missing_store_is_not_created_by_reading(tally, tmp_path, url, reader):
    """Reading a store that does not exist exits with 2 and creates nothing."""
    result = tally(reader, url)
    assert result.exit_code == 2
    assert "there is no store at" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("place", ["log", "redis:log", "files:"])
def test_a_url_without_an_engine_cannot_be_opened(tally, reader, place):
    """An unknown URL exits with 2 and lists the known ones."""
    result = tally(reader, place)
    assert result.exit_code == 2
    assert "files:DIR" in result.stderr


@pytest.mark.parametrize(
    ("options", "positions"),
    [
        ([], [1, 2, 3, 4, 5, 6]),
        (["--after", "2", "--until", "4"], [3, 4]),
        (["--limit", "2"], [1, 2]),
        (["--limit", "2", "--after", "5"], [6]),
        (["--stream", "order/1"], [1]),
        (["--stream", "order/1", "--stream", "order/2"], [1, 4]),
        (["--type", "invoice.made"], [2, 5]),
        (["--kind", "order"], [1, 4]),
        (["--org", "blue"], [3, 6]),
        (["--app", "shop", "--env", "test"], []),
        (["--from", "2"], [4, 5, 6]),
        (["--to", "2"], [1, 2, 3]),
        (["--until", "999"], [1, 2, 3, 4, 5, 6]),
    ],
    ids=str,
)
def test_read_filters_and_keeps_the_order(tally, filled, lines, options, positions):
    """CP-09: reads filter by org, app, env and type, by cursor and limit, and never break ascending order."""
    found = lines(tally("read", filled, "--json", *options))
    assert [event["position"] for event in found] == positions


@pytest.mark.parametrize(
    "option", [["--stream", "Order"], ["--type", "1"], ["--after", "-1"], ["--limit", "0"], ["--from", "x"]]
)
def test_a_filter_that_cannot_be_understood_is_usage(tally, filled, option):
    """Exit 2: nothing could be checked."""
    assert tally("read", filled, *option).exit_code == 2


def test_people_read_one_line_an_event(tally, filled):
    """Without --json a line has position, time, stream, seq, type and payload, uncut when piped."""
    first = tally("read", filled).stdout.splitlines()[0]
    assert first.split() == ["1", "1970-01-01T00:00:00.000000001Z", "order/1#1", "order.made", '{"n":1}']


def test_what_could_steer_a_terminal_is_shown_escaped(tally, lines):
    """Control and direction characters of a payload reach a terminal only as escapes; JSON keeps them."""
    payload = '{"a":"\u009b31m\u202e"}'
    tally("append", "sqlite:a.db", "order/1", "order.placed", payload)
    assert "\\x9b31m\\u202e" in tally("read", "sqlite:a.db").stdout
    assert lines(tally("read", "sqlite:a.db", "--json"))[0]["payload"] == json.loads(payload)


@pytest.mark.parametrize(
    ("options", "positions"),
    [
        ([], [1, 2, 3, 4, 5, 6]),
        (["-n", "2"], [5, 6]),
        (["-n", "0"], []),
        (["-n", "1", "--stream", "order/1"], [1]),
        (["-n", "9", "--kind", "invoice"], [2, 5]),
    ],
    ids=str,
)
def test_tail_shows_the_last_of_the_selected(tally, filled, lines, options, positions):
    """The newest selected events are printed, however far back they are."""
    assert [event["position"] for event in lines(tally("tail", filled, "--json", *options))] == positions


def test_streams_are_listed_by_name(tally, filled, lines):
    """Each stream has its last seq, org and last link; kinds with a common prefix are not mixed up."""
    found = lines(tally("streams", filled, "--json"))
    names = [item["stream"] for item in found]
    assert names == ["invoice/1", "invoice/2", "order.x/1", "order.x/2", "order/1", "order/2"]
    assert [item["stream"] for item in lines(tally("streams", filled, "--kind", "order", "--json"))] == names[4:]
    assert [item["stream"] for item in lines(tally("streams", filled, "--org", "blue", "--json"))] == names[2:4]
    assert found[0]["seq"] == 1
    shown = tally("streams", filled).stdout.splitlines()
    assert shown[0].split() == ["stream", "seq", "org", "link"]
    assert found[0]["link"] in shown[1]


def test_audit_shows_control_facts_alone(tally, filled, lines):
    """The audit trail has what was done to the store, and no event of a user."""
    assert tally("audit", filled).stdout == ""
    tally("append", filled, "order/9", "order.made", "{}", "--secrets", "warn", "--meta", "org=acme")
    found = lines(tally("audit", filled, "--json"))
    assert [(fact["type"], fact["payload"]["new"]) for fact in found] == [("tally.setting.changed", "warn")]
    assert tally("audit", filled, "--org", "acme").stdout == ""
    assert tally("audit", filled, "--actor", "someone").stdout == ""
    assert tally("audit", filled, "--run", "7").stdout == ""
    assert tally("audit", filled, "--to", "2020-01-01").stdout == ""
    assert lines(tally("audit", filled, "--from", "2020-01-01", "--json")) == found


def test_export_has_every_field_and_the_stored_bytes(tally, filled):
    """A line has the whole envelope, with the payload byte for byte as it was hashed."""
    line = tally("export", filled, "--until", "1").stdout
    fields = json.loads(line)
    assert list(fields) == FIELDS
    payload = line[line.index('"payload":') + len('"payload":') : line.index(',"meta"')]
    assert hashlib.sha256(payload.encode()).hexdigest() == fields["checksum"]
    assert fields["signature"] is None


def test_export_filters_like_read(tally, filled, lines):
    """Bounds and selection choose the lines."""
    assert [item["position"] for item in lines(tally("export", filled, "--after", "1", "--org", "acme"))] == [2, 4, 5]


def test_an_empty_store_exports_nothing(tally, url):
    """An empty selection exports no lines and is no error."""
    tally("import", url, "-", stdin="")
    result = tally("export", url)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_a_snapshot_of_a_stream_that_does_not_exist_is_not_made_in_silence(tally, filled, lines):
    """SAFE-05: exit status 1, and the snapshots of the other streams are made or listed."""
    reducer = ("--reducer", "tallystick.testing.contract.tampered:count")
    for asked in (reducer, ("--list",)):
        found = tally("snapshot", filled, "order/9", "order/1", *asked, "--json")
        assert (found.exit_code, [made["stream"] for made in lines(found)]) == (1, ["order/1"])
        assert found.stderr == f"there is no stream 'order/9' in {filled}\n"
    assert tally("snapshot", filled, "order/1", *reducer).exit_code == 0


def test_the_state_of_a_stream_that_does_not_exist_is_refused(tally, url):
    """SAFE-05: it is an error, not the initial state with status 0."""
    tally("append", url, "order/1", "thing.happened", "{}")
    reducer = ("--reducer", "tallystick.testing.contract.tampered:count")
    assert tally("state", url, "order/1", *reducer).exit_code == 0
    found = tally("state", url, "order/2", *reducer)
    assert found.exit_code == 1
    assert "no stream 'order/2'" in found.stderr


@pytest.mark.parametrize("reader", ["read", "tail", "export"])
def test_a_stream_that_does_not_exist_is_named(tally, filled, reader):
    """SAFE-05: exit status 1, and the events of the other streams. A stream without a selected event is no error."""
    found = tally(reader, filled, "--stream", "order/9", "--stream", "order/1", "--stream", "order/8")
    assert found.exit_code == 1
    assert [line for line in found.stderr.splitlines() if "no stream" in line] == [
        f"there is no stream {name!r} in {filled}" for name in ("order/8", "order/9")
    ]
    assert found.stdout == tally(reader, filled, "--stream", "order/1").stdout != ""
    found = tally(reader, filled, "--stream", "order/1", "--type", "invoice.made")
    assert (found.exit_code, found.stdout, found.stderr) == (0, "", "")

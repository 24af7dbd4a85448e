"""`tally append`."""

from __future__ import annotations

import json

import pytest

import tallystick

ID = "0199b000-0000-7000-8000-000000000001"


def test_the_first_append_creates_the_store(tally, url):
    """The first event creates the store."""
    result = tally("append", url, "order/1", "order.placed", '{"total":10}', "--json")
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert (answer["stream"], answer["seq"], answer["position"], answer["stored"]) == ("order/1", 1, 1, False)
    assert len(answer["link"]) == 64
    assert len(answer["id"]) == 36


def test_a_person_sees_where_the_event_went(tally):
    """Without --json, the position and the link are printed as names and values."""
    shown = tally("append", "sqlite:a.db", "order/1", "order.placed").stdout
    assert "position  1" in shown
    assert "order/1" in shown


def test_a_wrong_expectation_is_a_no(tally, url):
    """A conflict exits with 1, names both numbers, and gives advice."""
    tally("append", url, "order/1", "order.placed")
    result = tally("append", url, "order/1", "order.placed", "--expected", "none")
    assert result.exit_code == 1
    assert "error: stream 'order/1' is at seq 1, expected 0" in result.stderr
    assert "\n  Read the stream" in result.stderr


def test_a_right_expectation_passes(tally, url):
    """If the stream is at the expected seq, the event is appended."""
    tally("append", url, "order/1", "order.placed", "--expected", "none")
    assert tally("append", url, "order/1", "order.paid", "--expected", "1").exit_code == 0


def test_an_error_is_json_if_json_was_asked_for(tally):
    """With --json the error is one JSON object on stderr, and stdout stays empty."""
    result = tally("append", "sqlite:a.db", "order/1", "order.placed", "--expected", "7", "--json")
    assert json.loads(result.stderr)["error"] == "Conflict"
    assert json.loads(result.stderr)["values"] == {"stream": "order/1", "expected": 7, "actual": 0}
    assert result.stdout == ""


def test_a_retry_with_the_same_id_writes_nothing(tally, url, lines):
    """The same id and content is stored once, and the second answer says so."""
    first = tally("append", url, "order/1", "order.placed", "{}", "--id", ID, "--json")
    again = tally("append", url, "order/1", "order.placed", "{}", "--id", ID, "--json")
    assert json.loads(again.stdout) == json.loads(first.stdout) | {"stored": True}
    assert len(lines(tally("read", url, "--json"))) == 1


def test_the_payload_comes_from_stdin_on_request(tally, lines):
    """`-` reads the payload from stdin."""
    tally("append", "sqlite:a.db", "order/1", "order.placed", "-", stdin='{ "b": 1, "a": "é" }')
    assert lines(tally("read", "sqlite:a.db", "--json"))[0]["payload"] == {"a": "é", "b": 1}


def test_meta_has_texts_json_and_paths(tally, lines):
    """KEY=TEXT is text, KEY:=JSON is JSON, and dots make objects."""
    meta = ["--meta", "org=acme", "--meta", "count:=7", "--meta", "tags.a=b", "--meta", "tags.c=d=e"]
    assert tally("append", "sqlite:a.db", "order/1", "order.placed", "{}", *meta).exit_code == 0
    found = lines(tally("read", "sqlite:a.db", "--json"))[0]["meta"]
    assert found == {"org": "acme", "count": 7, "tags": {"a": "b", "c": "d=e"}}


def test_id_time_and_version_are_taken_as_given(tally, lines):
    """The store keeps what the user gives."""
    given = ["--id", ID, "--time", "2026-01-31T12:00:00.000000007+01:00", "--version", "3"]
    tally("append", "sqlite:a.db", "order/1", "order.placed", "{}", *given)
    found = lines(tally("read", "sqlite:a.db", "--json"))[0]
    assert (found["id"], found["time"], found["version"]) == (ID, 1769857200000000007, 3)


@pytest.mark.parametrize(
    "option",
    [
        ["--expected", "soon"],
        ["--expected", "-3"],
        ["--meta", "no-sign"],
        ["--meta", "=x"],
        ["--meta", "a=1", "--meta", "a=2"],
        ["--meta", "a=1", "--meta", "a.b=2"],
        ["--meta", "a:={"],
        ["--id", "42"],
        ["--time", "yesterday"],
        ["--time", "2026-02-30"],
        ["--profile", "none"],
        ["--unknown"],
    ],
    ids=" ".join,
)
def test_an_option_that_cannot_be_understood_is_usage(tally, tmp_path, option):
    """Usage errors exit with 2 and create nothing."""
    assert tally("append", "sqlite:a.db", "order/1", "order.placed", "{}", *option).exit_code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "payload", ["{", "[]", "7", '{"a":1,"a":2}', '{"a":NaN}', '{"a":1e999}', '{"a":18446744073709551616}']
)
def test_a_payload_that_is_no_canonical_object_is_refused(tally, tmp_path, payload):
    """A bad payload exits with 1 and creates nothing."""
    result = tally("append", "sqlite:a.db", "order/1", "order.placed", payload)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: payload")
    assert list(tmp_path.iterdir()) == []


def test_a_profile_is_fixed_at_creation(tally):
    """The profile given with the first append holds for all later ones."""
    tally("append", "sqlite:a.db", "order/1", "order.placed", "{}", "--profile", "lighthouse", "--meta", "source=shop")
    missing = tally("append", "sqlite:a.db", "order/1", "order.placed")
    assert missing.exit_code == 1
    assert "source" in missing.stderr
    assert tally("append", "sqlite:a.db", "order/1", "order.placed", "{}", "--profile", "run").exit_code == 1


def test_secrets_are_refused_until_the_store_says_otherwise(tally):
    """CP-11: the guard refuses what looks like a secret; `--secrets off` is recorded in the audit trail."""
    secret = '{"key":"ghp_' + "a1B2" * 9 + '"}'
    refused = tally("append", "sqlite:a.db", "order/1", "order.placed", secret)
    assert refused.exit_code == 1
    assert "ghp_" not in refused.stderr
    assert tally("append", "sqlite:a.db", "order/1", "order.placed", secret, "--secrets", "off").exit_code == 0
    assert "tally.setting.changed" in tally("audit", "sqlite:a.db").stdout


@pytest.mark.parametrize("engine", ["files", "sqlite", "ndjson"])
@pytest.mark.parametrize(
    "place", ["s3://bucket/log", "hdfs:/log", "file:log", "file:///log", " gs://b/x", "s3_a://b/x"]
)
def test_a_url_is_no_place_for_a_log(tally, tmp_path, engine, place):
    """SAFE-07: a URL is not taken for a directory; `./` in front says that a directory is meant."""
    found = tally("append", f"{engine}:{place}", "run/1", "order.placed", "{}")
    assert found.exit_code == 2
    assert "a URL" in found.stderr
    assert list(tmp_path.iterdir()) == []
    tallystick.open(f"{engine}:./s3:/log").close()
    assert (tmp_path / "s3:" / "log").exists()

"""`tally tail --follow` while another process writes."""

from __future__ import annotations

import json
import signal
import sys

import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is not a signal to one process there")
def test_a_follower_sees_every_event_and_stops_at_ctrl_c(tally, start, url):
    """EVT-06: events appended by other processes appear in order, once each; Ctrl-C ends it quietly with 0."""
    tally("append", url, "order/1", "order.placed", '{"n":0}')
    follower = start("tail", url, "--follow", "-n", "1", "--json")
    assert json.loads(follower.stdout.readline())["payload"] == {"n": 0}
    for number in (1, 2):
        tally("append", url, "order/1", "order.placed", json.dumps({"n": number}))
        assert json.loads(follower.stdout.readline())["position"] == number + 1
    lines = '{"stream":"order/2","type":"order.placed","payload":{}}\n' * 2500
    tally("import", url, "-", "--batch", "2500", stdin=lines)  # one commit, more than a page
    assert [json.loads(follower.stdout.readline())["position"] for _ in range(2500)] == list(range(4, 2504))
    follower.send_signal(signal.SIGINT)
    out, complaints = follower.communicate(timeout=60)
    assert (follower.returncode, out, complaints) == (0, "", "")


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is not a signal to one process there")
def test_a_follower_shows_only_what_was_asked_for(tally, start):
    """A filter also applies to new events, and others do not stop the follower."""
    url = "sqlite:log.db"
    tally("append", url, "order/1", "order.paid")
    follower = start("tail", url, "-f", "-n", "1", "--type", "order.paid", "--json")
    assert json.loads(follower.stdout.readline())["position"] == 1
    tally("append", url, "order/1", "order.placed")
    tally("append", url, "order/1", "order.paid")
    assert json.loads(follower.stdout.readline())["position"] == 3
    follower.send_signal(signal.SIGINT)
    assert follower.wait(60) == 0

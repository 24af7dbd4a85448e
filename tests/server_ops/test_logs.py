"""Logs: JSON, a line a record, and nothing of what clients send as content."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tallystick import errors
from tallystick.server import logs
from tallystick.server.access import Need
from tallystick.server.http.route import HttpRequest, Route

TALLY = [sys.executable, "-c", "from tallystick.cli.main import main; main()"]
MARKS = ("payload-mark", "meta-mark", "query-mark", "header-mark", "name-mark", "bad-mark", "actor-mark")


def ask_everything(client: httpx.Client) -> None:
    """Requests that succeed, are refused and are malformed, each full of marks."""
    path = "/v1/streams/note/name-mark/events"
    event = {"type": "noted", "payload": {"text": "payload-mark"}, "meta": {"note": "meta-mark"}}
    assert client.post(path, json={"events": [event]}, headers={"x-note": "header-mark"}).status_code == 201
    assert client.post(path, json={"events": [event], "expected": 7}).status_code == 409
    assert client.post(path, json={"events": [event | {"payload": "bad-mark"}]}).status_code == 422
    assert client.post(path, content=b'{"events": bad-mark', headers={"content-type": "text/plain"}).status_code == 415
    assert client.get("/v1/events", params={"stream": "note/name-mark", "after": "query-mark"}).status_code == 422
    assert client.get("/v1/events", params={"org": "query-mark"}).status_code == 200
    assert client.post("/v1/tokens", json={"kind": "bad-mark", "actor": "actor-mark"}).status_code == 422
    assert client.get("/v1/jobs", headers={"authorization": "Bearer header-mark"}).status_code == 401
    assert client.get("/nowhere/name-mark?x=query-mark").status_code == 404


def test_no_byte_of_what_was_sent_is_in_the_log(tmp_path: Path):
    """LH-17: a service at its most verbose logs every request as JSON, without payload, meta, query or header."""
    command = [*TALLY, "serve", f"files:{tmp_path / 'log'}", "--port", "0", "--json"]
    environment = dict(os.environ, TALLY_LOG="debug")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        with httpx.Client(base_url=address, timeout=30) as client:
            ask_everything(client)
            issued = client.post("/v1/tokens", json={"kind": "admin", "actor": "root"}).json()["token"]
            assert client.get("/v1/jobs", headers={"authorization": f"Bearer {issued}"}).status_code == 200
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    records = [json.loads(line) for line in err.splitlines()]
    assert not [mark for mark in MARKS if mark.encode() in err]
    assert issued.encode() not in err
    requests = [record for record in records if record["message"] == "request"]
    assert len(requests) == 11
    assert requests[0] | {"method": "POST", "status": 201, "by": "local"} == requests[0]
    assert all(record["request_id"] and record["ms"] >= 0 for record in requests)


def test_an_internal_error_is_a_problem_that_quotes_nothing(serve):
    """Whatever goes wrong in a handler, the response is problem+json with the request id, and without the reason."""
    running = serve()

    def broken(request: HttpRequest) -> None:
        raise ValueError("payload-mark")

    running._server.app.routes.append(Route("GET", "/v1/broken", Need.OPEN, broken))
    answer = running.client.get("/v1/broken", headers={"x-request-id": "r-1"})
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == "r-1"
    assert "payload-mark" not in answer.text


def test_a_failure_in_the_middle_of_a_response_ends_the_connection(serve):
    """No second response is sent into the first one: the client sees that the body is incomplete."""

    class Half(Response):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            raise errors.NothingHere()

    def begun(request: HttpRequest) -> Response:
        return Half()

    running = serve()
    running._server.app.routes.append(Route("GET", "/v1/half", Need.OPEN, begun))
    with pytest.raises(httpx.RemoteProtocolError):
        running.client.get("/v1/half")
    assert running.client.get("/health").status_code == 200


@pytest.fixture
def lines() -> Any:
    """Run something with our logging, and give back what it logged."""

    def logged(work: Any, *, level: int = logging.DEBUG) -> list[dict[str, Any]]:
        stream = io.StringIO()
        root = logging.getLogger().level
        try:
            with logs.Logs(stream=stream, level=level):
                work()
        finally:
            logging.getLogger().setLevel(root)
            logging.getLogger(logs.OURS).setLevel(logging.NOTSET)
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    return logged


def test_an_exception_is_logged_only_by_type_and_place(lines):
    """The message of an exception may quote an event; where it was raised may not."""

    def work() -> None:
        try:
            raise ValueError("payload-mark")
        except ValueError:
            logs.logger.exception("a request failed", extra={"request_id": "r-1"})

    (record,) = lines(work)
    assert (record["error"], record["request_id"], record["level"]) == ("ValueError", "r-1", "error")
    assert record["at"][-1].startswith("test_logs.py:")
    assert "payload-mark" not in json.dumps(record)


def test_what_other_libraries_warn_of_is_cut_to_its_template(lines):
    """Their arguments may be anything that a client sent."""
    (record,) = lines(lambda: logging.getLogger("other.library").error("cannot take %s", "payload-mark"))
    assert record["message"] == "cannot take %s"


@pytest.mark.parametrize(
    ("status", "seconds", "level"),
    [(201, 0.01, "debug"), (201, 2.0, "warning"), (404, 0.01, "info"), (500, 0.01, "error"), (503, 0.01, "info")],
)
def test_the_level_says_how_much_a_request_matters(lines, status, seconds, level):
    """Failures are errors, slow ones warnings, refusals information, the rest is for debugging."""
    (record,) = lines(lambda: logs.request(method="GET", route="/x", status=status, seconds=seconds))
    assert record["level"] == level


def test_by_default_a_request_that_went_well_is_not_logged(lines):
    """At thousands of requests per second the log would be larger than the events."""
    told = lines(lambda: logs.request(method="GET", route="/x", status=200, seconds=0.01), level=logging.INFO)
    assert told == []


def test_a_reader_that_stops_does_not_stop_the_service():
    """Lines past the bound are dropped and counted. Logging never waits."""
    log = logs.Logs(stream=io.StringIO())
    record = logging.LogRecord("tallystick", logging.INFO, "", 0, "x", (), None)
    for _ in range(logs.QUEUE_MAX + 5):
        log._handler.emit(record)
    assert log.dropped == 5


def test_a_level_that_does_not_exist_is_refused():
    """A wrong TALLY_LOG is refused before the service starts."""
    assert logs.level_from({}) == logging.WARNING
    with pytest.raises(errors.InvalidValue):
        logs.level_from({"TALLY_LOG": "loud"})

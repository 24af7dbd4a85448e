"""Logs as JSON, one line per record, on stderr. They contain nothing of an event: no payload, meta, query or header.

Our records are a fixed sentence and named fields. Of the records of other libraries above INFO only the template is
kept, and of an exception only its type and where it was raised, because a message may quote what a client sent.

A slow reader of stderr must not stop the service: lines wait in a bounded queue. If it is full, they are dropped and
counted.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from types import TracebackType
from typing import Any, TextIO

import msgspec

from tallystick import errors

VARIABLE = "TALLY_LOG"
LEVELS = {"error": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}
SLOW_SECONDS = 1.0
QUEUE_MAX = 10_000
FRAMES_MAX = 20

OURS = "tallystick"
_FIELDS = "tally_fields"

logger = logging.getLogger("tallystick.server")


def log(level: int, message: str, **fields: Any) -> None:
    """Log a fixed sentence with fields. Fields are numbers, names and ids, never content that a client sent."""
    if logger.isEnabledFor(level):
        logger.log(level, message, extra={_FIELDS: fields})


def request(*, method: str, route: str, status: int, seconds: float, patient: bool = False, **fields: Any) -> None:
    """Log a request: a failure as an error, a slow one as a warning, a refusal as information, others for debugging."""
    level = logging.DEBUG
    if status >= 500 and status != 503:
        level = logging.ERROR
    elif seconds >= SLOW_SECONDS and not patient:
        level = logging.WARNING
    elif status >= 400:
        level = logging.INFO
    if logger.isEnabledFor(level):
        known = {"method": method, "route": route, "status": status, "ms": round(seconds * 1000, 3)}
        logger.log(level, "request", extra={_FIELDS: known | fields})


def level_from(environment: Mapping[str, str]) -> int:
    """The level that is set in the environment."""
    name = environment.get(VARIABLE, "warning").strip().lower()
    if name not in LEVELS:
        raise errors.InvalidValue(what=VARIABLE, value=name[:40], must="one of " + ", ".join(LEVELS))
    return LEVELS[name]


class JsonFormatter(logging.Formatter):
    """A record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        found.update(getattr(record, _FIELDS, {}))
        if (request_id := getattr(record, "request_id", None)) is not None:
            found["request_id"] = request_id
        if record.exc_info and record.exc_info[0] is not None:
            found["error"] = record.exc_info[0].__name__
            found["at"] = _frames(record.exc_info[2])
        return msgspec.json.encode(found, enc_hook=lambda value: type(value).__name__).decode()


def _message(record: logging.LogRecord) -> str:
    trusted = record.name.partition(".")[0] == OURS or record.levelno <= logging.INFO
    return record.getMessage() if trusted else str(record.msg).strip()


def _frames(trace: Any) -> list[str]:
    """Where an exception was raised, innermost last."""
    frames = traceback.extract_tb(trace)[-FRAMES_MAX:]
    return [f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]


class _Dropping(QueueHandler):
    """Queues lines without waiting."""

    dropped = 0

    def prepare(self, record: logging.LogRecord) -> Any:
        return self.format(record)

    def enqueue(self, record: Any) -> None:
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1


class _Printing(logging.Handler):
    """Prints formatted lines."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def handle(self, record: Any) -> bool:
        try:
            self._stream.write(f"{record}\n")
            self._stream.flush()
        except (OSError, ValueError):  # the reader has gone
            return False
        return True


class Logs:
    """The logging of a process, from `start` to `stop`."""

    def __init__(self, *, stream: TextIO | None = None, level: int = logging.INFO) -> None:
        waiting: queue.Queue[Any] = queue.Queue(QUEUE_MAX)
        self._handler = _Dropping(waiting)
        self._handler.setFormatter(JsonFormatter())
        self._listener = QueueListener(waiting, _Printing(stream or sys.stderr))
        self._level = level

    @property
    def dropped(self) -> int:
        """The number of dropped lines."""
        return self._handler.dropped

    def __enter__(self) -> Logs:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Take over the root logger. The access log of the HTTP server is silenced, because it shows queries."""
        self._listener.start()
        root = logging.getLogger()
        root.addHandler(self._handler)
        root.setLevel(max(self._level, logging.INFO))
        logging.getLogger(OURS).setLevel(self._level)
        for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
            other = logging.getLogger(name)
            other.handlers.clear()
            other.propagate = name != "uvicorn.access"

    def stop(self) -> None:
        """Print the queued lines, and give the root logger back."""
        logging.getLogger().removeHandler(self._handler)
        self._listener.stop()

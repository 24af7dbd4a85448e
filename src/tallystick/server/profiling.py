"""Where the time goes: the stacks of every thread, looked at a hundred times a second for a while.

The result is folded stacks (`thread;outer;inner count`), which flame graph tools read. Only names of code are in them.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from types import FrameType
from typing import Any

from tallystick.server.jobs import Job, Progress
from tallystick.server.service import Service

EVERY_SECONDS = 0.01
SECONDS_MAX = 60.0
FRAMES_MAX = 60
STACKS_MAX = 2000


def begin_profile(service: Service, *, seconds: float, by: str) -> Job:
    """Look at all threads for so many seconds, in the background."""
    looks = max(1, round(seconds / EVERY_SECONDS))
    return service.operations.jobs.begin("profile", lambda progress: _sampled(looks, progress), total=looks, by=by)


def _sampled(looks: int, progress: Progress) -> dict[str, Any]:
    found: Counter[str] = Counter()
    own = threading.get_ident()
    for look in range(1, looks + 1):
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():
            if ident != own:
                found[folded(names.get(ident, "thread"), frame)] += 1
        progress(look)
        time.sleep(EVERY_SECONDS)
    return {"looks": looks, "every_ms": EVERY_SECONDS * 1000, "stacks": dict(found.most_common(STACKS_MAX))}


def folded(thread: str, frame: FrameType | None) -> str:
    """A stack as one line, the innermost last."""
    steps: list[str] = []
    while frame is not None and len(steps) < FRAMES_MAX:
        code = frame.f_code
        steps.append(f"{os.path.basename(code.co_filename)}:{code.co_name}")
        frame = frame.f_back
    return ";".join([thread, *reversed(steps)])

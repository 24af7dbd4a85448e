"""A writer to be killed: forks a child for each line `DIRECTORY SEED` on its input.

The child opens the store, appends without end, and writes `ack POSITION ID LINK` for each event that was acknowledged.
When it is gone the parent writes `gone`. Forking spares the start of an interpreter for every round.
"""

from __future__ import annotations

import os
import random
import sys

import tallystick
from tallystick import NewEvent


def write(directory: str, seed: str) -> None:
    """Append until killed."""
    dice = random.Random(seed)
    store = tallystick.open(f"files:{directory}", segment_bytes_max=20_000, compress_bytes_min=4000)
    while True:
        streams = dice.sample("abcdef", dice.choice((1, 1, 1, 2, 3)))
        parts = [
            (f"order/{name}", [NewEvent("made", {"text": "x" * dice.randrange(600)})] * dice.randrange(1, 6), -1)
            for name in streams
        ]
        done = store.append_all(parts)
        lines = [f"ack {item.stream} {item.last_seq} {item.link.hex()}\n" for item in done]
        os.write(1, "".join(lines).encode())


def main() -> None:
    """Serve rounds until the input ends."""
    for line in sys.stdin:
        directory, seed = line.split()
        child = os.fork()
        if child == 0:
            try:
                write(directory, seed)
            finally:
                os._exit(1)
        os.write(1, f"pid {child}\n".encode())
        _, status = os.waitpid(child, 0)
        os.write(1, f"gone {os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    main()

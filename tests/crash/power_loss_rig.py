"""Real power losses for a real file system: ext4 on a loop device, shut down under a writer, mounted again.

Run under `unshare --mount`, so that no mount outlives it: power_loss_rig.py DIRECTORY ENGINE ROUNDS SEED. For each
round a child appends and acknowledges through a pipe; then the kernel is told to drop ext4 with or without its
journal's last buffers, as a power cut would. The last line printed is a JSON summary; the exit status is 1 if anything
was lost.

What is acknowledged once the cut has begun may be there or not: a kernel that shuts ext4 down can answer "done" to an
fsync that it drops (a bare write + fsync loses its last piece in the same way, on Linux 6.18 with a busy machine).
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TypeAlias

import tallystick
from tallystick import NewEvent
from tallystick.store.verify import verify

EXT4_IOC_SHUTDOWN = 0x8004587D
LOG_FLUSH, NO_LOG_FLUSH = 1, 2
DELAY_S_MAX = 0.03
EVENTS_IN_FLIGHT_MAX = 15

Told: TypeAlias = dict[str, tuple[int, str]]
"""The last seq and link of each stream that were acknowledged to a writer."""


def url(engine: str, mounted: Path) -> str:
    """Where the store is."""
    return f"{engine}:{mounted / 'store'}"


def write(engine: str, mounted: Path, seed: float, acknowledge: int) -> None:
    """Append until the disk is gone."""
    dice = random.Random(seed)
    options = {"segment_bytes_max": 20_000, "compress_bytes_min": 4000} if engine == "files" else {}
    store = tallystick.open(url(engine, mounted), **options)
    while True:
        streams = dice.sample("abcdef", dice.choice((1, 1, 1, 2, 3)))
        made = [NewEvent("made", {"text": "x" * dice.randrange(600)}) for _ in range(dice.randrange(1, 6))]
        done = store.append_all([(f"order/{name}", made, -1) for name in streams])
        lines = [f"{item.stream} {item.last_seq} {item.link.hex()}\n" for item in done]
        os.write(acknowledge, "".join(lines).encode())


def cut(mounted: Path, flag: int) -> None:
    """Take the power away from a mounted ext4."""
    place = os.open(mounted, os.O_RDONLY)
    try:
        fcntl.ioctl(place, EXT4_IOC_SHUTDOWN, struct.pack("I", flag))
    finally:
        os.close(place)


def lost_power(engine: str, mounted: Path, dice: random.Random) -> tuple[Told, Told]:
    """Let a child write and cut the power: what was acknowledged before it, and in all."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            write(engine, mounted, dice.random(), writing)
        finally:
            os._exit(0)
    os.close(writing)
    data, until = b"", 0.0
    while not until or time.monotonic() < until:
        if select.select([reading], [], [], 0.002)[0]:
            data += os.read(reading, 1 << 16)
            until = until or time.monotonic() + dice.random() * DELAY_S_MAX
    while select.select([reading], [], [], 0)[0]:
        data += os.read(reading, 1 << 16)
    before = told(data)
    cut(mounted, dice.choice((LOG_FLUSH, NO_LOG_FLUSH)))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while piece := os.read(reading, 1 << 16):
        data += piece
    os.close(reading)
    return before, told(data)


def told(data: bytes) -> Told:
    """The last seq and link of each stream that whole lines acknowledge."""
    whole = [line.split() for line in data.decode().splitlines(keepends=True) if line.endswith("\n")]
    return {stream: (int(seq), link) for stream, seq, link in whole}


def check(engine: str, mounted: Path, acknowledged: Told, late: Told, before: int) -> tuple[int, list[str]]:
    """Open what is left; the head, and what is wrong."""
    wrong = []
    with tallystick.open(url(engine, mounted)) as store:
        found = verify(store.log)
        wrong += [str(problem) for problem in found.problems]
        for stream, (seq, link) in acknowledged.items():
            events = store.read_stream(stream, after=seq - 1, limit=1)
            if not events or events[0].link.hex() != link:
                wrong.append(f"{stream} {seq} was acknowledged and is not there")
        most = sum(seq for seq, _ in late.values())
        if late and store.head() > before + most + EVENTS_IN_FLIGHT_MAX:
            wrong.append(f"{store.head()} events, of which {most} were acknowledged")
        return store.head(), wrong


def main() -> int:
    """Cut the power again and again."""
    place, engine, rounds, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    image, mounted = place / "disk.img", place / "mounted"
    mounted.mkdir()
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    dice, head, lost = random.Random(seed), 0, []
    for _ in range(rounds):
        subprocess.run(["mount", "-o", "loop", str(image), str(mounted)], check=True)
        acknowledged, late = lost_power(engine, mounted, dice)
        subprocess.run(["umount", str(mounted)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(mounted)], check=True)
        head, wrong = check(engine, mounted, acknowledged, late, head)
        lost += wrong
        subprocess.run(["umount", str(mounted)], check=True)
    print(json.dumps({"rounds": rounds, "events": head, "wrong": lost}))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())

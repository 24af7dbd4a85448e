"""One random damage to one store: a flip, a cut, zeroes, a swap or a removal, in any of its files."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

KINDS = ("flip", "flips", "cut", "zeroes", "swap", "exchange", "removal")
IN_PLACE = ("flip", "flips", "zeroes", "swap")
SECTOR = 512


def files_of(place: Path) -> list[Path]:
    """Every file of the store in `place`, in a fixed order; `model.json` is not part of it."""
    found = (path for path in place.rglob("*") if path.is_file() and path.name != "model.json")
    return sorted(found, key=lambda path: path.relative_to(place).as_posix())


def damaged(place: Path, dice: random.Random, *, in_place: bool = False) -> str:
    """Damage one file of the store; says what was done. `in_place`: it is open, and keeps its name and its size."""
    files = [path for path in files_of(place) if not (in_place and path.name.endswith("-shm"))]  # SQLite maps that one
    path, kind = dice.choice(files), dice.choice(IN_PLACE if in_place else KINDS)
    name = path.relative_to(place).as_posix()
    if kind == "removal" or (kind == "exchange" and len(files) == 1):
        path.unlink()
        return f"removal of {name}"
    if kind == "exchange":
        other = dice.choice([item for item in files if item != path])
        held = path.with_name("held")
        path.rename(held)
        other.rename(path)
        held.rename(other)
        return f"exchange of {name} and {other.relative_to(place).as_posix()}"
    data = bytearray(path.read_bytes())
    if not data and in_place:
        return f"nothing in {name}, which is empty"
    if not data:
        path.unlink()
        return f"removal of {name}, which is empty"
    what = _CHANGES[kind](data, dice)
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()
    return f"{kind} in {name}: {what}"


def _flip(data: bytearray, dice: random.Random) -> str:
    bit = dice.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    return f"bit {bit % 8} of byte {bit // 8}"


def _flips(data: bytearray, dice: random.Random) -> str:
    return ", ".join(_flip(data, dice) for _ in range(dice.randint(2, 6)))


def _cut(data: bytearray, dice: random.Random) -> str:
    length = dice.randrange(len(data))
    del data[length:]
    return f"after byte {length}"


def _zeroes(data: bytearray, dice: random.Random) -> str:
    begin, end = _range(data, dice)
    data[begin:end] = bytes(end - begin)
    return f"bytes {begin} to {end}"


def _swap(data: bytearray, dice: random.Random) -> str:
    size = min(SECTOR, max(1, len(data) // 4))
    first, second = (dice.randrange(max(1, len(data) // size)) * size for _ in range(2))
    one, other = bytes(data[first : first + size]), bytes(data[second : second + size])
    size = min(len(one), len(other))
    data[first : first + size], data[second : second + size] = other[:size], one[:size]
    return f"{size} bytes at {first} and at {second}"


def _range(data: bytearray, dice: random.Random) -> tuple[int, int]:
    if dice.random() < 0.5:
        begin = dice.randrange(len(data) // SECTOR + 1) * SECTOR
        return min(begin, len(data) - 1), min(len(data), begin + SECTOR * dice.randint(1, 4))
    begin = dice.randrange(len(data))
    return begin, min(len(data), begin + dice.randint(1, 200))


_CHANGES = {"flip": _flip, "flips": _flips, "cut": _cut, "zeroes": _zeroes, "swap": _swap}


def copied(sample: Path, place: Path) -> Path:
    """A copy of a sample, to be damaged."""
    shutil.copytree(sample, place)
    return place

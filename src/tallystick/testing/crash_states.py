"""The disks that a crash may leave: every moment of a recorded history, times what may have become of the unsynced.

Rules, those of strict POSIX and not of one file system: unsynced bytes may be absent, cut anywhere, zeros to the end
of the block or to the new size, stale, or missing any one sector; unsynced names may be there in any subset, a rename
at once or not at all; what was synced is fixed. A killed process is another matter: all it did is visible, and what
was unsynced still is.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from tallystick.testing.simulated_disk import Change, DiskState, Inode, SimulatedDisk, applied, reachable

SECTOR = 512
BLOCK = 4096
VARIANTS_MAX = 64
SHORT_VARIANTS_MAX = 4
DIRTY_FILES_MAX = 3
NAME_SUBSETS_MAX = 16
PER_MOMENT_MAX = 256
CUTS = (1, 3, 4, 5, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128)
FILLS = ("cut", "size", "block", "stale", "ones")

Item = TypeVar("Item")


class Choice(msgspec.Struct, frozen=True):
    """How a state came about: after how many operations, which pending names arrived, and what became of each file."""

    operations: int
    kind: str = "power"
    names: tuple[int, ...] = ()
    files: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        names = ",".join(map(str, self.names)) or "-"
        files = ",".join(f"{inode}={variant}" for inode, variant in self.files) or "-"
        return f"{self.operations} {self.kind} {names} {files}"

    @classmethod
    def parse(cls, text: str) -> Choice:
        """The choice that `str` printed."""
        operations, kind, names, files = text.split()
        chosen = () if names == "-" else tuple(map(int, names.split(",")))
        pairs = () if files == "-" else tuple(item.split("=") for item in files.split(","))
        return cls(int(operations), kind, chosen, tuple((int(inode), variant) for inode, variant in pairs))


class CrashState:
    """One disk that a crash may leave."""

    def __init__(self, choice: Choice, moment: DiskState) -> None:
        self.choice = choice
        self._moment = moment

    @property
    def operations(self) -> int:
        """After how many operations of the history the crash happened."""
        return self.choice.operations

    def image(self) -> dict[str, bytes | None]:
        """What is on the disk: paths with their bytes, None for a directory."""
        if self.choice.kind == "kill":
            return self._moment.image()
        names = dict(self._moment.durable_names)
        for index in self.choice.names:
            self._moment.pending_names[index].apply(names)
        variants = dict(self.choice.files)
        contents = {
            number: content(inode, variants[number]) if number in variants else inode.durable
            for number, inode in self._moment.inodes.items()
        }
        return reachable(names, contents, self._moment.inodes)

    def disk(self) -> SimulatedDisk:
        """The disk, ready to be opened: all durable after a power loss, what was pending still so after a kill."""
        if self.choice.kind == "kill":
            return SimulatedDisk(self._moment.clone())
        return SimulatedDisk.holding(self.image())

    def describe(self) -> str:
        """The choice, and what it means for each file and name: enough to replay it and to see what happened."""
        lines = [f"choice: {self.choice}"]
        for index, change in enumerate(self._moment.pending_names):
            arrived = self.choice.kind == "kill" or index in self.choice.names
            lines.append(f"  name of file {change.inode} -> {change.name}: {'arrived' if arrived else 'lost'}")
        paths = {inode: path for path, inode in self._moment.names.items()}
        for inode, variant in self.choice.files:
            durable, now = self._moment.inodes[inode].durable, self._moment.inodes[inode].data
            where = paths.get(inode, "without a name")
            lines.append(f"  file {inode} ({where}): {variant}, {len(durable)} bytes durable of {len(now)}")
        return "\n".join(lines)


def crash_states(
    recorded: SimulatedDisk, *, first: int = 0, per_moment_max: int = PER_MOMENT_MAX
) -> Iterator[CrashState]:
    """The states after each operation from `first` on, in a fixed order."""
    for operations, moment in moments(recorded):
        if operations >= first:
            yield CrashState(Choice(operations, "kill"), moment)
            for choice in thinned(list(power_losses(operations, moment)), per_moment_max):
                yield CrashState(choice, moment)


def replayed(recorded: SimulatedDisk, text: str) -> CrashState:
    """The state of a printed choice."""
    choice = Choice.parse(text)
    moment = next(state for operations, state in moments(recorded) if operations == choice.operations)
    return CrashState(choice, moment)


def moments(recorded: SimulatedDisk) -> Iterator[tuple[int, DiskState]]:
    """The state of the disk after 0, 1, 2 … operations."""
    state = recorded.origin.clone()
    yield 0, state.clone()
    for count, done in enumerate(recorded.operations, start=1):
        state.apply(done)
        yield count, state.clone()


def power_losses(operations: int, moment: DiskState) -> Iterator[Choice]:
    """Every choice at one moment: each dirty file in full beside short forms of the others, for each set of names."""
    dirty = [number for number, inode in moment.inodes.items() if inode.pending]
    dirty, quiet = dirty[-DIRTY_FILES_MAX:], dirty[:-DIRTY_FILES_MAX]
    full = {number: variants(moment.inodes[number]) for number in dirty}
    short = {number: ["none", "all", *thinned(full[number][2:], SHORT_VARIANTS_MAX - 2)] for number in dirty}
    seen: set[Choice] = set()
    for names in name_subsets(len(moment.pending_names)):
        for rest in ("none", "all") if quiet else ("none",):
            others = tuple((number, rest) for number in quiet)
            for main in dirty or [0]:
                lists = [full[number] if number == main else short[number] for number in dirty]
                for picked in itertools.product(*lists):
                    choice = Choice(operations, "power", names, (*others, *zip(dirty, picked, strict=True)))
                    if choice not in seen:
                        seen.add(choice)
                        yield choice


def name_subsets(count: int) -> list[tuple[int, ...]]:
    """Which of the pending names arrived: every subset of a few, the telling ones of many."""
    everything = tuple(range(count))
    if 1 << count <= NAME_SUBSETS_MAX:
        return [subset for size in range(count + 1) for subset in itertools.combinations(everything, size)]
    telling: list[tuple[int, ...]] = [(), everything]
    telling += [everything[:index] + everything[index + 1 :] for index in reversed(everything)]
    telling += [(index,) for index in reversed(everything)]
    telling += [everything[:index] for index in everything]
    return list(dict.fromkeys(telling))[: 2 * NAME_SUBSETS_MAX]


def variants(inode: Inode) -> list[str]:
    """What may have become of a file's pending changes, one name for each different outcome; `none` and `all` first."""
    count = len(inode.pending)
    cuts = _cuts(inode)
    versions = [f"ops:{index}" for index in range(count - 1, 0, -1)]
    versions += [f"without:{index}" for index in range(max(0, count - 8), count - 1)]
    always = ["none", "all", *thinned(versions, VARIANTS_MAX // 4)]
    always += [f"{fill}:{cut}" for cut in (*cuts[:2], *cuts[-1:]) for fill in FILLS]
    always += thinned([f"hole:{sector}" for sector in _sectors(inode.pending)], VARIANTS_MAX // 8)
    sampled = thinned([f"{fill}:{cut}" for cut in cuts[2:-1] for fill in FILLS], VARIANTS_MAX)
    different: dict[bytes, str] = {}
    for variant in always + sampled:
        different.setdefault(content(inode, variant), variant)
    found = list(different.values())
    return found[: len(always)] + thinned(found[len(always) :], VARIANTS_MAX - len(always))


def content(inode: Inode, variant: str) -> bytes:
    """The bytes of a file in one variant."""
    how, _, value = variant.partition(":")
    number = int(value or 0)
    if how == "none":
        return inode.durable
    if how == "all":
        return applied(inode.durable, inode.pending)
    if how == "ops":
        return applied(inode.durable, inode.pending[:number])
    if how == "without":
        return applied(inode.durable, inode.pending[:number] + inode.pending[number + 1 :])
    if how == "hole":
        return _with_hole(inode, number)
    return _cut(inode, number, how)


def _cut(inode: Inode, taken: int, fill: str) -> bytes:
    """The first `taken` bytes of what is pending; behind them nothing, zeros, ones or stale bytes."""
    arrived = _first_bytes(inode.pending, taken)
    found = applied(inode.durable, arrived)
    size = len(applied(inode.durable, inode.pending))
    if fill == "block":
        size = -(-len(found) // BLOCK) * BLOCK
    missing = max(0, size - len(found))
    if fill == "cut" or not missing:
        return found
    if fill == "stale" and inode.durable:
        return found + (inode.durable * (missing // len(inode.durable) + 1))[:missing]
    return found + (b"\xff" if fill == "ones" else b"\0") * missing


def _first_bytes(pending: Sequence[Change], taken: int) -> list[Change]:
    arrived = []
    for change in pending:
        if change.data is None:
            arrived.append(change)
            continue
        arrived.append(Change(change.offset, change.data[:taken]))
        taken -= len(change.data)
        if taken < 0:
            break
    return arrived


def _with_hole(inode: Inode, sector: int) -> bytes:
    """Everything arrived but one sector, which holds what it held before, or zeros where there was nothing."""
    found = bytearray(applied(inode.durable, inode.pending))
    start, end = sector * SECTOR, min((sector + 1) * SECTOR, len(found))
    found[start:end] = inode.durable[start:end].ljust(end - start, b"\0")
    return bytes(found)


def _cuts(inode: Inode) -> list[int]:
    """Where the newest write may be cut, counted in bytes of all that is pending: near its ends, and at each sector."""
    written = [change for change in inode.pending if change.data is not None]
    if not written:
        return []
    newest = written[-1]
    before = sum(len(change.data or b"") for change in written[:-1])
    size = len(newest.data or b"")
    sectors = range(-newest.offset % SECTOR, size, SECTOR)
    near = {0, *CUTS, size // 2, size - 33, size - 32, size - 31, size - 1, *sectors}
    return [before + cut for cut in sorted(near) if 0 <= cut < size]


def _sectors(pending: Iterable[Change]) -> list[int]:
    touched = {
        sector
        for change in pending
        if change.data
        for sector in range(change.offset // SECTOR, (change.offset + len(change.data) - 1) // SECTOR + 1)
    }
    return sorted(touched)


def thinned(items: list[Item], most: int) -> list[Item]:
    """At most so many of the items, in their order; drawn by lot, because even steps would fall in with a product's."""
    if len(items) <= most:
        return items
    drawn = random.Random(len(items)).sample(range(len(items)), most)
    return [items[index] for index in sorted(drawn)]

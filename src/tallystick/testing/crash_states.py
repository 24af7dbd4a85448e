"""The disks that a crash can leave: every moment of a recorded history, combined with every fate of unsynced changes.

The rules are those of strict POSIX, not of one file system. Unsynced bytes can be absent, cut anywhere, zeros to the
end of the block or to the new size, stale, or lack any one sector. Any subset of unsynced names can be there; a rename
is atomic. What was synced does not change. A killed process is different: everything it wrote is visible, and what was
unsynced stays unsynced.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from tallystick.testing.simulated_disk import ByteChange, DiskState, Inode, SimulatedDisk, applied, reachable

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


class CrashChoice(msgspec.Struct, frozen=True):
    """Identifies a state: the operations before the crash, the pending names that arrived, the fate of each file."""

    operations: int
    kind: str = "power"
    names: tuple[int, ...] = ()
    files: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        names = ",".join(map(str, self.names)) or "-"
        files = ",".join(f"{inode}={variant}" for inode, variant in self.files) or "-"
        return f"{self.operations} {self.kind} {names} {files}"

    @classmethod
    def parse(cls, text: str) -> CrashChoice:
        """Parse what `str` printed."""
        operations, kind, names, files = text.split()
        chosen = () if names == "-" else tuple(map(int, names.split(",")))
        pairs = () if files == "-" else tuple(item.split("=") for item in files.split(","))
        return cls(int(operations), kind, chosen, tuple((int(inode), variant) for inode, variant in pairs))


class CrashState:
    """One disk that a crash can leave."""

    def __init__(self, choice: CrashChoice, moment: DiskState) -> None:
        self.choice = choice
        self._moment = moment

    @property
    def operations(self) -> int:
        """The number of operations before the crash."""
        return self.choice.operations

    def image(self) -> dict[str, bytes | None]:
        """The paths on the disk with their bytes; None for a directory."""
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
        """The disk, ready to open. Everything is durable after a power loss; after a kill, changes stay pending."""
        if self.choice.kind == "kill":
            return SimulatedDisk(self._moment.clone())
        return SimulatedDisk.holding(self.image())

    def describe(self) -> str:
        """The choice, and what it means for each file and name. It is enough to replay the state."""
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
            yield CrashState(CrashChoice(operations, "kill"), moment)
            for choice in thinned(list(power_losses(operations, moment)), per_moment_max):
                yield CrashState(choice, moment)


def replayed(recorded: SimulatedDisk, text: str) -> CrashState:
    """The state of a printed choice."""
    choice = CrashChoice.parse(text)
    moment = next(state for operations, state in moments(recorded) if operations == choice.operations)
    return CrashState(choice, moment)


def moments(recorded: SimulatedDisk) -> Iterator[tuple[int, DiskState]]:
    """The state of the disk after 0, 1, 2 … operations."""
    state = recorded.origin.clone()
    yield 0, state.clone()
    for count, done in enumerate(recorded.operations, start=1):
        state.apply(done)
        yield count, state.clone()


def power_losses(operations: int, moment: DiskState) -> Iterator[CrashChoice]:
    """Every choice at one moment: all variants of each dirty file with a few of the others, for each set of names."""
    dirty = [number for number, inode in moment.inodes.items() if inode.pending]
    dirty, quiet = dirty[-DIRTY_FILES_MAX:], dirty[:-DIRTY_FILES_MAX]
    full = {number: variants(moment.inodes[number]) for number in dirty}
    short = {number: ["none", "all", *thinned(full[number][2:], SHORT_VARIANTS_MAX - 2)] for number in dirty}
    seen: set[CrashChoice] = set()
    for names in name_subsets(len(moment.pending_names)):
        for rest in ("none", "all") if quiet else ("none",):
            others = tuple((number, rest) for number in quiet)
            for main in dirty or [0]:
                lists = [full[number] if number == main else short[number] for number in dirty]
                for picked in itertools.product(*lists):
                    choice = CrashChoice(operations, "power", names, (*others, *zip(dirty, picked, strict=True)))
                    if choice not in seen:
                        seen.add(choice)
                        yield choice


def name_subsets(count: int) -> list[tuple[int, ...]]:
    """Which pending names arrived: every subset if there are few, a selection if there are many."""
    everything = tuple(range(count))
    if 1 << count <= NAME_SUBSETS_MAX:
        return [subset for size in range(count + 1) for subset in itertools.combinations(everything, size)]
    chosen: list[tuple[int, ...]] = [(), everything]
    chosen += [everything[:index] + everything[index + 1 :] for index in reversed(everything)]
    chosen += [(index,) for index in reversed(everything)]
    chosen += [everything[:index] for index in everything]
    return list(dict.fromkeys(chosen))[: 2 * NAME_SUBSETS_MAX]


def variants(inode: Inode) -> list[str]:
    """The possible outcomes of the pending changes of a file, one name for each. `none` and `all` come first."""
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
    """The first `taken` pending bytes, followed by nothing, zeros, ones or stale bytes."""
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


def _first_bytes(pending: Sequence[ByteChange], taken: int) -> list[ByteChange]:
    arrived = []
    for change in pending:
        if change.data is None:
            arrived.append(change)
            continue
        arrived.append(ByteChange(change.offset, change.data[:taken]))
        taken -= len(change.data)
        if taken < 0:
            break
    return arrived


def _with_hole(inode: Inode, sector: int) -> bytes:
    """Everything arrived except one sector. It holds its old bytes, or zeros if it had none."""
    found = bytearray(applied(inode.durable, inode.pending))
    start, end = sector * SECTOR, min((sector + 1) * SECTOR, len(found))
    found[start:end] = inode.durable[start:end].ljust(end - start, b"\0")
    return bytes(found)


def _cuts(inode: Inode) -> list[int]:
    """Where the newest write can be cut: near its ends and at each sector. Counted in bytes of everything pending."""
    written = [change for change in inode.pending if change.data is not None]
    if not written:
        return []
    newest = written[-1]
    before = sum(len(change.data or b"") for change in written[:-1])
    size = len(newest.data or b"")
    sectors = range(-newest.offset % SECTOR, size, SECTOR)
    near = {0, *CUTS, size // 2, size - 33, size - 32, size - 31, size - 1, *sectors}
    return [before + cut for cut in sorted(near) if 0 <= cut < size]


def _sectors(pending: Iterable[ByteChange]) -> list[int]:
    touched = {
        sector
        for change in pending
        if change.data
        for sector in range(change.offset // SECTOR, (change.offset + len(change.data) - 1) // SECTOR + 1)
    }
    return sorted(touched)


def thinned(items: list[Item], most: int) -> list[Item]:
    """At most `most` items, in order, drawn at random: even steps would coincide with the steps of a product."""
    if len(items) <= most:
        return items
    drawn = random.Random(len(items)).sample(range(len(items)), most)
    return [items[index] for index in sorted(drawn)]

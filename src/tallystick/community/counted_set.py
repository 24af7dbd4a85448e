"""The counted set: the events that count, in the merged order. It depends only on the feeds, the forks and the acts."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

from tallystick.community.acts import Act
from tallystick.community.entry import FeedEntry, Key
from tallystick.community.feeds import Feed, FeedHead
from tallystick.community.roster import Roster
from tallystick.community.types import KNOWN_TYPES, SCHEMA_VERSION

_FEW = 64


def code_of(entry: FeedEntry, fork: int | None, roster: Roster) -> str | None:
    """Why a stored event does not count; None if it counts. `fork` is where its author's feed forks."""
    if entry.type not in KNOWN_TYPES or entry.version != SCHEMA_VERSION:
        return "schema_unknown"
    if fork is not None and entry.seq >= fork:
        return "revoked_author"
    if roster.rank(entry.author, entry.key, entry.seq):
        return None
    return "revoked_author" if entry.author in roster.lines() else "unknown_author"


def stands(entry: FeedEntry, fork: int | None, roster: Roster, floor: Mapping[str, FeedHead]) -> bool:
    """Whether an event counts and lies above the floor."""
    below = floor.get(entry.author)
    return (below is None or entry.seq > below.seq) and code_of(entry, fork, roster) is None


class Counted:
    """The events that count, kept in order while feeds grow and judgements change."""

    def __init__(self) -> None:
        self.floor: Mapping[str, FeedHead] = {}  # events that a floor covers are settled and not in the set
        self.keys: list[Key] = []
        self.by_key: dict[Key, FeedEntry] = {}
        self._of: dict[str, set[Key]] = {}
        self._last: dict[str, Key] = {}  # the last key of each author: searching for it would scan the whole set
        self.version = 0  # rises with every change, so that results derived from the set can be cached

    def __len__(self) -> int:
        return len(self.keys)

    def judge(self, entries: Iterable[FeedEntry], feeds: Mapping[str, Feed], roster: Roster) -> int:
        """Add the new events that count. Returns how many leading keys did not change."""
        passed = [entry for entry in entries if self._stands(entry, feeds[entry.author], roster)]
        return self._change([entry for entry in passed if entry.key not in self.by_key], [])

    def judge_again(self, feed: Feed, roster: Roster) -> int:
        """Judge every event of a feed again. Returns how many leading keys did not change."""
        stands = {entry.key: entry for entry in feed if self._stands(entry, feed, roster)}
        had = self._of.get(feed.author, set())
        return self._change([entry for key, entry in stands.items() if key not in had], had - stands.keys())

    def _stands(self, entry: FeedEntry, feed: Feed, roster: Roster) -> bool:
        return stands(entry, feed.fork, roster, self.floor)

    def _change(self, new: list[FeedEntry], gone: Iterable[Key]) -> int:
        gone = list(gone)
        if not new and not gone:
            return len(self.keys)
        self.version += 1
        same = bisect_left(self.keys, min([entry.key for entry in new] + gone))
        for key in gone:
            author = self.by_key.pop(key).author
            self._of[author].discard(key)
            self._last.pop(author, None)
        for entry in new:
            key = entry.key
            self.by_key[key] = entry
            self._of.setdefault(entry.author, set()).add(key)
            if entry.author in self._last and self._last[entry.author] < key:
                self._last[entry.author] = key
        if gone or len(new) > _FEW:
            dropped = set(gone)
            kept = [key for key in self.keys[same:] if key not in dropped]
            self.keys[same:] = sorted(kept + [entry.key for entry in new])
        else:
            for entry in new:
                insort(self.keys, entry.key)
        return same

    def entries(self, start: int = 0) -> Iterable[FeedEntry]:
        """The events in the merged order, from an index on."""
        by_key = self.by_key
        return (by_key[key] for key in self.keys[start:])

    def tips(self) -> dict[str, int]:
        """The last counted seq of each author: everything up to it belongs to the evidence."""
        for author, keys in self._of.items():
            if keys and author not in self._last:
                self._last[author] = max(keys)  # lamports rise along a feed
        return {author: self.by_key[key].seq for author, key in self._last.items()}

    def tip(self, author: str) -> int:
        """The last counted seq of one author; 0 if there is none."""
        keys = self._of.get(author)
        if not keys:
            return 0
        if author not in self._last:
            self._last[author] = max(keys)
        return self.by_key[self._last[author]].seq

    def clear(self) -> None:
        """Forget everything."""
        self.keys, self.by_key, self._of, self._last = [], {}, {}, {}
        self.version += 1


def roster_of(base: Iterable[Act], acts: Iterable[Act], feeds: Mapping[str, Feed]) -> Roster:
    """The roster from a snapshot's acts and the acts after it, without those after a fork."""
    return Roster([*base, *(act for act in acts if not _behind_fork(feeds.get(act.actor), act.seq))])


def _behind_fork(feed: Feed | None, seq: int) -> bool:
    return feed is not None and feed.fork is not None and seq >= feed.fork


def changed_nodes(before: Roster, after: Roster) -> set[str]:
    """Nodes whose events have to be judged again."""
    old, new = before.lines(), after.lines()
    return {node for node in old.keys() | new.keys() if old.get(node) != new.get(node)}

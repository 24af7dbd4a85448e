"""Events with tags, what was written of them, and every answer that follows from it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import msgspec

from tallystick import NewEvent, Query, Selection, Store, match
from tallystick.store.query import Condition, Subject, subject
from tallystick.testing import upkeep

TYPES = ("course.defined", "student.subscribed", "student.left", "x.done")
ORGS = (None, None, "acme", "bolt")
NO_LIMIT = 1 << 40


class Written(msgspec.Struct):
    """What a test knows of one event."""

    position: int
    subject: Subject
    stream: str
    seq: int
    pruned: bool = False


class TagsModel:
    """A log that is written through this, and compared with it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.written: list[Written] = []

    def fill(self, store: Store, commits: int) -> None:
        """Append commits of one to four events; a third of the events has no tags."""
        for _ in range(commits):
            org = self._random.choice(ORGS)
            stream = f"order/{org or 'any'}-{self._random.randrange(5)}"
            given = [self._event(org) for _ in range(self._random.choice((1, 1, 1, 4)))]
            done = store.append(stream, given)
            for number, event in enumerate(given):
                asked = Subject(event.type, frozenset(event.tags), org)
                self.written.append(Written(done.first_position + number, asked, stream, done.first_seq + number))

    def _event(self, org: str | None) -> NewEvent:
        pick = self._random
        tags = [f"m{m}:{pick.randrange(m)}" for m in (2, 7, 40) if pick.random() < 0.6] if pick.random() < 0.7 else []
        if pick.random() < 0.1:
            tags.append(f"only:{len(self.written)}-{pick.random()}")
        meta = None if org is None else {"org": org}
        return NewEvent(pick.choice(TYPES), {"n": pick.random()}, meta=meta, tags=tags)

    def prune(self, store: Store, *, left: int) -> None:
        """Prune every stream but its last events, and note the control facts about that."""
        for stream in sorted({each.stream for each in self.written if not each.stream.startswith("tally.")}):
            head = store.stream_head(stream)
            assert head is not None
            if head.seq > left:
                upkeep.prune(store, stream, head.seq - left)
                for event in self.written:
                    event.pruned = event.pruned or (event.stream == stream and event.seq <= head.seq - left)
        last = self.written[-1].position
        for fact in store.read(after=last, over_pruned=True).events:
            asked = subject(fact.type, fact.meta)
            self.written.append(Written(fact.position, asked, fact.stream, fact.seq))

    def queries(self, count: int) -> Iterator[Query]:
        """Queries of one to three items, most of them with tags."""
        pick = self._random
        for _ in range(count):
            items = [self._item() for _ in range(pick.choice((1, 1, 2, 3)))]
            query = items[0]
            for item in items[1:]:
                query |= item
            yield query

    def _item(self) -> Query:
        pick = self._random
        types = pick.sample([*TYPES, "no.such"], pick.choice((0, 1, 1, 2)))
        known = sorted(pick.choice(self.written).subject.tags)
        tags = pick.sample(known, min(len(known), pick.choice((0, 1, 1, 2)))) + ["no:such"] * (pick.random() < 0.1)
        return match(types=types, tags=tags)

    def check(self, store: Store, *, queries: int = 150) -> None:
        """Compare what matches, and what is read, with what was written."""
        head = store.head()
        for query in self.queries(queries):
            pick = self._random
            after = pick.choice((0, 0, pick.randrange(head), head - 3, head))
            org = pick.choice((None, None, "acme"))
            limit = pick.choice((1, 1, 2, 7, NO_LIMIT))
            condition = Condition(query, after, org=org)
            expected = [each for each in self.written if each.position > after and condition.matches(each.subject)]
            found = store.log.matches(condition, limit=limit)  # type: ignore[attr-defined]
            assert found == [each.position for each in expected][:limit], (condition, limit)
            self._check_pages(store, Selection(query=query, org=org), after, [e for e in expected if not e.pruned])

    def _check_pages(self, store: Store, selection: Selection, after: int, expected: Sequence[Written]) -> None:
        head, limit = store.head(), self._random.choice((1, 3, 1000))
        until = self._random.choice((head, (after + head) // 2))
        wanted = [each.position for each in expected if each.position <= until]
        page = store.log.read(after=after, until=until, selection=selection, limit=limit, over_pruned=True)
        assert [event.position for event in page.events] == wanted[:limit], selection
        assert page.through == (wanted[limit - 1] if len(wanted) >= limit else max(after, until))

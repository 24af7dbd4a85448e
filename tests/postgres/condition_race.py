"""The race of conditions: writers that append only if nothing was added to what they know.

They share a few tags. Some write single events, some several streams, some so many tags that the gate is used, some
with inline projections that lock the whole log. Others append without a condition, and hang in their transactions, so
that lower positions become visible after higher ones. A trigger of the race numbers commits while their locks are
held, so the events that a writer had to know are known. `Attempt` says what it knew.

Two ways that are wrong must be caught here, otherwise this suite proves nothing: no locks, and a marker that is a
position taken from an append.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import psycopg

import tallystick
from tallystick import Marker, NewEvent, Query, errors, match
from tallystick.projections import Projection, run_inline
from tests.postgres.race import RaceThread

TYPE = "race.decided"
_PAUSE_S = 0.02
_EVENTS_PER_TAG = 60
_GIVE_UP_S = 1500.0
_COLLIDING = """SELECT min(tag), max(tag) FROM (SELECT 'c:' || n AS tag FROM generate_series(1, 300000) AS n) AS made
    GROUP BY hashtext(tag) HAVING count(*) > 1 LIMIT 40"""
_WITNESS = """
CREATE TABLE public.commits (tag text, position bigint, number bigint);
CREATE SEQUENCE public.numbers;
CREATE FUNCTION public.witness() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO public.commits VALUES (NEW.tag, NEW.position, nextval('public.numbers'));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER witness AFTER INSERT ON tally.event_tags DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION public.witness();
"""
_WITHOUT_LOCKS = """
CREATE OR REPLACE FUNCTION tally.lock_tags(own text[], asked text[]) RETURNS void LANGUAGE sql AS 'SELECT'
"""
_HANGING = """SELECT status FROM tally.append_event(
    %s, -1, 'race.decided', 1, gen_random_uuid(), 0, '{}', %s, NULL, 0, false, NULL, NULL)"""


class Attempt(msgspec.Struct):
    """A conditional append that passed: its tags, its own positions, and the positions that its writer knew."""

    tags: tuple[str, ...]
    own: set[int]
    known: set[int]


class Finish(msgspec.Struct):
    """What passed and was refused, how many passed wrongly, and how many deadlocks the server had to end."""

    passed: int
    refused: int
    wrong: int
    deadlocks: int


class Decided(Projection):
    """Counts decisions, inside of commits."""

    types = (TYPE,)
    key = "stream"

    def initial(self) -> Any:
        """None yet."""
        return {"n": 0}

    def apply(self, state: Any, event: Any) -> Any:
        """One more."""
        return {"n": state["n"] + 1}


class Race:
    """One race at `url`, until so many conditions have passed. Writers share this many tags at a time."""

    def __init__(self, url: str, *, passes: int, tags: int = 3, seed: int = 1, locks: bool = True) -> None:
        self.url, self.passes, self.tags, self.seed = url, passes, tags, seed
        self.attempts: list[Attempt] = []
        self.refused = 0
        self._enough = threading.Event()
        tallystick.open(url).close()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_WITNESS)
            self.pairs = connection.execute(_COLLIDING).fetchall()
            if not locks:
                connection.execute(_WITHOUT_LOCKS)

    def tag(self, chosen: random.Random) -> str:
        """One of a few tags at a time, and sometimes one of two that have one hash."""
        generation = (len(self.attempts) + self.refused) // (_EVENTS_PER_TAG * self.tags)
        if chosen.random() < 1 / (self.tags + 1):
            return chosen.choice(self.pairs[generation % len(self.pairs)])
        return f"{chosen.randrange(self.tags)}:{generation}"

    def run(self, kinds: Sequence[Callable[[Race, int], None]]) -> Finish:
        """Let the writers run until enough has passed."""
        deadline = threading.Timer(_GIVE_UP_S, self._enough.set)
        deadline.start()
        threads = [RaceThread(self._work, kind, number) for number, kind in enumerate(kinds)]
        for thread in threads:
            thread.finish(_GIVE_UP_S * 1.1)
        deadline.cancel()
        return self._finish()

    def _work(self, kind: Callable[[Race, int], None], number: int) -> None:
        try:
            kind(self, number)
        finally:
            self._enough.set()

    def is_over(self) -> bool:
        """Whether enough has passed."""
        if len(self.attempts) >= self.passes:
            self._enough.set()
        return self._enough.is_set()

    def attempt(self, tags: tuple[str, ...], known: set[int], append: Callable[[], Any]) -> None:
        """Append with a condition, and note how it went."""
        try:
            done = append()
        except errors.ConditionFailed:
            self.refused += 1
            return
        each = done if isinstance(done, list) else [done]
        own = {place for part in each for place in range(part.first_position, part.last_position + 1)}
        self.attempts.append(Attempt(tags, own, known))

    def _finish(self) -> Finish:
        commits: dict[str, dict[int, int]] = {}
        with psycopg.connect(self.url, autocommit=True) as connection:
            for tag, position, number in connection.execute("SELECT tag, position, number FROM public.commits"):
                commits.setdefault(tag, {})[position] = number
            time.sleep(1.2)  # the server counts what ended sessions did within a second
            row = connection.execute(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
        wrong = sum(self._is_wrong(attempt, commits) for attempt in self.attempts)
        assert row is not None
        return Finish(len(self.attempts), self.refused, wrong, row[0])

    @staticmethod
    def _is_wrong(attempt: Attempt, commits: dict[str, dict[int, int]]) -> bool:
        for tag in attempt.tags:
            found = commits[tag]
            mine = min(found[position] for position in attempt.own)
            before = {position for position, number in found.items() if number < mine}
            if not before <= attempt.known | attempt.own:
                return True
        return False


# --- writers with conditions ------------------------------------------------------------------------------------------


def _query(tags: tuple[str, ...]) -> Query:
    whole = match(tags=[tags[0]])
    for tag in tags[1:]:
        whole |= match(types=[TYPE], tags=[tag])
    return whole


def _event(*tags: str) -> NewEvent:
    return NewEvent(TYPE, {}, tags=tags)


def single(race: Race, number: int) -> None:
    """One event, in one round trip."""
    chosen = random.Random(race.seed * 100 + number)
    with tallystick.open(race.url) as store:
        while not race.is_over():
            tags = (race.tag(chosen),)
            seen = store.consult(_query(tags))
            known = {event.position for event in seen.events}
            race.attempt(
                tags,
                known,
                lambda: store.append(f"race/s-{number}", _event(*tags), unless=seen.marker),  # noqa: B023
            )


def several(race: Race, number: int) -> None:
    """Several streams and tags, also tags that have one hash."""
    chosen = random.Random(race.seed * 100 + number)
    with tallystick.open(race.url) as store:
        while not race.is_over():
            tags = tuple(sorted({race.tag(chosen), race.tag(chosen), race.tag(chosen)}))
            seen = store.consult(_query(tags))
            known = {event.position for event in seen.events}
            parts = [(f"race/{chosen.randrange(4)}-{half}", [_event(*tags)], -1) for half in (1, 2)]
            race.attempt(tags, known, lambda: store.append_all(parts, unless=seen.marker))  # type: ignore[arg-type]  # noqa: B023


def many_tags(race: Race, number: int) -> None:
    """More than 64 tags in one commit, with a condition: the gate in the mode that excludes all others."""
    chosen = random.Random(race.seed * 100 + number)
    with tallystick.open(race.url) as store:
        while not race.is_over():
            tags = (race.tag(chosen),)
            seen = store.consult(_query(tags))
            known = {event.position for event in seen.events}
            given = [_event(*tags, *(f"many:{n}" for n in range(start, start + 30))) for start in range(0, 90, 30)]
            race.attempt(tags, known, lambda: store.append(f"race/m-{number}", given, unless=seen.marker))  # noqa: B023


def inline(race: Race, number: int) -> None:
    """With an inline projection, which locks the whole log."""
    chosen = random.Random(race.seed * 100 + number)
    with tallystick.open(race.url) as store:
        run_inline(store, Decided())
        while not race.is_over():
            tags = (race.tag(chosen),)
            seen = store.consult(_query(tags))
            known = {event.position for event in seen.events}
            race.attempt(
                tags,
                known,
                lambda: store.append(f"race/i-{number}", _event(*tags), unless=seen.marker),  # noqa: B023
            )
            time.sleep(chosen.random() * _PAUSE_S)


def untagged(race: Race, number: int) -> None:
    """An item without tags, which locks the whole log."""
    chosen = random.Random(race.seed * 100 + number)
    with tallystick.open(race.url) as store:
        while not race.is_over():
            tags = (race.tag(chosen),)
            query = match(types=["race.none"]) | _query(tags)
            seen = store.consult(query)
            known = {event.position for event in seen.events}
            race.attempt(
                tags,
                known,
                lambda: store.append(f"race/u-{number}", _event(*tags), unless=seen.marker),  # noqa: B023
            )
            time.sleep(chosen.random() * _PAUSE_S)


def by_head(race: Race, number: int) -> None:
    """A plain number as the marker: the head, which was proven before the events up to it were read."""
    chosen = random.Random(race.seed * 100 + number)
    with tallystick.open(race.url) as store:
        while not race.is_over():
            tags = (race.tag(chosen),)
            head = store.head()
            known = {event.position for event in store.consult(_query(tags)).events if event.position <= head}
            marker = Marker(_query(tags), head)
            race.attempt(tags, known, lambda: store.append(f"race/h-{number}", _event(*tags), unless=marker))  # noqa: B023


def by_append(race: Race, number: int) -> None:
    """WRONG: the position of an append as the marker, once the head has passed it."""
    chosen = random.Random(race.seed * 100 + number)
    with tallystick.open(race.url) as store:
        while not race.is_over():
            tags = (race.tag(chosen),)
            known = {event.position for event in store.consult(_query(tags)).events}
            own = store.append(f"race/a-{number}", _event(*tags)).position
            if store.wait(own - 1, timeout=10) < own:
                continue
            marker = Marker(_query(tags), own)
            race.attempt(
                tags,
                known | {own},
                lambda: store.append(f"race/a-{number}", _event(*tags), unless=marker),  # noqa: B023
            )


# --- writers without conditions ---------------------------------------------------------------------------------------


def batches(race: Race, number: int) -> None:
    """Batches of 1 to 5 events, to one stream or two; sometimes with more than 64 tags."""
    chosen = random.Random(race.seed * 100 + number)
    with tallystick.open(race.url) as store:
        while not race.is_over():
            more = [f"many:{n}" for n in range(90)] if chosen.random() < 0.3 else []
            given = [_event(race.tag(chosen), *more[start : start + 30]) for start in (0, 30, 60)]
            if chosen.random() < 0.5:
                store.append(f"race/b-{chosen.randrange(3)}", given)
            else:
                store.append_all([(f"race/{chosen.randrange(4)}-{half}", given, -1) for half in (1, 2)])
            time.sleep(chosen.random() * _PAUSE_S)


def hanging(race: Race, number: int) -> None:
    """Single events whose transactions take long, and sometimes roll back. A killed connection is opened again."""
    chosen = random.Random(race.seed * 100 + number)
    while not race.is_over():
        with suppress(psycopg.OperationalError), psycopg.connect(race.url) as connection:
            while not race.is_over():
                connection.execute("SET LOCAL ROLE tally_app")
                connection.execute(_HANGING, (f"race/x-{number}", f'{{"tags":["{race.tag(chosen)}"]}}'))
                time.sleep(chosen.random() * _PAUSE_S)
                connection.rollback() if chosen.random() < 0.2 else connection.commit()

"""Whether a damaged store ever answers wrongly without a word.

Each question is asked of the damaged store: its answer must be the model's, or an error with a name. An answer that
differs is forgiven only where the store says what it lost (the report, or verification). Then an append: it may not
take a position that was given away, and may not succeed where something was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tallystick import NewEvent, Store, errors, state
from tallystick.projections import ViewReader
from tallystick.store.verify import verify
from tallystick.testing.shop import CustomerBalance

from . import sample
from .sample import Model

REFUSED = object()


class Judge:
    """Collects what went wrong with one damaged store."""

    def __init__(self, engine: str, place: Path, model: Model) -> None:
        self.engine, self.place, self.model = engine, place, model
        self.silent: list[str] = []

    def ask(self, what: str, question: Callable[[], Any]) -> Any:
        """The answer, or REFUSED if it is an error with a name. Any other error is a fault of ours."""
        try:
            return question()
        except errors.TallyError:
            return REFUSED
        except Exception as problem:
            self.silent.append(f"{what}: {type(problem).__name__}: {problem}")
            return REFUSED

    @contextmanager
    def beside(self) -> Iterator[None]:
        """A reader that has read everything, and goes on when the block has damaged the store underneath."""
        with sample.opened(self.engine, self.place, readonly=True) as store:
            for _, question, _ in self._questions(store):
                question()
            yield
            self._read(store, "reading on", told=True)
            self._checked(store, "reading on, and verified")

    def judged(self) -> list[str]:
        """Every wrong answer that was given as if all were well."""
        self._look(readonly=True)
        found = self._look(readonly=False)
        if found:
            self._append_again()
        return self.silent

    def _look(self, *, readonly: bool) -> bool:
        """Ask everything through one handle; says whether damage was found or the store could not be opened."""
        mode = "reading" if readonly else "writing"
        store = self.ask(f"opening for {mode}", lambda: sample.opened(self.engine, self.place, readonly=readonly))
        if store is REFUSED:
            return True
        with store:
            told = self._checked(store, mode)
            if not readonly:
                self._append(store, told)
        return told

    def _checked(self, store: Store, mode: str) -> bool:
        """Verify, and ask everything; says whether damage was found."""
        checked = self.ask("verify", lambda: verify(store.log))
        told = checked is REFUSED or not checked.ok
        return self._read(store, mode, told) or told

    def _read(self, store: Store, mode: str, told: bool) -> bool:
        """Compare every answer with the model; says whether any was refused."""
        refused = False
        for what, question, wanted in self._questions(store):
            given = self.ask(f"{what} ({mode})", question)
            refused = refused or (given is REFUSED and what not in _MAY_REFUSE)
            if given is REFUSED or given == wanted:
                continue
            if not self._admitted(store, what, given):
                self.silent.append(f"{what} ({mode}): {_difference(given, wanted)}; verify says {not told}")
        if refused and not told:
            self.silent.append(f"a read is refused ({mode}) and verify says that all is well")
        return refused

    def _questions(self, store: Store) -> list[tuple[str, Callable[[], Any], Any]]:
        model = self.model
        questions: list[tuple[str, Callable[[], Any], Any]] = [
            ("events", lambda: _events(store, model.head), model.events),
            ("head", lambda: min(store.head(), model.head), model.head),
            ("rows", lambda: dict(ViewReader(store, CustomerBalance().name).items()), model.rows),
            ("checkpoint", lambda: store.load_checkpoint(sample.CONSUMER), model.checkpoint),
        ]
        for stream in sample.STREAMS:
            seq = model.streams[stream][0]
            questions += [
                (f"state of {stream}", lambda s=stream: state.fold(store, sample.SUM, s).value, model.states[stream]),
                (f"end of {stream}", lambda s=stream: _end(store, s), model.streams[stream]),
                (f"stream {stream}", lambda s=stream, n=seq: _stream(store, s, n), _stream_of(model, stream)),
            ]
        return questions

    def _admitted(self, store: Store, what: str, given: Any) -> bool:
        """Whether the store says that the rows and places beside the log were lost, or its end."""
        if what == "head":  # the last that is known: nobody is told that nothing stands behind it
            return self.ask("read behind the head", lambda: store.read(after=given)) is REFUSED
        if what not in ("rows", "checkpoint"):
            return False
        report = store.report()
        said = [*report.recovered, *(problem.reason for problem in report.problems)]
        return any("beside" in text or "set aside" in text for text in said)

    def _append(self, store: Store, told: bool) -> None:
        done = self.ask("append", lambda: store.append("order/2", NewEvent("after.damage", {})))
        if done is REFUSED:
            return
        if told:
            self.silent.append("an append was acknowledged although damage was found")
        if done.last_seq != self.model.streams["order/2"][0] + 1:
            self.silent.append(f"an append got seq {done.last_seq}")
        if done.first_position <= self.model.head:
            self.silent.append(
                f"position {done.first_position} was given a second time; the head was {self.model.head}"
            )

    def _append_again(self) -> None:
        """Damage that was found stays on record: a later opening does not take appends either."""
        store = self.ask("opening again", lambda: sample.opened(self.engine, self.place))
        if store is REFUSED:
            return
        with store:
            if self.ask("append again", lambda: store.append("order/2", NewEvent("after.all", {}))) is not REFUSED:
                self.silent.append("damage was found, and the next opening took an append")


_MAY_REFUSE = frozenset({"rows", "checkpoint"})
"""Answers about what is beside the log: a refusal there is no finding of verification."""


def _events(store: Store, head: int) -> dict[int, Any]:
    found = {}
    for item in store.events(over_pruned=True):
        payload = None if item.payload is None else item.payload.decode()
        if item.position <= head:
            found[item.position] = (item.stream, item.seq, item.id.hex(), item.link.hex(), payload)
    return found


def _end(store: Store, stream: str) -> Any:
    head = store.stream_head(stream)
    return None if head is None else (head.seq, head.link.hex())


def _stream(store: Store, stream: str, until: int) -> list[Any]:
    cut = store.cut(stream)
    after = 0 if cut is None else cut.through
    return [(item.seq, item.link.hex()) for item in store.read_stream(stream, after=after, until=until, limit=1000)]


def _stream_of(model: Model, stream: str) -> list[Any]:
    return [(seq, link) for name, seq, _, link, _ in model.events.values() if name == stream]


def _difference(given: Any, wanted: Any) -> str:
    if isinstance(given, dict) and isinstance(wanted, dict):
        missing = sorted(map(str, wanted.keys() - given.keys()))
        other = sorted(str(key) for key in given.keys() & wanted.keys() if given[key] != wanted[key])
        return f"{len(given)} of {len(wanted)}, missing {missing[:5]}, other {other[:5]}"
    return f"{str(given)[:120]} instead of {str(wanted)[:120]}"

"""The store that users work with: one log with its rules. Every append and every read of a user goes through it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Protocol

import msgspec

from tallystick import errors
from tallystick.event import names, profiles
from tallystick.event.model import Appendable, Event, NewEvent
from tallystick.store import control, iterate, leases, new_events, side_check, tables, verify, views
from tallystick.store.commit import Appended, Outcome, Transaction
from tallystick.store.events import EventLog
from tallystick.store.expectation import ANY, Expected
from tallystick.store.idempotency import CommandRecord
from tallystick.store.maintenance import Maintenance
from tallystick.store.prepare import Guard, Part, Preparer, Request, TypeCatalog, part_of
from tallystick.store.reader import Reader
from tallystick.store.verify import Verification

PartProgress = Callable[[str, int], None]
"""Gets the name of the part that is being checked, and how much of it is done."""


class Check(Protocol):
    """What a layer above adds to `Store.verify`: it notes in `found` what is wrong, and what it cannot check."""

    def __call__(
        self, store: Store, found: Verification, *, reducers: Iterable[Any], progress: PartProgress
    ) -> None: ...


class Store(Reader):
    """An event store. Get one from `tallystick.open(url)`; use it in a `with` block or close it.

    Appending is safe from any number of threads. Every append that returned is on disk (engine `memory` excepted).
    """

    def __init__(
        self,
        log: EventLog,
        *,
        catalog: TypeCatalog,
        make_guard: Callable[[str], Guard | None],
        clock: Callable[[], int] = time.time_ns,
        defaults: dict[str, Any] | None = None,
        checks: Sequence[Check] = (),
    ) -> None:
        self.log = log
        self._checks = checks
        self.clock = clock
        self.catalog = catalog
        self._make_guard = make_guard
        self.profile = profiles.named(log.profile)
        self.settings = control.settings(log)
        self._appending: set[int] = set()  # threads that are inside an append
        self._preparer = Preparer(
            profile=self.profile,
            clock=clock,
            catalog=catalog,
            guard=make_guard(self.settings["secrets"]),
            defaults=defaults,
        )

    # --- writing ---------------------------------------------------------------------------------------------------

    def append(
        self, stream: str, events: Appendable | Sequence[Appendable], *, expected: Expected | int = ANY
    ) -> Appended:
        """Append to one stream, all or nothing. `expected` is a seq, `NO_STREAM` or `ANY`; if it is wrong: `Conflict`.

        An instance of a model is appended as an event of the type that the catalog has for it. Events that are stored
        already with the same id and content are not written again, so every retry is safe.
        """
        return self._one(Request([Part(stream, new_events.listed(events), expected)]))[0]

    def append_all(self, parts: Iterable[tuple[str, Sequence[Appendable], Expected | int] | Part]) -> list[Appended]:
        """Append to several streams in one commit, all or nothing: (stream, events, expected) each."""
        return self._one(Request(list(map(part_of, parts))))

    def submit(self, requests: Sequence[Request]) -> list[Outcome]:
        """Append many independent requests with one fsync. Each has its own outcome; refusals are returned."""
        self._require_writing()
        thread = threading.get_ident()
        if thread in self._appending:
            raise errors.Nested()
        try:
            self._appending.add(thread)
            prepared = self._preparer.prepare(requests) if requests else []
            if len(prepared) == 1 and isinstance(prepared[0], Transaction):
                return self.log.commit([prepared[0]])
            transactions = [item for item in prepared if isinstance(item, Transaction)]
            done = iter(self.log.commit(transactions)) if transactions else iter(())
            return [next(done) if isinstance(item, Transaction) else item for item in prepared]
        finally:
            self._appending.discard(thread)

    def _one(self, request: Request) -> list[Appended]:
        outcome = self.submit([request])[0]
        if isinstance(outcome, errors.TallyError):
            raise outcome
        return outcome

    def record(
        self,
        facts: Sequence[tuple[str, NewEvent]],
        *,
        require: Sequence[tuple[str, int]] = (),
        maintenance: Maintenance | None = None,
        command: CommandRecord | None = None,
    ) -> list[Appended]:
        """Append control facts to reserved `tally.*` streams, with the changes they describe, in one commit.

        For our own layers. `require` are streams that must still end at a seq; `command` is the command behind it.
        """
        by_stream: dict[str, list[NewEvent]] = {}
        for stream, event in facts:
            by_stream.setdefault(stream, []).append(event)
        parts = [Part(stream, events) for stream, events in by_stream.items()]
        erased = [iterate.event_at(self.log, item.position) for item in maintenance.erasures] if maintenance else []
        rows = self._forget_derived(erased)  # derived data goes first: it can be made again, the payload cannot
        if maintenance is not None and rows:
            maintenance = msgspec.structs.replace(maintenance, dropped_rows=rows)
        done = self._one(Request(parts, control=True, require=tuple(require), command=command, maintenance=maintenance))
        self._forget_derived(erased)  # and again, for what was derived in the meantime
        return done

    def _forget_derived(self, erased: Sequence[Event | None]) -> tuple[tuple[str, str], ...]:
        """Drop the rows and tables that events went into, and quotes in dead letters; returns the dropped rows."""
        rows: list[tuple[str, str]] = []
        for event in erased:
            if event is not None and event.payload is not None:
                upcast = self.catalog.upcast([event])[0]
                tables.drop_tables_of(
                    self.log.view_tables, event
                )  # first: rows may take the place along that names them
                rows += views.drop_rows_of(self.log.views, upcast, self.catalog.upcaster_digest)
                self.log.dead_letters.redact(event.position, "the event was erased")
        return tuple(rows)

    def configure(self, *, secrets: str) -> None:
        """Change the secret guard of this store (`reject`, `warn`, `off`); the change is recorded as a control fact."""
        control.check_secrets(secrets, self.profile)
        if secrets == self.settings["secrets"]:
            return
        payload = {"setting": "secrets", "old": self.settings["secrets"], "new": secrets}
        self.record([(control.SETTINGS_STREAM, NewEvent(control.SETTING_CHANGED, payload))])
        self.settings = self.settings | {"secrets": secrets}
        self._preparer.guard = self._make_guard(secrets)

    def acquire_lease(self, stream: str, *, steal: bool = False) -> None:
        """Take the writer lease of a run now, as the first append does. Refused while another holder lives.

        `steal` takes it from a holder that may be alive, as on another host; that holder is fenced off.
        """
        self._lease(Transaction([], acquire=(stream,), steal=steal))

    def release_lease(self, stream: str) -> None:
        """Give a lease back before closing."""
        self._lease(Transaction([], release=(stream,)))

    def _lease(self, transaction: Transaction) -> None:
        self._require_writing()
        for stream in (*transaction.acquire, *transaction.release):
            if names.stream_kind(stream) != leases.LEASED_KIND:
                raise errors.InvalidValue(what="leased stream", value=stream, must=f"{leases.LEASED_KIND}/<id>")
        outcome = self.log.commit([transaction])[0]
        if isinstance(outcome, errors.TallyError):
            raise outcome

    def _require_writing(self) -> None:
        if self.log.readonly:
            raise errors.ReadOnly(reason=f"{self.log.url} was opened for reading")

    # --- verification ----------------------------------------------------------------------------------------------

    def verify(self, *, reducers: Iterable[Any] = (), progress: PartProgress = lambda part, done: None) -> Verification:
        """Check everything: events, structures, control facts, signatures, and what is stored next to the log.

        With `reducers`, snapshots and fingerprints are also compared with a replay. Damage of the log goes on record:
        appends are refused until it is settled, as `tally doctor` says. Nothing else that is found stops appends.
        """
        found = verify.verify(self.log, progress=partial(progress, "verifying"))
        for check in self._checks:
            check(self, found, reducers=reducers, progress=progress)
        found.extend(side_check.side_problems(self.log))
        return found

    # --- life ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the store. Safe to call twice."""
        self.log.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

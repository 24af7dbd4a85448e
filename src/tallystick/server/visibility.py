"""What a caller may see. A caller bound to an org sees that org's events and nothing of the infrastructure.

A stream gets its org from the first event that names one. Events that name no org belong to nobody, before that and
later: a caller bound to the org sees neither them nor a state that they went into, and a stream that began with one of
them is hidden from that caller.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tallystick import errors
from tallystick.event import names
from tallystick.event.model import Event
from tallystick.server.access import Principal
from tallystick.store import facts, iterate
from tallystick.store.ledger import Head
from tallystick.store.selection import Selection
from tallystick.store.store import Store

KEPT_MAX = 1 << 16


class Visibility:
    """What each caller may see of one store. It reads the store: call it in a thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._orgs = StreamOrgs(store)

    def is_infrastructure(self, stream: str) -> bool:
        """Whether a stream is of a reserved kind, or of a kind that is declared as infrastructure."""
        kind = stream.partition("/")[0]
        return names.is_reserved(kind) or not self._store.catalog.is_tenant(kind)

    def scoped(self, principal: Principal, selection: Selection) -> Selection:
        """The selection within the org of the principal. Another org looks like one that does not exist."""
        if principal.org is None:
            return selection
        if selection.org not in (None, principal.org):
            raise errors.NothingHere()
        return msgspec.structs.replace(selection, org=principal.org)

    # --- streams -----------------------------------------------------------------------------------------------------

    def hides(self, principal: Principal, stream: str, org: str | None) -> bool:
        """Whether this principal must not learn that the stream, which belongs to that org, exists."""
        if principal.org is None:
            return False
        if org != principal.org or self.is_infrastructure(stream):
            return True
        return not self._orgs.first_event_names(stream, org)

    def require(self, principal: Principal, stream: str) -> Head:
        """The end of a stream that the principal may see; `NothingHere` otherwise."""
        head = self._store.stream_head(stream)
        if head is None or self.hides(principal, stream, head.org):
            raise errors.NothingHere()
        return head

    def require_every_event(self, principal: Principal, stream: str) -> None:
        """`NothingHere` if some event of a stream is not for the principal, even if that event was pruned."""
        if principal.org is not None and not self._orgs.is_entirely_of(stream, principal.org):
            raise errors.NothingHere()

    def may_name(self, principal: Principal, stream: str) -> bool:
        """Whether a refusal may name the stream: there is none of that name, or it belongs to the principal's org."""
        if principal.org is None or (head := self._store.stream_head(stream)) is None:
            return True
        return head.org == principal.org and not self.is_infrastructure(stream)

    # --- events ------------------------------------------------------------------------------------------------------

    def shows(self, principal: Principal, event: Event) -> bool:
        """Whether the principal may see an event."""
        if principal.org is None:
            return True
        return event.about.org == principal.org and not self.is_infrastructure(event.stream)

    def find(self, principal: Principal, id: str) -> Event | None:
        """The event with this id; None if it does not exist or the principal may not see it."""
        found = self._store.find(id)
        return found if found is not None and self.shows(principal, found) else None


class StreamOrgs:
    """Which org the events of streams named. Events never change, so each one is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._named_by_first: dict[str, bool] = {}
        self._whole: dict[str, int] = {}  # stream -> the seq up to which every event is known to name the org

    def first_event_names(self, stream: str, org: str | None) -> bool:
        """Whether the first event of a stream that belongs to this org named it."""
        known = self._named_by_first.get(stream)
        if known is not None:
            return known
        try:
            first = self._store.read_stream(stream, after=self._cut(stream), limit=1)
        except (errors.Damaged, errors.HistoryPruned):
            return False  # an event that cannot be read now may name no org; the next call looks again
        if not first:
            return True
        if len(self._named_by_first) >= KEPT_MAX:
            self._named_by_first.clear()
        self._named_by_first[stream] = first[0].about.org == org
        return self._named_by_first[stream]

    def is_entirely_of(self, stream: str, org: str) -> bool:
        """Whether every event of a stream named this org, including those that were pruned."""
        if self._has_lost_others(stream):
            return False
        after = max(self._whole.get(stream, 0), self._cut(stream))
        for page in iterate.stream_pages(self._store.log, stream, after=after):
            if any(event.about.org != org for event in page):
                return False
            after = page[-1].seq
        if len(self._whole) >= KEPT_MAX:
            self._whole.clear()
        self._whole[stream] = after
        return True

    def _cut(self, stream: str) -> int:
        cut = self._store.cut(stream)
        return 0 if cut is None else cut.through

    def _has_lost_others(self, stream: str) -> bool:
        if not self._cut(stream):
            return False
        pruned = (event for event in self._facts(stream) if event.type == facts.PRUNED)
        return any(facts.parse(event, facts.Pruned).mixed for event in pruned)

    def _facts(self, stream: str) -> Iterator[Event]:
        return self._store.stream(facts.stream_about(stream))

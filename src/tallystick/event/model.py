"""Events, before and after they are recorded. Recorded events are immutable and have their bytes as stored."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from tallystick import errors
from tallystick.event import canonical, tags

if TYPE_CHECKING:  # see `is_model`
    from pydantic import BaseModel

Draft: TypeAlias = "tuple[str, int, bytes, int, bytes, bytes, bytes, bytes | None]"
"""What an appender has decided about an event: the fields that `InDraft` numbers."""

Row: TypeAlias = "tuple[int, str, int, str, int, bytes, int, bytes | None, bytes, bytes, bytes, bytes | None]"
"""A recorded event as a tuple of its fields, in the order of `Event`: engines write rows, users see events.

Drafts and rows are plain tuples. As named tuples, `files: batches of 1,000, everything on` would take a fifth longer.
"""


class InDraft:
    """The places of the fields in a draft: `draft[InDraft.meta]`."""

    type: Final = 0
    version: Final = 1
    id: Final = 2
    time: Final = 3
    payload: Final = 4
    meta: Final = 5
    checksum: Final = 6
    signature: Final = 7


class InRow:
    """The places of the fields in a row: `row[InRow.link]`."""

    position: Final = 0
    stream: Final = 1
    seq: Final = 2
    type: Final = 3
    version: Final = 4
    id: Final = 5
    time: Final = 6
    payload: Final = 7
    meta: Final = 8
    checksum: Final = 9
    link: Final = 10
    signature: Final = 11


class NewEvent(msgspec.Struct, frozen=True):
    """An event to be appended.

    `payload` is a JSON object: a dict, a Pydantic model, or JSON text as bytes. The other fields are filled in if they
    are left out: the version by the catalog (otherwise 1), the id by a new UUIDv7, the time by the clock. `tags` go
    into the meta, where they can never be erased (see `tallystick.event.tags`).
    """

    type: str
    payload: Any
    meta: dict[str, Any] | None = None
    version: int | None = None
    id: bytes | uuid.UUID | None = None
    time: int | None = None
    signature: bytes | None = None
    tags: Sequence[str] = ()


Appendable: TypeAlias = "NewEvent | BaseModel"
"""What can be appended: an event, or an instance of a model that the catalog of the store has a type for."""


def is_model(kind: type) -> bool:
    """Whether a class is a Pydantic model. Pydantic takes 0.1 s to import, and without it nothing is one."""
    base = getattr(sys.modules.get("pydantic"), "BaseModel", None)  # None while another thread imports it
    return base is not None and issubclass(kind, base)


class About(msgspec.Struct, frozen=True, gc=False):
    """What the meta of an event says of its scope, its actor and its causes."""

    org: Any = None
    app: Any = None
    env: Any = None
    actor_id: Any = None
    correlation_id: Any = None
    causation_id: Any = None


_about = msgspec.json.Decoder(About).decode


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A recorded event: the envelope of docs/formats/event.md, field by field."""

    position: int
    stream: str
    seq: int
    type: str
    version: int
    id: bytes
    time: int
    payload: bytes | None
    meta: bytes
    checksum: bytes
    link: bytes
    signature: bytes | None = None

    @property
    def data(self) -> Any:
        """The payload, decoded; None if it was erased."""
        return None if self.payload is None else canonical.decode(self.payload, position=self.position)

    @property
    def metadata(self) -> dict[str, Any]:
        """The meta object, decoded."""
        found: dict[str, Any] = canonical.decode(self.meta, position=self.position)
        return found

    @property
    def about(self) -> About:
        """Its scope, actor and causes. The rest of its meta is not decoded; it may contain what no reader can."""
        try:
            return _about(self.meta)
        except msgspec.DecodeError:
            canonical.decode(self.meta, position=self.position)
            raise

    @property
    def tags(self) -> tuple[str, ...]:
        """Its tags, sorted."""
        return tags.stored(self.meta)

    @property
    def erased(self) -> bool:
        """Whether the payload was erased."""
        return self.payload is None

    @property
    def uuid(self) -> uuid.UUID:
        """The id as a UUID."""
        return uuid.UUID(bytes=self.id)

    @property
    def row(self) -> Row:
        """The fields as a tuple."""
        return (
            self.position,
            self.stream,
            self.seq,
            self.type,
            self.version,
            self.id,
            self.time,
            self.payload,
            self.meta,
            self.checksum,
            self.link,
            self.signature,
        )


class UpcastEvent(Event, frozen=True, array_like=True):
    """A recorded event read through upcasters: every field as stored, `data` as the current version has it."""

    current_version: int = 1
    current_data: Any = None

    @property
    def data(self) -> Any:
        """The payload in its type's current version."""
        return self.current_data


class UnreadableEvent(Event, frozen=True, array_like=True):
    """A recorded event that an upcaster failed on: every field as stored. Reading `data` raises the error."""

    problem: Any = None

    @property
    def data(self) -> Any:
        """Raises the error of the upcaster: there is no data in the current version."""
        raise errors.copy(self.problem)

"""Parameters in the address that several routes share, and types of bodies that the OpenAPI document describes."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tallystick.event import limits, names, tags
from tallystick.store import cursors
from tallystick.store.query import match
from tallystick.store.selection import Selection

LIMIT = 1000
EXAMPLE_ID = "01890000-0000-7000-8000-000000000000"

Kind = Annotated[str, Meta(pattern=f"^{names.KIND.pattern}$")]
Name = Annotated[str, Meta(pattern=f"^{names.NAME.pattern}$")]
Id = Annotated[str, Meta(min_length=26, max_length=36, description="A UUID or a ULID.", examples=[EXAMPLE_ID])]
Position = Annotated[int, Meta(ge=0, le=limits.INT_MAX)]
After = Annotated[
    str,
    Meta(
        pattern=f"^(?:{cursors.FORM.pattern})$",
        description="The `cursor` of the page before. A bare position is accepted too, but cannot be checked.",
        examples=["0"],
    ),
]
Limit = Annotated[int, Meta(ge=1, le=10_000)]
Time = Annotated[int, Meta(ge=limits.INT_MIN, le=limits.INT_MAX, description="Nanoseconds since 1970.")]
Label = Annotated[str, Meta(min_length=1, max_length=names.LABEL_MAX)]
Names = Annotated[list[str], Meta(max_length=100)]

Seq = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": limits.INT_MAX})]
"""A seq or a position in a body. The store checks it, so that every way in refuses the same."""
Tags = Annotated[list[str], Meta(extra_json_schema={"maxItems": tags.COUNT_MAX})]
Hash = Annotated[str, Meta(extra_json_schema={"pattern": "^[0-9a-f]{64}$"})]

IDEMPOTENT: tuple[dict[str, Any], ...] = (
    {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "schema": {"type": "string", "minLength": 1, "maxLength": names.LABEL_MAX, "pattern": "^[!-~]+$"},
        "description": "The same request with the same key takes effect once. A different request gets a 409.",
    },
)


class Filters(msgspec.Struct, frozen=True):
    """Which events are wanted."""

    org: Label | None = None
    app: Label | None = None
    env: Label | None = None
    type: Names = []
    stream: Names = []
    kind: Names = []
    tag: Annotated[list[str], Meta(max_length=tags.COUNT_MAX, description="Only events that have all these tags.")] = []
    actor_id: Label | None = None
    correlation_id: Label | None = None
    causation_id: Label | None = None
    time_from: Time | None = None
    time_until: Time | None = None

    @property
    def selection(self) -> Selection:
        """The events that pass all filters."""
        return Selection(
            streams=frozenset(self.stream),
            kinds=frozenset(self.kind),
            types=frozenset(self.type),
            org=self.org,
            app=self.app,
            env=self.env,
            actor_id=self.actor_id,
            correlation_id=self.correlation_id,
            causation_id=self.causation_id,
            query=match(tags=self.tag) if self.tag else None,
            time_from=self.time_from,
            time_until=self.time_until,
        )

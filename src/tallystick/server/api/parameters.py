"""Parameters that several routes share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Query, Request

from tallystick.event import limits, names
from tallystick.server.service import Service
from tallystick.store import cursors
from tallystick.store.selection import Selection

LIMIT = 1000
EXAMPLE_ID = "01890000-0000-7000-8000-000000000000"

Kind = Annotated[str, Path(pattern=f"^{names.KIND.pattern}$")]
Name = Annotated[str, Path(pattern=f"^{names.NAME.pattern}$")]
Id = Annotated[str, Path(min_length=26, max_length=36, description="A UUID or a ULID.", examples=[EXAMPLE_ID])]
Position = Annotated[int, Query(ge=0, le=limits.INT_MAX)]
After = Annotated[
    str,
    Query(
        pattern=f"^(?:{cursors.FORM.pattern})$",
        description="The `cursor` of the page before. A bare position is taken too, and cannot be checked.",
        examples=["0"],
    ),
]
MaybeAfter = Annotated[str | None, *After.__metadata__]
MaybePosition = Annotated[int | None, Query(ge=0, le=limits.INT_MAX)]
Limit = Annotated[int, Query(ge=1, le=10_000)]
Time = Annotated[int | None, Query(ge=limits.INT_MIN, le=limits.INT_MAX, description="Nanoseconds since 1970.")]
Label = Annotated[str | None, Query(min_length=1, max_length=names.LABEL_MAX)]


def service_of(request: Request) -> Service:
    """The service that this request came to."""
    service: Service = request.app.state.service
    return service


def _selection(
    org: Label = None,
    app: Label = None,
    env: Label = None,
    type: Annotated[list[str], Query(max_length=100)] = [],  # noqa: B006
    stream: Annotated[list[str], Query(max_length=100)] = [],  # noqa: B006
    kind: Annotated[list[str], Query(max_length=100)] = [],  # noqa: B006
    time_from: Time = None,
    time_until: Time = None,
) -> Selection:
    return Selection(
        streams=frozenset(stream),
        kinds=frozenset(kind),
        types=frozenset(type),
        org=org,
        app=app,
        env=env,
        time_from=time_from,
        time_until=time_until,
    )


Chosen = Annotated[Selection, Depends(_selection)]

"""Values of programs as plain JSON: instances of models, dataclasses, datetimes, decimals and so on, by Pydantic."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.event import canonical


class PlainForm:
    """How values of one type become plain JSON, and are made of it again."""

    def __init__(self, type_: Any) -> None:
        from pydantic import TypeAdapter

        self._adapter = TypeAdapter(type_)

    def plain(self, value: Any) -> Any:
        """The value as plain JSON. A value that is not of the type is refused by an exception."""
        return canonical.decode(canonical.encode_state(self._adapter.dump_python(value, mode="json", warnings="error")))

    def value(self, plain: Any) -> Any:
        """The value that a plain form was made of."""
        return self._adapter.validate_json(msgspec.json.encode(plain), strict=True)


def plain(value: Any) -> Any:
    """Any value as plain JSON. A value that has no such form is refused by an exception."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value)

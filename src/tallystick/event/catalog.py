"""The catalog of event types (stand-in, being written)."""

from __future__ import annotations

from typing import Any

from tallystick.event.model import Event


class Catalog:
    closed = False

    def current_version(self, type_: str) -> int | None:
        return None

    def validate(self, type_: str, version: int, payload: bytes) -> None:
        return None

    def payload_of(self, model: Any) -> dict[str, Any]:
        return model

    def upcast(self, events: list[Event]) -> list[Event]:
        return events

    def is_tenant(self, kind: str) -> bool:
        return True

"""What commands, consumers and projections refuse."""

from __future__ import annotations

__all__: list[str] = []

"""What pruning, erasing, snapshots and folds refuse."""

from __future__ import annotations

__all__: list[str] = []

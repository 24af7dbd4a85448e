"""Moving logs: export, import and copy.

An export is NDJSON. A plain export has one line per event, and its import appends these events. A whole export also has
lines of its own: it begins and ends with one, and others carry what makes a log what it is, such as pruned positions,
erased payloads and snapshots. Imported into an empty store, it gives the same log again: same positions, same links,
same verdict.

    with open("shop.ndjson", "wb") as file:
        file.writelines(moving.export(store))
    with open("shop.ndjson", "rb") as file:
        moving.import_lines(other, file)
"""

from __future__ import annotations

from tallystick.moving.export import export
from tallystick.moving.intake import copy, import_lines
from tallystick.moving.progress import ImportRefused, ImportStopped, Progress

__all__ = ["ImportRefused", "ImportStopped", "Progress", "copy", "export", "import_lines"]

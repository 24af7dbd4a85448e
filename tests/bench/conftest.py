"""`bench` is a plain folder at the root of the repository and not part of the package: put it within reach."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)

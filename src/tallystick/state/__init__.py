"""State: what events add up to. Folds, snapshots, fingerprints, pruning, erasure and retention.

Everything here gets an open store. The same events give the same canonical bytes of state on every engine.
"""

from __future__ import annotations

from tallystick.state.erasure import ErasureResult, erase, salted
from tallystick.state.fingerprints import Comparison, Seal, compare, latest, seal
from tallystick.state.fold import State, Until, check_determinism
from tallystick.state.prune_plan import Plan, plan, prune
from tallystick.state.reducer import Reducer, as_reducer, load, reducer, registry
from tallystick.state.shelf import SnapshotEntry, entries
from tallystick.state.snapshots import Restored, drop, fold, make, make_all, protect, restore_all
from tallystick.state.validation import problems

__all__ = [
    "Comparison",
    "ErasureResult",
    "Plan",
    "Reducer",
    "Restored",
    "Seal",
    "SnapshotEntry",
    "State",
    "Until",
    "as_reducer",
    "check_determinism",
    "compare",
    "drop",
    "entries",
    "erase",
    "fold",
    "latest",
    "load",
    "make",
    "make_all",
    "plan",
    "problems",
    "protect",
    "prune",
    "reducer",
    "registry",
    "restore_all",
    "salted",
    "seal",
]

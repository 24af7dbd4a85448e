"""A few hundred of the random damages that `make torture` does by the thousand."""

from __future__ import annotations

from pathlib import Path

import pytest

from .campaign import Bench, case, prepared
from .sample import ENDS, opened

SEED = 20
CASES = 320
PARTS = 8


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A closed and a killed store of each engine."""
    return prepared(tmp_path_factory.mktemp("torture") / "samples")


@pytest.mark.parametrize("part", range(PARTS))
def test_no_damage_is_answered_as_if_all_were_well(bench: Bench, part: int) -> None:
    """SAFE-01, SAFE-02, SAFE-04: after a flip, cut, swap or removal in any file, answers are right or refused."""
    numbers = range(part, CASES, PARTS)
    wrong = [found for number in numbers if (found := case(bench, SEED, number)).silent]
    assert not wrong


def test_the_samples_hold_what_can_be_damaged(bench: Bench) -> None:
    """The campaign would be blind to files that its samples do not have."""
    names = {path.name for path in bench.place.rglob("*") if path.is_file()}
    ends = {Path(name).suffix for name in names}
    assert {"current.log", "synced", "log.db", "log.db-wal"} <= names
    assert {".idx", ".snap"} <= ends
    for end in ENDS:
        with opened("files", bench.place / f"files-{end}", readonly=True) as store:
            segments, compressed = (store.report().facts[name] for name in ("segments", "compressed_segments"))
        assert segments > compressed + 1 > 1
    assert all(model.rows and model.checkpoint and len(model.events) > 80 for model in bench.models.values())

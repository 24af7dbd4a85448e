"""A log that was restored from a backup, with rows and checkpoints that are ahead of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tallystick
from tallystick import errors
from tallystick.projections import Consumer, Live, ViewReader, rebuild
from tallystick.testing.shop import NOTED, PAID, PLACED, OrderTotals, order_event


@pytest.fixture
def shorter(tmp_path: Path) -> Path:
    """A file log restored to one event, with rows and checkpoints at the third."""
    return _set_back(tmp_path, grown=False)


@pytest.fixture
def restored(tmp_path: Path) -> Path:
    """A file log restored to one event, which then grew differently; rows and checkpoints are of the old log."""
    return _set_back(tmp_path, grown=True)


def _set_back(place: Path, *, grown: bool) -> Path:
    log, backup = place / "log", place / "backup"
    with tallystick.open(f"files:{log}") as store:
        store.append("order/1", order_event(PLACED))
    shutil.copytree(log, backup)
    if grown:
        with tallystick.open(f"files:{backup}") as store:
            store.append("order/1", [order_event(PAID), order_event(NOTED), order_event(NOTED)])
    with tallystick.open(f"files:{log}") as store:
        store.append("order/1", [order_event(NOTED), order_event(NOTED)])
        Live(store, OrderTotals()).catch_up()
        Consumer(store, "mailer", lambda event: None).catch_up()
    for path in log.iterdir():
        if path.name.startswith("beside.db"):
            shutil.copy(path, backup)
    return backup


def test_a_shorter_log_is_refused(shorter: Path) -> None:
    """CP-07, CP-08, SAFE-04: rows and checkpoints past the end of the log show that its end was lost."""
    with tallystick.open(f"files:{shorter}") as store:
        with pytest.raises(errors.Damaged, match="the end of the log"):
            Live(store, OrderTotals()).catch_up()
        with pytest.raises(errors.Damaged, match="the end of the log"):
            Consumer(store, "mailer", lambda event: None).catch_up()
        with pytest.raises(errors.Damaged, match="the end of the log"):
            store.append("order/1", order_event(PAID))


def test_rows_of_another_history_are_not_read(restored: Path) -> None:
    """CP-08: reading rows of another log is refused, by key, by page and as a whole."""
    with tallystick.open(f"files:{restored}") as store:
        reads = [
            lambda reader: reader.get("order/1"),
            lambda reader: reader.rows(),
            lambda reader: list(reader.items()),
            lambda reader: reader.fingerprint(),
            lambda reader: reader.position(),
        ]
        for read in reads:
            with pytest.raises(errors.WrongStore):
                read(ViewReader(store, "OrderTotals"))
        reader = ViewReader(store, "OrderTotals")
        rebuild(store, OrderTotals())
        assert reader.get("order/1")["paid"] == 1


def test_a_log_that_grew_otherwise_is_refused(restored: Path) -> None:
    """CP-07, CP-08: also if only events differ that the projection does not take; a rebuild fixes it."""
    with tallystick.open(f"files:{restored}") as store:
        for _ in range(2):
            with pytest.raises(errors.WrongStore):
                Live(store, OrderTotals()).catch_up()
        with pytest.raises(errors.WrongStore):
            Consumer(store, "mailer", lambda event: None).catch_up()
        rebuild(store, OrderTotals())
        Live(store, OrderTotals()).catch_up()
        assert ViewReader(store, "OrderTotals").get("order/1")["paid"] == 1

"""Rows next to a log that an earlier version wrote."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import tallystick
from tallystick import Store, errors
from tallystick.projections import Live, ViewReader
from tallystick.testing.contract.projections import fill
from tallystick.testing.shop import CustomerBalance


def _fill(store: Store) -> dict[str, object]:
    fill(store, 8)
    Live(store, CustomerBalance()).catch_up()
    store.save_checkpoint("mailer", 3)
    return _rows(store)


def _rows(store: Store) -> dict[str, object]:
    return dict(ViewReader(store, CustomerBalance().name).items())


def test_a_side_database_without_a_number_is_used_as_it_is(tmp_path: Path) -> None:
    """SAFE-01: rows, places and checkpoints from before side databases had a format number can be read."""
    url = f"files:{tmp_path}/log"
    with tallystick.open(url) as store:
        rows = _fill(store)
    with closing(sqlite3.connect(tmp_path / "log" / "beside.db", isolation_level=None)) as raw:
        raw.execute("DROP TABLE batch_rows")
        raw.execute("PRAGMA user_version = 0")
    with tallystick.open(url) as store:
        assert rows
        assert _rows(store) == rows
        assert store.load_checkpoint("mailer") == 3


@pytest.mark.parametrize("lacking", ["views DROP COLUMN row_count", "checkpoints DROP COLUMN checksum"])
def test_a_side_database_that_is_too_old_is_refused_by_name(tmp_path: Path, lacking: str) -> None:
    """EVT-10: nothing starts again silently, and no event is lost when the file is moved away."""
    url, database = f"files:{tmp_path}/log", tmp_path / "log" / "beside.db"
    with tallystick.open(url) as store:
        _fill(store)
        head = store.head()
    with closing(sqlite3.connect(database, isolation_level=None)) as raw:
        raw.execute("ALTER TABLE " + lacking)
        raw.execute("PRAGMA user_version = 0")
    with pytest.raises(errors.ReadFailed, match="move it away"):
        tallystick.open(url)
    for name in ("beside.db", "beside.db.mark"):
        shutil.move(database.with_name(name), tmp_path / name)
    with tallystick.open(url) as store:
        assert (store.head(), store.load_checkpoint("mailer")) == (head, 0)

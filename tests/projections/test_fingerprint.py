"""The fingerprint of a projection, against its definition."""

from __future__ import annotations

import hashlib
from typing import Any

from tallystick.projections import Live, ViewReader
from tallystick.projections.fingerprint import Digest, line
from tallystick.store.views import ViewRow
from tallystick.testing.shop import PLACED, CustomerBalance, order_event


def digest(*rows: tuple[str, bytes]) -> str:
    """The digest of some rows."""
    found = Digest()
    found.add([ViewRow(key, state) for key, state in rows])
    return found.hex()


def test_it_is_the_hash_of_sorted_lines(open_store: Any) -> None:
    """CP-08: SHA-256 over `key ‖ state hash` lines in order of key, as docs/projections.md says."""
    store = open_store()
    for customer in ("b", "a", "é", "Z"):
        store.append("order/1", order_event(PLACED, customer=customer))
    Live(store, CustomerBalance()).catch_up()
    reader = ViewReader(store, "CustomerBalance")
    rows = store.log.views.rows("CustomerBalance").rows
    text = "".join(f"{row.key}\n{hashlib.sha256(row.state).hexdigest()}\n" for row in rows)
    assert [row.key for row in rows] == ["Z", "a", "b", "é"]
    assert reader.fingerprint().digest == hashlib.sha256(text.encode()).hexdigest()
    assert reader.fingerprint().rows == 4


def test_no_two_sets_of_rows_share_a_text() -> None:
    """A key with a newline cannot be taken for two rows."""
    forged = "a\n" + hashlib.sha256(b"1").hexdigest() + "\nb"
    assert digest(("a", b"1"), ("b", b"2")) != digest((forged, b"2"))
    assert line("a\\n", b"1") != line("a\n", b"1")


def test_every_row_counts() -> None:
    """Another key, another state or one more row gives another fingerprint."""
    assert len({digest(("a", b"1")), digest(("a", b"2")), digest(("b", b"1")), digest(("a", b"1"), ("b", b"1"))}) == 4

"""For any runner and any history, the rows and the fingerprint of a projection are the same."""

from __future__ import annotations

import tempfile

import hypothesis
import pytest
from hypothesis import strategies as st

import tallystick
from tallystick.event import canonical
from tallystick.projections import Live, ViewReader, rebuild, run_inline
from tallystick.testing.projections import check_fold
from tallystick.testing.shop import CustomerBalance, MergedFeed, OrderTotals
from tests.projections.histories import History, appends, erasures, play, steps

from .conftest import EMBEDDED, HAS_SERVER, url_of

SETTINGS = hypothesis.settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=25,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
    suppress_health_check=list(hypothesis.HealthCheck),
)


class InlineTotals(OrderTotals):
    """The same, run inline."""


histories = st.lists(st.one_of(appends, appends, appends, steps, erasures), max_size=25)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", EMBEDDED)
@hypothesis.given(history=histories)
@SETTINGS
def test_inline_live_and_rebuild_agree(engine: str, history: History) -> None:
    """CP-08, EVT-14: inline = live = rebuild, rows and fingerprints, on random histories with erasures."""
    _agree(engine, history)


@pytest.mark.skipif(not HAS_SERVER, reason="there is no PostgreSQL server")
@pytest.mark.timeout(300)
@hypothesis.given(history=histories)
@hypothesis.settings(SETTINGS, max_examples=8)
def test_inline_live_and_rebuild_agree_on_a_server(history: History) -> None:
    """CP-08, EVT-14: the same in PostgreSQL; fewer histories, because each needs a database of its own."""
    _agree("postgres", history)


def _agree(engine: str, history: History) -> None:
    with (
        tempfile.TemporaryDirectory() as place,
        url_of(engine, place) as url,
        tallystick.open(url) as store,
    ):
        run_inline(store, InlineTotals())
        play(store, history, (OrderTotals(), CustomerBalance(), MergedFeed()))
        for projection in (OrderTotals(), CustomerBalance(), MergedFeed(), InlineTotals()):
            Live(store, projection, batch_events=3).catch_up()
            reader = ViewReader(store, projection.name)
            live, rows = reader.fingerprint(), dict(reader.items())
            rebuild(store, projection, batch_events=4)
            assert reader.fingerprint() == live
            assert dict(reader.items()) == rows
            if projection.order == "position":
                check_fold(projection, store.events())
        inline, totals = ViewReader(store, "InlineTotals"), ViewReader(store, "OrderTotals")
        assert inline.fingerprint().digest == totals.fingerprint().digest
        assert {key: canonical.encode_state(state) for key, state in inline.items()} == {
            key: canonical.encode_state(state) for key, state in totals.items()
        }

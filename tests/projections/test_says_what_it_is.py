"""A missing projection or state is an error, not an empty answer."""

from __future__ import annotations

from typing import Any

import pytest

import tallystick
from tallystick import errors, state
from tallystick.projections import Live, Projection, ViewReader
from tallystick.testing.builders import events


class Forgetful(Projection):
    """Its author forgot to return the state."""

    types = ("thing.happened",)
    key = "stream"

    def initial(self) -> Any:
        """Nothing yet."""
        return {"n": 0}

    def apply(self, state: Any, event: Any) -> Any:
        """One more."""
        state["n"] += 1


@state.reducer(name="forgetful", initial={"n": 0})
def forgetful(value: Any, event: Any) -> Any:
    """The same mistake in a reducer."""
    value["n"] += 1


def test_an_apply_that_returns_nothing_is_refused() -> None:
    """CP-08: refused with the name of the projection or reducer and the event; nothing is stored."""
    with tallystick.open("memory:") as store:
        store.append("order/1", events(2))
        with pytest.raises(errors.ProjectionFailed, match="apply\\(\\) returned nothing") as refused:
            Live(store, Forgetful()).catch_up()
        assert (refused.value.stream, refused.value.seq) == ("order/1", 1)
        with pytest.raises(errors.ReducerFailed, match="apply\\(\\) returned nothing"):
            state.fold(store, forgetful, "order/1")


def test_rows_of_a_projection_that_has_none_are_refused() -> None:
    """SAFE-05: a wrong name is an error, not an empty answer; the position of such rows is 0."""
    with tallystick.open("memory:") as store:
        store.append("order/1", events(2))
        reader = ViewReader(store, "Unheard")
        for read in (reader.rows, lambda: reader.get("order/1"), lambda: list(reader.items())):
            with pytest.raises(errors.ProjectionNotFound, match="'Unheard'"):
                read()
        assert reader.position() == 0

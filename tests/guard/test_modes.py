"""Whether a store refuses, warns or looks away is its recorded setting."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

import tallystick
from tallystick import NewEvent, errors
from tallystick.event.guard import SecretWarning

Samples = Callable[[str, int], list[str]]


def test_reject_is_the_default_and_writes_nothing(samples: Samples) -> None:
    """CP-11: a store that was told nothing refuses secrets."""
    with tallystick.open("memory:") as store:
        with pytest.raises(errors.SecretFound):
            store.append("order/1", NewEvent("t", {"a": samples("npm-token", 1)[0]}))
        assert store.head() == 0


def test_warn_writes_and_names_every_place(samples: Samples) -> None:
    """CP-11: mode `warn` lets the event pass, and warns once for each secret, at the caller's line."""
    one, other = samples("npm-token", 2)
    with tallystick.open("memory:", secrets="warn") as store:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            store.append("order/1", NewEvent("t", {"a": one, "b": [other]}))
        assert [item.category for item in heard] == [SecretWarning, SecretWarning]
        assert [str(item.message).split("'")[1] for item in heard] == ["/a", "/b/0"]
        assert {item.filename for item in heard} == {__file__}
        assert store.read_stream("order/1")[0].data == {"a": one, "b": [other]}


def test_off_writes_in_silence(samples: Samples) -> None:
    """CP-11: mode `off` is possible where the profile allows it."""
    with tallystick.open("memory:", secrets="off") as store:
        store.append("order/1", NewEvent("t", {"a": samples("npm-token", 1)[0]}))
        assert len(store.read_stream("order/1")) == 1


def test_a_change_of_mode_is_on_record() -> None:
    """CP-11: looking away is a fact in the store's own log."""
    with tallystick.open("memory:") as store:
        store.configure(secrets="off")
        event = store.read_stream("tally.store/settings")[0]
        assert event.data == {"setting": "secrets", "old": "reject", "new": "off"}


@pytest.mark.parametrize("mode", ["warn", "off"])
def test_a_control_plane_store_always_rejects(mode: str) -> None:
    """CP-11: the control-plane profile has no other mode."""
    with pytest.raises(errors.Forbidden):
        tallystick.open("memory:", profile="control-plane", secrets=mode)

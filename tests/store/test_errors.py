"""Errors: every one names its rule, carries its values, says what to do next, and travels."""

from __future__ import annotations

import inspect
import json
import pickle
import string
from typing import Any

import pytest

from tallystick import errors

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.TallyError) and "template" in vars(kind) and kind is not errors.TallyError
]
SAMPLES: dict[str, Any] = {"str": "a'{b}", "int": 7, "object": [1], "bytes": b"\x01"}


def _fields(text: str) -> set[str]:
    return {name.split("!")[0] for _, name, _, _ in string.Formatter().parse(text) if name}


def _declared(kind: type[errors.TallyError]) -> dict[str, str]:
    """The values that an error carries, those of the errors that it is a kind of among them."""
    found = [of for base in kind.__mro__ for of in vars(base).get("__annotations__", {}).items()]
    return {name: str(of) for name, of in found if "ClassVar" not in str(of) and name != "values"}


def _make(kind: type[errors.TallyError]) -> errors.TallyError:
    declared = _declared(kind)
    return kind(**{name: SAMPLES.get(of, of) for name, of in declared.items()})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_texts_use_only_declared_values(kind: type[errors.TallyError]) -> None:
    """Template and advice are there, and name nothing that the error does not carry."""
    declared = set(_declared(kind))
    assert kind.template
    assert kind.advice
    assert _fields(kind.template) | _fields(kind.advice) <= declared


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling_and_json(kind: type[errors.TallyError]) -> None:
    """Class, values and text are the same in another process, and the JSON form is plain."""
    error = _make(kind)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.values, str(again)) == (kind, error.values, str(error))
    plain = error.as_json()
    assert json.loads(json.dumps(plain)) == plain
    assert (plain["error"], plain["message"]) == (kind.__name__, error.message)
    assert plain["values"].keys() == error.values.keys()
    assert str(error) == f"{error.message}. {error.next_step}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_values_are_attributes(kind: type[errors.TallyError]) -> None:
    """A caller reads the values without parsing a text, and knows what `tally` exits with."""
    error = _make(kind)
    assert all(getattr(error, name) == value for name, value in error.values.items())
    assert error.exit_status in (1, 2)


def test_refusals_answer_no_and_failures_could_not_ask() -> None:
    """Exit status 1 is an answer; 2 says that the question could not be put."""
    assert {kind.exit_status for kind in KINDS if issubclass(kind, (errors.InvalidInput, errors.Refused))} == {1}
    unavailable = {kind.__name__ for kind in KINDS if issubclass(kind, errors.Unavailable) and kind.exit_status == 1}
    assert unavailable == {"Damaged", "HistoryLost", "RowsDamaged", "CheckpointDamaged", "DeadLettersDamaged"}


def test_braces_in_values_are_left_alone() -> None:
    """A value with braces is text, and is not formatted once more."""
    error = errors.InvalidName(what="stream", value="{x}{0}{", form="f")
    assert "{x}{0}{" in str(error)

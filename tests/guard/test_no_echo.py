"""A secret that was refused is not repeated by the refusal."""

from __future__ import annotations

import json
import pickle
import traceback
import warnings
from collections.abc import Callable

import pytest

import tallystick
from tallystick import NewEvent, errors
from tallystick.event import secret_rules
from tallystick.event.guard import SecretWarning

Samples = Callable[[str, int], list[str]]
WINDOW = 12


def told(problem: BaseException) -> str:
    """Everything that an error says in any form."""
    lines = [str(problem), repr(problem), *traceback.format_exception(problem), repr(problem.__context__)]
    if isinstance(problem, errors.TallyError):
        lines += [json.dumps(problem.as_json()), repr(pickle.dumps(problem)), problem.message, problem.next_step]
    return "\n".join(lines)


def echoes(rule: str, secret: str, text: str) -> list[str]:
    """The pieces of a secret's end that stand in a text, the rule's own name aside."""
    end, text = secret[-60:], text.replace(rule, "")
    return [end[n : n + WINDOW] for n in range(max(1, len(end) - WINDOW + 1)) if end[n : n + WINDOW] in text]


@pytest.mark.parametrize("rule", [rule.name for rule in secret_rules.RULES])
def test_a_refusal_does_not_show_the_secret(rule: str, samples: Samples) -> None:
    """CP-11: neither message, representation, JSON, pickle nor traceback has a piece of the value."""
    with tallystick.open("memory:") as store:
        for secret in samples(rule, 20):
            for payload in ({"a": {"b": secret}}, {"a": {secret: {"below": secret}}}, {"a": [secret]}):
                with pytest.raises(errors.SecretFound) as caught:
                    store.append("order/1", NewEvent("t", payload))
                assert echoes(rule, secret, told(caught.value)) == []


def test_a_refusal_does_not_show_a_short_password() -> None:
    """CP-11: a value that only its key gives away is not shown either."""
    word = "corr" + "ecthorse"
    with tallystick.open("memory:") as store, pytest.raises(errors.SecretFound) as caught:
        store.append("user/1", NewEvent("t", {"login": {"password": word}}))
    assert word not in told(caught.value)
    assert caught.value.length == len(word)


@pytest.mark.parametrize("before", ["", " ", "x: "])
def test_a_refusal_counts_the_characters_of_the_secret_alone(before: str, samples: Samples) -> None:
    """CP-11: what stands in front of it, and shows where it begins, is not counted."""
    secret = samples("github-token", 1)[0]
    with tallystick.open("memory:") as store, pytest.raises(errors.SecretFound) as caught:
        store.append("order/1", NewEvent("t", {"a": before + secret}))
    assert caught.value.length == len(secret)


@pytest.mark.parametrize("rule", [rule.name for rule in secret_rules.RULES])
def test_a_warning_does_not_show_the_secret(rule: str, samples: Samples) -> None:
    """CP-11: in mode `warn` the warning says as little, also below a key that is a secret."""
    secret = samples(rule, 1)[0]
    with tallystick.open("memory:", secrets="warn") as store, warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        store.append("order/1", NewEvent("t", {secret: {"a": secret}}))
    texts = [str(item.message) for item in heard if item.category is SecretWarning]
    assert [text.split("'")[1] for text in texts] == ["/(key 0)", "/(key 0)/a"]
    assert echoes(rule, secret, "\n".join(texts)) == []

"""Input made to keep the guard busy is only input."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tallystick.event import canonical, limits, secret_rules
from tallystick.event.guard import SecretGuard, find

Samples = Callable[[str, int], list[str]]
SIZE = 1_000_000


@pytest.mark.parametrize("rule", [rule.name for rule in secret_rules.RULES])
def test_a_megabyte_of_beginnings_is_judged(rule: str, samples: Samples) -> None:
    """CP-11: 1 MB of each secret's beginning over and over is scanned and inspected to the end."""
    begin = samples(rule, 1)[0][:7]
    text = canonical.encode({"a": begin * (SIZE // len(begin))})
    suspected = SecretGuard().suspects(text)
    assert suspected or not any(True for _ in find(where="payload", text=text))


def test_a_megabyte_of_mixed_beginnings_hides_no_secret(samples: Samples) -> None:
    """CP-11: when the automaton runs out of memory the answer takes longer and stays right."""
    rng = random.Random(3)
    rules = [rule.name for rule in secret_rules.RULES]
    begins = [samples(rule, 1)[0][:5] for rule in rules] + ["eyJ", ".eyJ", "_", "-", ".", "SG.", "A", "z"]
    noise = "".join(rng.choices(begins, k=SIZE // 5))
    secret = samples("stripe-key", 1)[0]
    text = canonical.encode({"a": noise, "b": secret})
    assert SecretGuard().suspects(text)
    assert ("/b", "stripe-key") in {(item.pointer, item.secret_rule) for item in find(where="payload", text=text)}


def test_the_deepest_document_is_walked(samples: Samples) -> None:
    """CP-11: a secret at the deepest level that an event may have is found."""
    document: object = samples("stripe-key", 1)[0]
    for _ in range(limits.DEPTH_MAX):
        document = {"a": document}
    text = canonical.encode(document)
    assert [item.pointer for item in find(where="payload", text=text)] == ["/a" * limits.DEPTH_MAX]

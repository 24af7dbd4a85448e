"""The scan of a whole commit may be alarmed for nothing, but never misses what the inspection would refuse."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallystick.event import canonical, secret_rules
from tallystick.event.guard import SecretGuard, find

Samples = Callable[[str, int], list[str]]
RULES = [rule.name for rule in secret_rules.RULES]

PREFIXES = [
    "AKIA",
    "ghp_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "sk_live_",
    "sk-",
    "sk-ant-a-",
    "AIza",
    "npm_",
    "hf_",
    "eyJ",
]
PREFIXES += ["pypi-AgE", "SG.", "dop_v1_", "AGE-SECRET-KEY-1", "tally_a_", ".eyJ", "-----BEGIN ", "PRIVATE KEY"]
PREFIXES += ["://", "http://u:", "x@", ":", "@", "Authorization", "authorization: ", "Bearer ", "basic ", "="]
PREFIXES += ["password", "apiKey", "secret", "_value", "aws_secret_access_key", "[redacted]", "***", "is_", "pwd", "/"]
NOISE = [
    "\n",
    "\t",
    "\x01",
    "\x1f",
    "\x7f",
    '"',
    "\\",
    "'",
    " ",
    "é",
    "😀",
    "\u2028",
    "n",
    "u0001",
    "[",
    "]",
    ",",
    "{",
    "1",
    "_",
]
RUNS = [alphabet * 2 for alphabet in (string.ascii_uppercase, string.ascii_lowercase, string.digits * 3, "aB3" * 14)]

texts = st.lists(st.sampled_from(PREFIXES + NOISE + RUNS), max_size=8).map("".join)
scalars = st.one_of(texts, st.none(), st.integers(0, 9), st.booleans())
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)
documents = st.dictionaries(texts, values, min_size=1, max_size=4)


def agree(document: dict[str, Any]) -> bool:
    """Whether the inspection finds something; if so, the scan must suspect it, alone and in the middle of a commit."""
    text = canonical.encode(document)
    found = any(True for _ in find(where="payload", text=text))
    if found:
        assert SecretGuard().suspects(text)
        assert SecretGuard().suspects(b"\n".join([b"{}", text, b"order/1", b'{"org":"a"}']))
    return found


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents)
def test_whatever_is_refused_was_suspected(document: dict[str, Any]) -> None:
    """CP-11: for any document, a finding of the inspection implies an alarm of the scan."""
    agree(document)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("before", NOISE)
def test_no_neighbour_hides_a_secret(rule: str, before: str, samples: Samples) -> None:
    """CP-11: escapes in front of and behind a secret hide it from neither the inspection nor the scan."""
    secret = samples(rule, 1)[0]
    hidden_by_rule = before in "nu0001"  # a secret begins a word
    for after in NOISE:
        for document in ({"a": before + secret + after}, {before + secret + after: 1}):
            assert agree(document) or hidden_by_rule


def test_random_documents_do_hold_findings() -> None:
    """The property above is not empty: a good part of documents made from the same pieces is refused."""
    rng = random.Random(5)
    pieces = PREFIXES + NOISE + RUNS
    made = ({"a": "".join(rng.choices(pieces, k=8)), "".join(rng.choices(pieces, k=3)): "x"} for _ in range(2000))
    assert sum(agree(document) for document in made) > 50

"""The secret guard: values that look like secrets are refused before they are stored (or only warned of, if so set).

`suspects` runs one automaton over a whole commit. Only if it matches, each text is decoded, walked and judged. Neither
the value nor a key that is itself a secret is ever shown, stored or passed on.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from tallystick import errors
from tallystick.event import canonical, secret_rules
from tallystick.event.secret_rules import Match

MODES = ("reject", "warn", "off")


class SecretWarning(UserWarning):
    """Something that looks like a secret was written, because the store is set to warn only."""


class SecretGuard:
    """Finds secrets in canonical JSON and refuses them."""

    def suspects(self, blob: bytes) -> bool:
        """Whether `inspect` could find anything in these texts: canonical JSON and names, joined by newlines."""
        return secret_rules.WIRE.search(blob) is not None

    def inspect(self, *, where: str, text: bytes) -> None:
        """Refuse the canonical JSON of `where` if it contains a secret; the error names the place and the rule."""
        if self.suspects(text):
            for problem in find(where=where, text=text):
                raise problem


class WarningGuard(SecretGuard):
    """Finds secrets in canonical JSON and warns of each."""

    def inspect(self, *, where: str, text: bytes) -> None:
        """Warn of every secret in the canonical JSON of `where`."""
        if self.suspects(text):
            for problem in find(where=where, text=text):
                try:  # the eighth frame up from here is the one that called Store.append
                    warnings.warn(problem.message, SecretWarning, stacklevel=8)
                except SecretWarning:  # if warnings are errors, only this event is refused, not its whole group
                    raise problem from None


def make(mode: str) -> SecretGuard | None:
    """The guard for a store's `secrets` setting; None for `off`."""
    if mode not in MODES:
        raise errors.InvalidValue(what="secrets", value=mode, must="one of " + ", ".join(MODES))
    if mode == "off":
        return None
    return SecretGuard() if mode == "reject" else WarningGuard()


def find(*, where: str, text: bytes) -> Iterator[errors.SecretFound]:
    """Every secret in a canonical JSON text."""
    for pointer, match in _walk(canonical.decode(text), ""):
        yield errors.SecretFound(where=where, pointer=pointer, secret_rule=match.rule, length=match.length)


def _walk(value: Any, pointer: str) -> Iterator[tuple[str, Match]]:
    if type(value) is dict:
        for index, (key, item) in enumerate(value.items()):
            yield from _member(key, item, pointer, index)
    elif type(value) is list:
        for index, item in enumerate(value):
            yield from _walk(item, f"{pointer}/{index}")
    elif type(value) is str and (match := secret_rules.match_text(value)):
        yield pointer, match


def _member(key: str, value: Any, pointer: str, index: int) -> Iterator[tuple[str, Match]]:
    """One member of an object. A key that is itself a secret is named by its index, also in the pointers below it."""
    match = secret_rules.match_text(key)
    place = f"{pointer}/(key {index})" if match else f"{pointer}/{canonical.escape_pointer(key)}"
    if match:
        yield place, match
    found = False
    for below in _walk(value, place):
        found = True
        yield below
    if not found:
        yield from _named(key, value, place)


def _named(key: str, value: Any, place: str) -> Iterator[tuple[str, Match]]:
    """Secrets by the name of their key: a text, or a flat list of texts, as in web forms and headers."""
    if type(value) is str and (match := secret_rules.match_pair(key, value)):
        yield place, match
    elif type(value) is list and not any(type(item) in (dict, list) for item in value):
        for index, item in enumerate(value):
            if type(item) is str and (match := secret_rules.match_pair(key, item, adjacent=index == 0)):
                yield f"{place}/{index}", match

"""What a secret looks like: formats of values, names of keys, and what is harmless although it looks like one.

Known formats are refused; nothing else is promised. These are missed: a secret that is encoded again (base64, gzip) or
split over fields, a plain word under a harmless key, and an unknown format. There is no entropy rule: ids, hashes and
public keys are random by design.

Each pattern is written once and used twice: on the text of a single string, to decide, and inside `WIRE`, on the
canonical bytes of a whole commit, to find out cheaply that there is nothing to decide. So everything that a pattern
finds in a text it must also find in the JSON of that text, where a quote or backslash follows a backslash and a newline
is `\\n`. A pattern therefore allows neither, allows any number of both, or has its own `wire`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import re2

_MEMORY_BYTES_MAX = 64 << 20  # of the automaton; above it re2 is slower, but never wrong
_JOIN = rb"""[\\"' :=\[(]+"""  # what may be between a name and its value, also in JSON inside JSON
_START = rb"(?:^|[^0-9A-Za-z])"
_START_WIRE = rb"(?:^|[^0-9A-Za-z]|\\[bfnrt]|\\u00[01][0-9a-f])"
_TOKEN = rb"[0-9A-Za-z._~+/=-]"
KEY_NAME = "key-name"


class Rule(msgspec.Struct, frozen=True):
    """One format of a secret.

    `inside`: may start in the middle of a word. `named`: is also searched for in "key: value". `harmless`: whether a
    match is not a secret after all.
    """

    name: str
    form: bytes
    wire: bytes | None = None
    inside: bool = False
    named: bool = False
    harmless: Callable[[bytes], bool] | None = None


class Match(NamedTuple):
    """The rule that matched, and the number of characters, but never the characters."""

    rule: str
    length: int


# --- what is harmless although it matches ----------------------------------------------------------------------

_MASK = re.compile(
    r"[*•●]+|[xX]{3,}|\.{3,}|…|-+|#{3,}"
    r"|[\[<({*]*(?:redacted|masked|hidden|removed|filtered|omitted|scrubbed)[\])}>*]*",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"\$\{[A-Za-z0-9_.:-]+\}|\$\{\{[^{}]*\}\}|\{\{[^{}]*\}\}|<[A-Za-z0-9_ .-]+>"
    r"|(?:vault|op|secret|secrets|awssm|gcpsm|azkv)://\S+|arn:aws[a-z-]*:(?:secretsmanager|ssm|kms):\S+"
    r"|projects/[^/\s]+/secrets/[^/\s]+(?:/versions/[^/\s]+)?"
)


def is_placeholder(value: str) -> bool:
    """Whether a text is a placeholder for a secret: empty, a mask, or a reference into a vault."""
    text = value.strip()
    return not text or _MASK.fullmatch(text) is not None or _REFERENCE.fullmatch(text) is not None


def _masked_token(match: bytes) -> bool:
    """Whether what follows `Bearer` or `Basic` is a mask or a word of prose."""
    token = re.split(rb"[ \"'\\]", match)[-1].decode("ascii")
    prose = token.isalpha() and len(token) < 24 and (token.islower() or token.istitle() or token.isupper())
    return prose or len(set(token)) == 1 or is_placeholder(token)


def _masked_password(match: bytes) -> bool:
    """Whether the password of a URL is a mask, or no password but a port in a list of addresses."""
    user, _, password = match.partition(b"://")[2].rpartition(b"@")[0].partition(b":")
    listed = (b"." in user or user == b"localhost") and re.match(rb"\d{2,5}[;,]", password) is not None
    return listed or is_placeholder(password.decode(errors="replace"))


# --- forms of values -------------------------------------------------------------------------------------------------

_URL_USER = rb"""[0-9A-Za-z]://[^\x00-\x20/?#:@"\\\x7f]*:"""

RULES = (
    Rule("private-key", rb"-----BEGIN [0-9A-Z ]*PRIVATE KEY", inside=True),
    Rule("aws-access-key-id", rb"(?:AKIA|ASIA)[0-9A-Z]{16,}"),
    Rule(
        "aws-secret-key",
        rb"(?i:aws[_. -]?secret[_. -]?(?:access[_. -]?)?key)" + _JOIN + rb"[0-9A-Za-z/+]{40,}",
        inside=True,
        named=True,
    ),
    Rule("github-token", rb"(?:gh[a-z]_[0-9A-Za-z]{30,}|github_pat_[0-9A-Za-z_]{22,})"),
    Rule("gitlab-token", rb"gl(?:pat|dt|rt|ptt|soat|cbt|ft|agent)-[0-9A-Za-z_-]{20,}"),
    Rule("slack-token", rb"xox[a-z](?:\.xox[a-z])?-[0-9A-Za-z-]{10,}"),
    Rule("stripe-key", rb"[rs]k_live_[0-9A-Za-z]{16,}"),
    Rule("anthropic-key", rb"sk-ant-[0-9a-z]+-[0-9A-Za-z_-]{20,}"),
    Rule("openai-key", rb"sk-(?:[0-9A-Za-z]{20,}|(?:proj|svcacct|admin|or-v1)-[0-9A-Za-z_-]{20,})"),
    Rule("google-api-key", rb"AIza[0-9A-Za-z_-]{35,}"),
    Rule("npm-token", rb"npm_[0-9A-Za-z]{30,}"),
    Rule("pypi-token", rb"pypi-AgE[0-9A-Za-z_-]{32,}"),
    Rule("sendgrid-key", rb"SG\.[0-9A-Za-z_-]{16,}\.[0-9A-Za-z_-]{16,}"),
    Rule("huggingface-token", rb"hf_[0-9A-Za-z]{30,}"),
    Rule("digitalocean-token", rb"do[opr]_v1_[0-9a-f]{32,}"),
    Rule("age-secret-key", rb"(?i:AGE-SECRET-KEY-1)[0-9A-Za-z]{32,}"),
    Rule("jwt", rb"eyJ[0-9A-Za-z_-]{8,}\.eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{16,}"),
    Rule("tally-token", rb"tally_[0-9a-z]+_[0-9A-Za-z]{22,}"),
    Rule(
        "url-password",
        _URL_USER + rb"[^\x00-\x20/?#@\x7f]+@",
        wire=_URL_USER + rb'(?:[^\x00-\x20/?#@"\\\x7f]|\\["\\])+@',
        inside=True,
        harmless=_masked_password,
    ),
    Rule(
        "authorization-header",
        rb"(?i:authorization)" + _JOIN + rb"(?i:bearer|basic) +" + _TOKEN + rb"{8,}",
        inside=True,
        named=True,
        harmless=_masked_token,
    ),
    Rule("bearer-token", rb"(?i:bearer) +" + _TOKEN + rb"{20,}", harmless=_masked_token),
    Rule("basic-credentials", rb"(?i:basic) +[0-9A-Za-z+/]{12,}={1,2}", harmless=_masked_token),
)

# --- names of keys ---------------------------------------------------------------------------------------------------

# Only the end of a key counts, so that secret_version_id, password_changed_at and token_count are not refused.
_KEY = (
    rb"(?i:pass[_-]?(?:word|wd|phrase)|pwd|secret|api[_. -]?key|bearer"
    rb"|(?:access|auth|bearer|refresh|session)[_. -]?token"
    rb"|(?:private|secret|secret[_. -]?access)[_. -]?key)"
    rb"(?i:[_. -]?(?:value|string|text|plaintext|confirm|confirmation))?[_. -]?[0-9]*"
)
_KEY_WIRE = _KEY + rb'":(?:\[[^\]]*)?"[^"]'
_QUESTION = re.compile(r"(?i:is|has|needs|requires)(?:[_. -]|[A-Z])")
_BEARER_INSIDE = re.compile(r"(?:[a-z]bearer|[A-Z]BEARER)[_. -]?[0-9]*")
_PATH = re.compile(r"~?/\S*|~|[A-Za-z]:[\\/].*")


def _compile(form: bytes) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes: in UTF-8 each negated class needs many states
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES_MAX
    return re2.compile(form, options)


def _joined(forms: list[bytes]) -> bytes:
    return b"(?:" + b"|".join(forms) + b")"


def _alternation(start: bytes, *, wire: bool, rules: tuple[Rule, ...] = RULES) -> bytes:
    forms = [(rule, rule.wire if wire and rule.wire else rule.form) for rule in rules]
    free = [form for rule, form in forms if rule.inside]
    bound = [form for rule, form in forms if not rule.inside]
    return _joined(free + ([start + _joined(bound)] if bound else []))


WIRE = _compile(_joined([_alternation(_START_WIRE, wire=True), _KEY_WIRE]))
"""For canonical bytes: finds at least everything that the rules below find, and little else."""

_ANY = _compile(_alternation(_START, wire=False))
_EACH = tuple((rule, _compile(_alternation(_START, wire=False, rules=(rule,)))) for rule in RULES)
_NAMED = tuple((rule, pattern) for rule, pattern in _EACH if rule.named)
_NAME = _compile(_KEY + rb"\z")


def match_text(text: str) -> Match | None:
    """The first rule that finds a secret in a text."""
    raw = text.encode()
    return _first(_EACH, raw) if _ANY.search(raw) else None


def match_pair(key: str, value: str, *, adjacent: bool = True) -> Match | None:
    """The first rule that finds a secret in a value because of its key. `adjacent`: nothing is between them."""
    found = _first(_NAMED, f"{key}: {value}".encode()) if adjacent else None
    if found is None and is_secret_name(key, value) and not is_placeholder(value):
        found = Match(KEY_NAME, len(value))
    return found


def is_secret_name(key: str, value: str) -> bool:
    """Whether a key says that its value is a secret."""
    if _NAME.search(key.encode()) is None or _QUESTION.match(key) or _BEARER_INSIDE.search(key):
        return False
    working_directory = key.lower().endswith("pwd") and _PATH.fullmatch(value)
    return not working_directory


def _first(rules: tuple[tuple[Rule, Any], ...], raw: bytes) -> Match | None:
    for rule, pattern in rules:
        for match in pattern.finditer(raw):
            found: bytes = match.group()
            if rule.harmless is None or not rule.harmless(found):
                return Match(rule.name, len(found) - (0 if rule.inside else _before(found)))
    return None


def _before(found: bytes) -> int:
    """How many characters of a match are the boundary before it."""
    return 0 if found[:1].isalnum() else 1

"""Samples of secrets, made from parts when the tests run, so that nothing in this repository looks like one."""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable

import pytest

LOWER_HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
BASE62 = string.ascii_letters + string.digits
URL_SAFE = BASE62 + "-_"
BASE64 = BASE62 + "+/"


def _made(rng: random.Random, alphabet: str, least: int, most: int | None = None) -> str:
    """Random characters, the last of them a digit, so that none is taken for a word of prose."""
    return "".join(rng.choices(alphabet, k=rng.randint(least, most or least) - 1)) + rng.choice("23456789")


def _private_key(rng: random.Random) -> str:
    kind = rng.choice(["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "PGP "])
    return f"-----BEGIN {kind}PRIVATE" + f" KEY-----\n{_made(rng, BASE64, 64)}\n{_made(rng, BASE64, 64)}"


def _jwt(rng: random.Random) -> str:
    head, body = (
        base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        for text in ('{"alg":"HS256","typ":"JWT"}', '{"sub":"' + _made(rng, BASE62, 12) + '"}')
    )
    return f"{head}.{body}.{_made(rng, URL_SAFE, 43)}"


def _url(rng: random.Random) -> str:
    scheme = rng.choice(["postgresql", "https", "redis", "amqp", "mongodb+srv"])
    user = rng.choice(["", "app", "svc-7", "me%40corp"])
    return f"{scheme}://{user}:" + _made(rng, BASE62 + '!$"\\;,:', 6, 30) + "@db.internal:5432/main"


def _basic(rng: random.Random) -> str:
    return base64.b64encode(f"user:{_made(rng, BASE62, 11)}".encode()).decode()


MAKERS: dict[str, Callable[[random.Random], str]] = {
    "private-key": _private_key,
    "aws-access-key-id": lambda rng: rng.choice(["AK", "AS"]) + "IA" + _made(rng, UPPER, 16),
    "aws-secret-key": lambda rng: (
        rng.choice(["aws_secret_access_key", "AWS_SECRET_KEY"])
        + rng.choice(["=", ": ", ' = "'])
        + _made(rng, BASE64, 40)
    ),
    "github-token": lambda rng: rng.choice(
        [f"gh{rng.choice('opusr')}_" + _made(rng, BASE62, 36), "github_" + "pat_" + _made(rng, BASE62 + "_", 82)]
    ),
    "gitlab-token": lambda rng: "glpat" + "-" + _made(rng, URL_SAFE, 20, 26),
    "slack-token": lambda rng: (
        f"xox{rng.choice('abpors')}" + "-" + _made(rng, string.digits, 12) + "-" + _made(rng, BASE62, 24)
    ),
    "stripe-key": lambda rng: rng.choice("sr") + "k_live_" + _made(rng, BASE62, 24, 99),
    "anthropic-key": lambda rng: "sk-" + "ant-api03-" + _made(rng, URL_SAFE, 95),
    "openai-key": lambda rng: "sk-" + rng.choice([_made(rng, BASE62, 48), "proj-" + _made(rng, URL_SAFE, 60)]),
    "google-api-key": lambda rng: "AI" + "za" + _made(rng, URL_SAFE, 35),
    "npm-token": lambda rng: "npm" + "_" + _made(rng, BASE62, 36),
    "pypi-token": lambda rng: "pypi" + "-AgEIcHlwaS5vcmc" + _made(rng, URL_SAFE, 70, 150),
    "sendgrid-key": lambda rng: "SG" + "." + _made(rng, URL_SAFE, 22) + "." + _made(rng, URL_SAFE, 43),
    "huggingface-token": lambda rng: "hf" + "_" + _made(rng, BASE62, 34),
    "digitalocean-token": lambda rng: f"do{rng.choice('opr')}" + "_v1_" + _made(rng, LOWER_HEX, 64),
    "age-secret-key": lambda rng: "AGE-SECRET" + "-KEY-1" + _made(rng, UPPER, 58),
    "jwt": _jwt,
    "tally-token": lambda rng: f"tally_{rng.choice(['svc', 'read', 'admin2'])}_" + _made(rng, BASE62, 22, 40),
    "url-password": _url,
    "authorization-header": lambda rng: (
        rng.choice(["Authorization: ", "authorization=", 'curl -H "Proxy-Authorization: '])
        + rng.choice([f"Bearer {_made(rng, URL_SAFE, 12, 60)}", f"Basic {_basic(rng)}", f"basic {_basic(rng)}"])
    ),
    "bearer-token": lambda rng: rng.choice(["Bearer ", "bearer "]) + _made(rng, URL_SAFE + ".", 24, 80),
    "basic-credentials": lambda rng: "Basic " + _basic(rng),
}


@pytest.fixture(scope="session")
def samples() -> Callable[[str, int], list[str]]:
    """`samples(rule, n)`: n secrets of a rule, the same in every run."""

    def make(rule: str, count: int) -> list[str]:
        rng = random.Random(f"tallystick {rule}")
        return [MAKERS[rule](rng) for _ in range(count)]

    return make

"""Known forms of secrets are refused wherever they stand, with the place and the rule."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

import pytest

import tallystick
from tallystick import NewEvent, errors
from tallystick.event import canonical, guard, names, secret_rules
from tallystick.event.guard import SecretGuard

Samples = Callable[[str, int], list[str]]
RULES = [rule.name for rule in secret_rules.RULES]
KEYS = ["password", "passwd", "pwd", "passphrase", "db_password", "DbPassword", "DB_PASSWORD", "newPassword1"]
KEYS += ["password_confirmation", "secret", "client_secret", "clientSecret", "webhook-secret", "SecretString"]
KEYS += ["api_key", "apiKey", "apikey", "X-API-Key", "stripe.api.key", "private_key", "privateKey", "secret_key"]
KEYS += ["secretAccessKey", "access_token", "accessToken", "refresh_token", "REFRESH_TOKEN", "auth_token"]
KEYS += ["session_token", "sessionToken", "bearer", "bearer_token"]
QUESTIONS = ["has_password", "isSecret", "forbearer"]
BENIGN_KEYS = ["secret_version", "secret_version_id", "secretVersionId", "secret_id", "secret_name", "secret_ref"]
BENIGN_KEYS += ["secretary", "secrets_count", "password_changed_at", "passwordChangedAt", "password_hash_algorithm"]
BENIGN_KEYS += ["password_policy", "token", "token_count", "tokens", "max_tokens", "prompt_tokens", "page_token"]
BENIGN_KEYS += ["api_key_id", "apiKeyPrefix", "access_token_expires_at", "private_key_id", "key", "idempotency_key"]
BENIGN_KEYS += ["public_key", "keyboard"]
PLACEHOLDERS: list[object] = [None, True, 7, 1.5, "", "  ", "***", "•••", "xxxx", "[redacted]", "<REDACTED>"]
PLACEHOLDERS += [
    "[Filtered]",
    "${DB_PASSWORD}",
    "{{ vault.db }}",
    "vault://kv/db#3",
    "projects/p/secrets/db/versions/3",
]
PLACEHOLDERS += [{"version_id": "v3"}, [], [""]]
LOOKALIKES = [
    "postgresql://app:***@db/main",
    "https://h.example:8080,admin@corp.example",
    "https://h.example:443/a?b=c@d",
]
LOOKALIKES += ["ssh://git@host:22/r.git", "http://[::1]:80/", "Authorization: Bearer redacted", "Basic authentication"]
LOOKALIKES += ["authorization: basic authentication is required", "Bearer " + "x" * 40, "sk-learn-pipeline-for-all"]
LOOKALIKES += [
    "task-01J9ZQ4T2V6M8K0XW3B5N7R1YD",
    "-----BEGIN PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----",
    "eyJ.eyJ.",
]


def found(document: dict[str, object]) -> errors.SecretFound:
    """What the guard raises on a document; it must have suspected it first."""
    text = canonical.encode(document)
    assert SecretGuard().suspects(b"\n".join([b'{"before":1}', text, b"run/a"]))
    with pytest.raises(errors.SecretFound) as caught:
        SecretGuard().inspect(where="payload of t", text=text)
    return caught.value


def passes(document: dict[str, object]) -> None:
    """The guard has nothing against a document."""
    SecretGuard().inspect(where="payload of t", text=canonical.encode(document))


def test_every_rule_has_samples(samples: Samples) -> None:
    """CP-11: a rule without samples would be a rule without a test."""
    assert all(len(set(samples(rule, 200))) == 200 for rule in RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_secret_deep_in_a_payload_is_refused_with_its_pointer(rule: str, samples: Samples) -> None:
    """CP-11: 200 samples of each rule, nested and in the middle of text, are refused by name and JSON pointer."""
    for secret in samples(rule, 200):
        problem = found({"a": [1, {"b/c": {"note": f"see\n{secret}\nthere"}}], "z": "fine"})
        assert (problem.secret_rule, problem.pointer) == (rule, "/a/1/b~1c/note")
        assert 0 < problem.length <= len(secret) + len("\nthere")


@pytest.mark.parametrize("rule", RULES)
def test_a_secret_used_as_a_key_is_refused_by_place(rule: str, samples: Samples) -> None:
    """CP-11: a key that is a secret is refused, and its pointer counts keys instead of quoting it."""
    for secret in samples(rule, 200):
        problem = found({"list": [{"\x01": 0, secret: True}]})
        assert (problem.secret_rule, problem.pointer) == (rule, "/list/0/(key 1)")


@pytest.mark.parametrize("rule", RULES)
def test_a_store_refuses_a_secret_in_payload_meta_and_stream(rule: str, samples: Samples) -> None:
    """CP-11: payload, idempotency key and stream name are all guarded, and nothing is written."""
    with tallystick.open("memory:") as store:
        for secret in samples(rule, 10):
            with pytest.raises(errors.SecretFound, match=rule):
                store.append("order/1", NewEvent("t", {"a": secret}))
            with pytest.raises(errors.SecretFound, match="/idempotency_key"):
                store.append("order/1", NewEvent("t", {}, meta={"idempotency_key": secret}))
            if names.NAME.fullmatch(secret):
                with pytest.raises(errors.SecretFound, match="stream name at '/stream'"):
                    store.append(f"order/{secret}", NewEvent("t", {}))
        assert store.head() == 0


def test_some_rules_fit_into_a_stream_name(samples: Samples) -> None:
    """The test above does try stream names: at least ten rules have samples in their alphabet."""
    assert sum(any(names.NAME.fullmatch(secret) for secret in samples(rule, 10)) for rule in RULES) >= 10


def test_only_the_culprit_of_a_batch_is_refused(samples: Samples) -> None:
    """CP-11: a commit is scanned at once, and the requests beside the culprit still pass."""
    from tallystick.store.prepare import Part, Request

    secret = samples("github-token", 1)[0]
    with tallystick.open("memory:") as store:
        given = [Request([Part(f"order/{n}", [NewEvent("t", {"a": secret if n == 3 else n})])]) for n in range(6)]
        outcomes = store.submit(given)
        assert [isinstance(outcome, errors.SecretFound) for outcome in outcomes] == [n == 3 for n in range(6)]
        assert store.head() == 5


@pytest.mark.parametrize("key", KEYS)
def test_a_telling_key_makes_its_text_a_secret(key: str) -> None:
    """CP-11: under the name of a secret any text is one, whatever the spelling of the name."""
    rng = random.Random(key)
    for _ in range(200):
        value = "".join(rng.choices(string.ascii_letters + string.digits + ' "\\!é', k=rng.randint(1, 30))) + "k"
        problem = found({"config": {key: value}})
        assert (problem.secret_rule, problem.pointer, problem.length) == ("key-name", f"/config/{key}", len(value))


def test_a_telling_key_covers_a_flat_list() -> None:
    """CP-11: web forms give every field as a list; the texts in it count."""
    assert found({"password": ["", None, "hunter"]}).pointer == "/password/2"
    assert found({"password": ["***", "a]b"]}).pointer == "/password/1"


def test_an_authorization_key_is_read_together_with_its_value() -> None:
    """CP-11: headers as an object are headers, also with a list of values."""
    assert found({"headers": {"Authorization": "Bearer k9" + "x7Qp2mn"}}).secret_rule == "authorization-header"
    assert found({"headers": {"authorization": ["Basic k9" + "x7Qp2mn"]}}).pointer == "/headers/authorization/0"


@pytest.mark.parametrize("key", BENIGN_KEYS + QUESTIONS)
def test_a_key_about_a_secret_is_no_secret(key: str) -> None:
    """CP-11: version ids, counts, dates and policies of secrets are fine."""
    text = canonical.encode({key: "01J9ZQ4T2V6M8K0XW3B5N7R1YD"})
    SecretGuard().inspect(where="payload", text=text)


@pytest.mark.parametrize("key", BENIGN_KEYS)
def test_a_key_about_a_secret_costs_no_inspection(key: str) -> None:
    """The scan of a whole commit is not alarmed by names that are common and fine."""
    assert not SecretGuard().suspects(canonical.encode({key: "01J9ZQ4T2V6M8K0XW3B5N7R1YD"}))


@pytest.mark.parametrize("value", PLACEHOLDERS)
def test_a_placeholder_is_no_secret(value: object) -> None:
    """CP-11: nothing, numbers, masks and references into a vault pass under any key."""
    passes({"password": value, "client_secret": value})


@pytest.mark.parametrize("text", LOOKALIKES)
def test_a_lookalike_is_no_secret(text: str) -> None:
    """CP-11: what has the words but not the form of a secret passes."""
    passes({"text": text})


def test_a_working_directory_is_no_password() -> None:
    """`pwd` is a password in a form and a path in an environment: paths pass."""
    passes({"env": {"PWD": "/srv/app"}})
    assert found({"pwd": "srv"}).secret_rule == "key-name"


def test_an_unknown_mode_is_refused() -> None:
    """CP-11: the guard has three modes."""
    with pytest.raises(errors.InvalidValue, match="reject, warn, off"):
        guard.make("maybe")

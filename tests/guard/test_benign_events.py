"""What event stores are full of is not taken for a secret."""

from __future__ import annotations

import base64
import hashlib
import random
import uuid
from typing import Any

from tallystick.event import canonical, ids
from tallystick.event.guard import SecretGuard, find


def benign(rng: random.Random) -> dict[str, Any]:
    """An event with everything random that is no secret."""
    raw = rng.randbytes
    return {
        "uuid": str(uuid.UUID(bytes=raw(16))),
        "ulid": ids.to_ulid(raw(16)),
        "task": f"task-{ids.to_ulid(raw(16))}",
        "sha256": raw(32).hex(),
        "digest": "sha256:" + hashlib.sha256(raw(4)).hexdigest(),
        "commit": raw(20).hex(),
        "public_key": base64.b64encode(raw(32)).decode(),
        "signature": base64.urlsafe_b64encode(raw(64)).decode().rstrip("="),
        "blob": base64.b64encode(raw(rng.randint(60, 400))).decode(),
        "url": f"https://host{rng.randrange(99)}.example:8443/a/{raw(8).hex()}?page_token={raw(12).hex()}&at=x@y",
        "git": f"git@github.example:org/repo{rng.randrange(99)}.git",
        "email": f"user.{raw(3).hex()}@example.org",
        "secret_version_id": f"sv_{ids.to_ulid(raw(16))}",
        "secret": {"name": "db/main", "version": rng.randrange(1, 9), "version_id": str(uuid.UUID(bytes=raw(16)))},
        "secret_arn": f"arn:aws:secretsmanager:eu-west-1:{rng.randrange(10**11, 10**12)}:secret:db-{raw(3).hex()}",
        "key_fingerprint": "SHA256:" + base64.b64encode(raw(32)).decode().rstrip("="),
        "usage": {"prompt_tokens": rng.randrange(9999), "max_tokens": 4096, "token_count": str(rng.randrange(99))},
        "idempotency_key": f"order-{raw(10).hex()}",
        "text": "The bearer of this letter gave basic information; the secretary changed the password policy.",
    }


def test_ten_thousand_benign_events_pass() -> None:
    """CP-11: ids, hashes, public keys, blobs, addresses and secret version ids: no false positive in 10,000."""
    rng, guard = random.Random(20_240_131), SecretGuard()
    texts = [canonical.encode(benign(rng)) for _ in range(10_000)]
    assert not guard.suspects(b"\n".join(texts))
    assert [problem for text in texts[:1000] for problem in find(where="payload", text=text)] == []


def test_a_port_and_an_address_side_by_side_raise_no_alarm() -> None:
    """CP-11: a URL with a port in one field and an @ in the next are not one URL with a password."""
    assert not SecretGuard().suspects(canonical.encode({"a": "https://host:8080", "b": "x@example.org"}))

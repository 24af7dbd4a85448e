"""Signing keys: one Ed25519 key per device, and the NodeID that contains it.

Only PyNaCl signs and verifies: it refuses small-order keys and malleable signatures, which other libraries accept.
Every signed text starts with a tag for its kind, so that a signature of one kind is never valid for another:

    event       "tallystick/1" …            the text that the link hashes (docs/formats/chain.md)
    snapshot    "tallystick/snapshot/1" …
    challenge   "tallystick/challenge/1" …
    invitation  "tallystick/invitation/1" …
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from nacl.bindings import crypto_sign_open
from nacl.exceptions import CryptoError
from nacl.signing import SigningKey

from tallystick import errors

ALG = "ed25519"
SNAPSHOT_TAG = "tallystick/snapshot/1"
CHALLENGE_TAG = "tallystick/challenge/1"
INVITATION_TAG = "tallystick/invitation/1"
_NODE = re.compile(r"ed25519:[0-9a-f]{64}")
_SEED = re.compile(r"[0-9a-f]{64}")


def is_node_id(text: object) -> bool:
    """Whether this is a NodeID in full form."""
    return type(text) is str and _NODE.fullmatch(text) is not None


def public_key(node: str) -> bytes:
    """The 32 bytes of a NodeID."""
    if not is_node_id(node):
        raise errors.InvalidValue(what="node id", value=str(node)[:80], must="ed25519: and 64 hex digits")
    return bytes.fromhex(node[8:])


def tagged(tag: str, *fields: str) -> bytes:
    """The signed text of anything but an event: the tag of its kind, then one line per field."""
    return "\n".join((tag, *fields)).encode()


def verify(key: bytes, text: bytes, signature: bytes) -> bool:
    """Whether the holder of this key signed exactly this."""
    try:
        crypto_sign_open(signature + text, key)
    except (CryptoError, ValueError, TypeError):
        return False
    return True


def unhex(text: str) -> bytes:
    """The bytes of a hex text from a peer; empty if it is not hex, which never equals a signature."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


class KeyPair:
    """The key of one device."""

    def __init__(self, seed: bytes) -> None:
        self._key = SigningKey(seed)
        self.public = bytes(self._key.verify_key)
        self.node = f"{ALG}:{self.public.hex()}"

    @classmethod
    def generate(cls) -> KeyPair:
        """A new key."""
        return cls(bytes(SigningKey.generate()))

    @property
    def seed(self) -> bytes:
        """The secret half."""
        return bytes(self._key)

    def sign(self, text: bytes) -> bytes:
        """The 64 bytes of a signature."""
        return self._key.sign(text).signature

    def save(self, path: Path) -> None:
        """Write the key to a new file that only its owner can read. An existing key is never overwritten."""
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(self.seed.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def load(cls, path: Path) -> KeyPair:
        """Read a key. A file that others can read is refused."""
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise errors.InvalidValue(what="key file", value=path.name, must="readable only by its owner (mode 0600)")
        text = path.read_text("ascii", errors="replace").strip()
        if not _SEED.fullmatch(text):
            raise errors.InvalidValue(what="key file", value=path.name, must="64 hex digits")
        return cls(bytes.fromhex(text))

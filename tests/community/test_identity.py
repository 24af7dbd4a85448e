"""Keys, names and signatures."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tallystick import errors
from tallystick.community import KeyPair, identity
from tallystick.testing.community.people import keys

ORDER_L = (1 << 252) + 27742317777372353535851937790883648493


def test_a_node_id_is_the_full_public_key() -> None:
    """COM-01: an author is named `ed25519:` and 64 hex digits, and nothing shorter passes."""
    node = keys(1).node
    assert identity.is_node_id(node)
    assert identity.public_key(node) == keys(1).public
    for wrong in (node[:-1], node.upper(), node[8:], node + "\n", "rsa:" + node[8:], None):
        assert not identity.is_node_id(wrong)


def test_a_key_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """A key is written with mode 0600, never over another, and read only while nobody else can."""
    path = tmp_path / "key"
    keys(1).save(path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert KeyPair.load(path).node == keys(1).node
    with pytest.raises(FileExistsError):
        keys(2).save(path)
    path.chmod(0o644)
    with pytest.raises(errors.InvalidValue):
        KeyPair.load(path)


def test_a_signature_holds_for_its_text_and_key_alone() -> None:
    """A flipped bit, another key, another text and another kind of text are all refused."""
    text = identity.tagged(identity.CHALLENGE_TAG, "a", "b")
    signature = keys(1).sign(text)
    assert identity.verify(keys(1).public, text, signature)
    assert not identity.verify(keys(2).public, text, signature)
    assert not identity.verify(keys(1).public, text + b"x", signature)
    assert not identity.verify(keys(1).public, identity.tagged(identity.SNAPSHOT_TAG, "a", "b"), signature)
    for bit in range(0, 512, 37):
        spoilt = bytearray(signature)
        spoilt[bit // 8] ^= 1 << bit % 8
        assert not identity.verify(keys(1).public, text, bytes(spoilt))


def test_a_malleable_signature_is_refused() -> None:
    """COM-04: S + L validates in some libraries; here it does not, so that one event has one signature."""
    signature = keys(1).sign(b"text")
    scalar = int.from_bytes(signature[32:], "little") + ORDER_L
    assert not identity.verify(keys(1).public, b"text", signature[:32] + scalar.to_bytes(32, "little"))


@pytest.mark.parametrize("key", [bytes(32), b"\x01" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f"])
def test_a_small_order_key_signs_nothing(key: bytes) -> None:
    """COM-04: for such keys one signature validates many texts in some libraries; here it validates none."""
    for first in (bytes(32), b"\x01" + bytes(31)):
        assert not any(identity.verify(key, bytes([number]), first + bytes(32)) for number in range(64))


@pytest.mark.parametrize("length", [0, 63, 65, 1000])
def test_a_signature_of_another_length_is_refused(length: int) -> None:
    """It is no signature, and no crash."""
    assert not identity.verify(keys(1).public, b"text", bytes(length))

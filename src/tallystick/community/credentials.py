"""How peers authenticate over HTTP: a node signs each request and each answer, and names the other node in it.

    request   "tallystick/challenge/1", community, "request", method, path, time, nonce, from, to, sha256 of the body
    answer    "tallystick/challenge/1", community, "answer", status, the request's signature, from, sha256 of the body

A request is valid once and for five minutes. Its headers contain the digest of its body, so that a node knows who sends
a request before it reads the body. A newcomer that no node knows yet shows the proof of its invitation.

The counted roster decides who may read: members, and any key that could join now with the invitation it shows. A key
that the operator put on the list of peers may read as long as the roster does not mention it. A revocation overrules
the list, for incoming and outgoing requests.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping

import msgspec

from tallystick import errors
from tallystick.community import acts, identity
from tallystick.community.identity import KeyPair
from tallystick.community.replica import Replica

WINDOW_NS = 300_000_000_000
NONCES_MAX = 100_000
NODE, TIME, NONCE, SIGNATURE = "x-tally-node", "x-tally-time", "x-tally-nonce", "x-tally-signature"
DIGEST, INVITE, PROOF = "x-tally-digest", "x-tally-invite", "x-tally-proof"


def digest(body: bytes) -> str:
    """The digest of a body, as it appears in signed texts."""
    return hashlib.sha256(body).hexdigest()


_NO_BODY = digest(b"")


def request_text(
    community: str, *, method: str, path: str, time: str, nonce: str, by: str, to: str, digest: str
) -> bytes:
    """What a peer signs when it asks."""
    return identity.tagged(identity.CHALLENGE_TAG, community, "request", method, path, time, nonce, by, to, digest)


def answer_text(community: str, *, status: int, asked: str, by: str, body: bytes) -> bytes:
    """What a node signs when it answers."""
    return identity.tagged(identity.CHALLENGE_TAG, community, "answer", str(status), asked, by, digest(body))


def sign_request(
    keys: KeyPair,
    community: str,
    *,
    method: str,
    path: str,
    to: str,
    body: bytes,
    now_ns: int,
    invite: tuple[str, str] | None = None,
) -> dict[str, str]:
    """The headers of a request."""
    time, nonce, named = str(now_ns), secrets.token_hex(16), digest(body)
    text = request_text(community, method=method, path=path, time=time, nonce=nonce, by=keys.node, to=to, digest=named)
    headers = {NODE: keys.node, TIME: time, NONCE: nonce, DIGEST: named, SIGNATURE: keys.sign(text).hex()}
    return headers | ({INVITE: invite[0], PROOF: invite[1]} if invite else {})


class Asking(msgspec.Struct, frozen=True):
    """Who sends a request, who vouches for it, and the digest of its body. It uses a turn of `payer` when admitted."""

    node: str
    voucher: str
    nonce: str
    digest: str
    payer: str = ""


class Doorkeeper:
    """Admits nodes that may read. `identify` needs no lock and no disk; `admit` asks the roster at that time."""

    def __init__(self, replica: Replica, *, node: str, listed: frozenset[str], clock: Callable[[], int]) -> None:
        self._replica = replica
        self._node = node
        self._listed = listed
        self._clock = clock
        self._nonces: dict[str, None] = {}

    def identify(self, headers: Mapping[str, str], *, method: str, path: str) -> Asking:
        """The node that signed these headers, and who vouches for it. Raises `PeerRefused`."""
        by, time, nonce = headers.get(NODE, ""), headers.get(TIME, ""), headers.get(NONCE, "")
        named = headers.get(DIGEST, _NO_BODY if method == "GET" else "")
        if not identity.is_node_id(by) or not time.isdecimal() or len(time) > 19 or not 16 <= len(nonce) <= 64:
            raise errors.PeerRefused(peer=by[:80], reason="the request is not signed")
        if len(named) != 64:
            raise errors.PeerRefused(peer=by, reason=f"{DIGEST} is not the digest of the body")
        if by == self._node:
            raise errors.PeerRefused(peer=by, reason="it claims our own key")
        if abs(self._clock() - int(time)) > WINDOW_NS:
            raise errors.PeerRefused(peer=by, reason="the request is old, or was made before")
        text = request_text(
            self._replica.community,
            method=method,
            path=path,
            time=time,
            nonce=nonce,
            by=by,
            to=self._node,
            digest=named,
        )
        if not identity.verify(identity.public_key(by), text, identity.unhex(headers.get(SIGNATURE, ""))):
            raise errors.PeerRefused(peer=by, reason="the signature of the request does not validate")
        return Asking(by, self._voucher(by, headers), nonce, named)

    def admit(self, asking: Asking) -> Asking:
        """Refuse nodes that may not read now, and repeated requests. Returns the node whose turn the request uses."""
        if asking.nonce in self._nonces:
            raise errors.PeerRefused(peer=asking.node, reason="the request is old, or was made before")
        payer = self._payer(asking)
        if payer is None:
            raise errors.PeerRefused(peer=asking.node, reason="it is not a member, not a listed peer, and not invited")
        self._nonces[asking.nonce] = None
        if len(self._nonces) > NONCES_MAX:
            del self._nonces[next(iter(self._nonces))]
        return msgspec.structs.replace(asking, payer=payer)

    def _voucher(self, node: str, headers: Mapping[str, str]) -> str:
        """The invitation that this node has proven to hold; the node itself without one: its key may be invited."""
        invite = headers.get(INVITE, "")
        if invite in ("", node) or not identity.is_node_id(invite):
            return node
        text = acts.proof_text(self._replica.community, node)
        shown = identity.unhex(headers.get(PROOF, ""))
        return invite if identity.verify(identity.public_key(invite), text, shown) else node

    def _payer(self, asking: Asking) -> str | None:
        """Who vouches for a request: its own node, or the invitation, which strangers share; None if nobody does."""
        roster, node = self._replica.roster, asking.node
        if roster.is_member(node) or roster.admits(node, node):
            return node
        if roster.admits(node, asking.voucher):
            return asking.voucher
        return node if node in self._listed and not roster.is_revoked(node) else None


def require_welcome(replica: Replica, peer: str) -> None:
    """Refuse to call a revoked peer, even if it is on the operator's list: it would read what is sent."""
    if replica.roster.is_revoked(peer):
        raise errors.PeerRefused(peer=peer, reason="it was revoked")

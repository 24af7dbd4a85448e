"""How peers know each other over HTTP: each request and each answer is signed by a node, bound to the other one.

    request   "tallystick/challenge/1", community, "request", method, path, time, nonce, from, to, sha256 of the body
    answer    "tallystick/challenge/1", community, "answer", status, the request's signature, from, sha256 of the body

A request is good for five minutes and once. A newcomer, whom nobody knows yet, shows the proof of its invitation.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping

from tallystick import errors
from tallystick.community import acts, identity
from tallystick.community.identity import KeyPair
from tallystick.community.replica import Replica

WINDOW_NS = 300_000_000_000
NONCES_MAX = 100_000
NODE, TIME, NONCE, SIGNATURE = "x-tally-node", "x-tally-time", "x-tally-nonce", "x-tally-signature"
INVITE, PROOF = "x-tally-invite", "x-tally-proof"


def request_text(
    community: str, *, method: str, path: str, time: str, nonce: str, by: str, to: str, body: bytes
) -> bytes:
    """What a peer signs when it asks."""
    digest = hashlib.sha256(body).hexdigest()
    return identity.tagged(identity.CHALLENGE_TAG, community, "request", method, path, time, nonce, by, to, digest)


def answer_text(community: str, *, status: int, asked: str, by: str, body: bytes) -> bytes:
    """What a node signs when it answers."""
    digest = hashlib.sha256(body).hexdigest()
    return identity.tagged(identity.CHALLENGE_TAG, community, "answer", str(status), asked, by, digest)


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
    time, nonce = str(now_ns), secrets.token_hex(16)
    text = request_text(community, method=method, path=path, time=time, nonce=nonce, by=keys.node, to=to, body=body)
    headers = {NODE: keys.node, TIME: time, NONCE: nonce, SIGNATURE: keys.sign(text).hex()}
    return headers | ({INVITE: invite[0], PROOF: invite[1]} if invite else {})


class Doorkeeper:
    """Lets in whoever is a member, is on the list of peers, or holds an invitation; the rest, nobody."""

    def __init__(
        self,
        replica: Replica,
        *,
        node: str,
        listed: frozenset[str],
        clock: Callable[[], int],
        refresh: Callable[[], None] = lambda: None,
    ) -> None:
        self._refresh = refresh
        self._replica = replica
        self._node = node
        self._listed = listed
        self._clock = clock
        self._nonces: dict[str, None] = {}

    def admit(self, headers: Mapping[str, str], *, method: str, path: str, body: bytes) -> str:
        """The node that signed this request, if it may ask here; else `PeerRefused`."""
        by, time, nonce = headers.get(NODE, ""), headers.get(TIME, ""), headers.get(NONCE, "")
        if not identity.is_node_id(by) or not time.isdecimal() or len(time) > 19 or not 16 <= len(nonce) <= 64:
            raise errors.PeerRefused(peer=by[:80], reason="the request is not signed")
        if by == self._node:
            raise errors.PeerRefused(peer=by, reason="it claims our own key")
        if abs(self._clock() - int(time)) > WINDOW_NS or nonce in self._nonces:
            raise errors.PeerRefused(peer=by, reason="the request is old, or was made before")
        text = request_text(
            self._replica.community, method=method, path=path, time=time, nonce=nonce, by=by, to=self._node, body=body
        )
        if not identity.verify(identity.public_key(by), text, identity.unhex(headers.get(SIGNATURE, ""))):
            raise errors.PeerRefused(peer=by, reason="the signature of the request does not validate")
        self._remember(nonce)
        if not self._may(by, headers):
            self._refresh()  # another process may have invited it a moment ago
        if not self._may(by, headers):
            raise errors.PeerRefused(peer=by, reason="it is no member, no listed peer, and not invited")
        return by

    def _may(self, node: str, headers: Mapping[str, str]) -> bool:
        if node in self._listed or self._replica.roster.now().get(node, 0) > 0:
            return True
        invite = headers.get(INVITE, "")
        if not identity.is_node_id(invite) or invite not in self._replica.known.nodes:
            return False
        text = acts.proof_text(self._replica.community, node)
        return identity.verify(identity.public_key(invite), text, identity.unhex(headers.get(PROOF, "")))

    def _remember(self, nonce: str) -> None:
        self._nonces[nonce] = None
        if len(self._nonces) > NONCES_MAX:
            del self._nonces[next(iter(self._nonces))]

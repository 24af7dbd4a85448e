"""Which addresses of a peer may be called. The name is resolved once, every address is checked, then one is called.

Without permission only public addresses over https are allowed: a peer's URL must not lead into the node's own network.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

import msgspec

from tallystick import errors


class Address(msgspec.Struct, frozen=True):
    """A checked address: scheme and port, the host name to display, and the IP address to connect to."""

    scheme: str
    host: str
    ip: str
    port: int

    @property
    def url(self) -> str:
        """The URL with the address that was checked."""
        ip = f"[{self.ip}]" if ":" in self.ip else self.ip
        return f"{self.scheme}://{ip}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether it is in this node's own network."""
        return not _is_public(self.ip)


def check(url: str, *, allow_private: bool) -> Address:
    """The address of a peer, if it may be called."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise errors.PeerRefused(peer=url[:200], reason="it is not a URL") from None
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username is not None:
        raise errors.PeerRefused(peer=url[:200], reason="it must be https://host[:port]")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise errors.PeerRefused(peer=url[:200], reason="it must end with the port")
    found = _resolve(url, parts.hostname, port or (443 if parts.scheme == "https" else 80))
    if not allow_private and (parts.scheme == "http" or not all(map(_is_public, found))):
        raise errors.PeerRefused(peer=url[:200], reason="plain http and private addresses are not allowed")
    if parts.scheme == "http" and any(map(_is_public, found)):
        raise errors.PeerRefused(peer=url[:200], reason="plain http is only allowed for private addresses")
    return Address(parts.scheme, parts.hostname, found[0], port or (443 if parts.scheme == "https" else 80))


def _resolve(url: str, host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise errors.PeerRefused(peer=url[:200], reason="its name cannot be resolved") from None
    return [str(place[4][0]) for place in found]


def _is_public(ip: str) -> bool:
    address = ipaddress.ip_address(ip.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_global and not address.is_multicast

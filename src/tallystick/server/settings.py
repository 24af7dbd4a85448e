"""The settings of a service. The limits bound memory, time and threads, so that no client can take them all.

Each limit is set by an environment variable: `TALLY_SERVE_` and its name in capitals.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

import msgspec

from tallystick import errors

PREFIX = "TALLY_SERVE_"
PORT = 8787


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of the service. Units are in the names."""

    body_bytes_max: int = 8 << 20
    body_seconds: float = 20.0
    header_bytes_max: int = 32 << 10
    header_seconds: float = 10.0
    idle_seconds: float = 75.0
    connections_max: int = 1000
    pending_requests_max: int = 1000
    pending_bytes_max: int = 64 << 20
    reads_max: int = 64
    reads_bytes_max: int = 128 << 20
    page_bytes_max: int = 8 << 20
    page_seconds: float = 60.0
    followers_max: int = 500
    followers_bytes_max: int = 64 << 20
    follower_bytes_max: int = 1 << 20
    follower_seconds: float = 10.0
    heartbeat_seconds: float = 15.0
    authorise_seconds: float = 2.5
    waiters_max: int = 200
    wait_seconds_max: float = 30.0
    drain_seconds: float = 20.0
    free_bytes_min: int = 256 << 20


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One service: its store, the address that it listens on, whom it answers, and its limits."""

    url: str
    host: str = "127.0.0.1"
    port: int = PORT
    readonly: bool = False
    require_token: bool = False
    allow_hosts: tuple[str, ...] = ()
    infrastructure: tuple[str, ...] = ()
    window_ms: float = 0.0
    snapshot_hour: int | None = None
    refill_from: str | None = None
    limits: Limits = Limits()

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def limits_from(environment: Mapping[str, str]) -> Limits:
    """The limits, as the environment sets them. A variable that names no limit is refused."""
    known = {PREFIX + name.upper(): name for name in Limits.__struct_fields__}
    found: dict[str, Any] = {}
    for variable, text in environment.items():
        if variable.startswith(PREFIX):
            if variable not in known:
                raise errors.InvalidValue(what="variable", value=variable, must="the name of a limit: docs/service.md")
            found[known[variable]] = _number(variable, text, getattr(Limits(), known[variable]))
    return Limits(**found)


def _number(variable: str, text: str, default: float) -> float:
    """A positive number of the same type as the default."""
    try:
        number = type(default)(text)
    except ValueError:
        number = type(default)(0)
    if not 0 < number < 1 << 53:
        raise errors.InvalidValue(what=variable, value=text[:40], must="a number above 0")
    return number

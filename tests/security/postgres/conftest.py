"""The database of each attack, its store, and logins for attackers: as in the tests of the engine."""

from __future__ import annotations

from tests.postgres.conftest import connect, login, reopen, store, url

__all__ = ["connect", "login", "reopen", "store", "url"]

"""Tokens: hashed at rest, refused as soon as they expire or are revoked, and never repeated by anything."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import tallystick
from tallystick import errors
from tallystick.cli import token as token_command
from tallystick.cli.main import tally
from tallystick.event import secret_rules
from tallystick.server import tokens
from tallystick.server.tokens import Tokens
from tallystick.store import control
from tallystick.testing.clock import ManualClock


def test_a_token_is_accepted_and_says_for_whom(url):
    """CP-10: the kind, the actor and the org are those it was issued with, also after reopening."""
    with tallystick.open(url) as store:
        issued = Tokens(store).issue("tenant", actor="ada", org="acme")
    with tallystick.open(url, readonly=True) as store:
        found = Tokens(store).check(issued.secret)
    assert (found.id, found.kind, found.actor, found.org) == (issued.token.id, "tenant", "ada", "acme")


def test_only_the_hash_is_at_rest(url, tmp_path):
    """CP-10: no file of the store contains the secret, or its random part; one contains its SHA-256."""
    with tallystick.open(url) as store:
        issued = Tokens(store).issue("writer", actor="billing")
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert issued.secret.rpartition("_")[2].encode() not in stored
    assert hashlib.sha256(issued.secret.encode()).hexdigest().encode() in stored


@pytest.mark.parametrize("kind", tokens.KINDS)
def test_the_form_is_recognised_as_a_secret(kind):
    """A token that somebody appends by mistake is refused by the guard of every store."""
    with tallystick.open("memory:") as store:
        secret = Tokens(store).issue(kind, actor="x", org="acme" if kind == "tenant" else None).secret
        assert tokens.FORM.fullmatch(secret)
        assert secret_rules.match_text(secret).rule == "tally-token"
        with pytest.raises(errors.SecretFound) as refused:
            store.append("note/1", tallystick.NewEvent("noted", {"text": f"use {secret} for this"}))
    assert secret not in str(refused.value)


def test_the_strictest_guard_lets_the_facts_pass():
    """The facts contain nothing that looks like a secret, also where the guard cannot be turned off."""
    with tallystick.open("memory:", profile="control-plane") as store:
        own = Tokens(store)
        own.revoke(own.issue("tenant", actor="ada", org="acme", note="laptop").token.id, reason="lost")
        own.issue("tenant", actor="bob", org="other")
        assert [event.type for event in control.audit(store.log)] == [tokens.ISSUED, tokens.REVOKED, tokens.ISSUED]


def test_an_expired_token_is_refused_at_once():
    """A token is valid until its last nanosecond, and not longer."""
    clock = ManualClock()
    with tallystick.open("memory:", clock=clock) as store:
        own = Tokens(store)
        secret = own.issue("admin", actor="root", days=1).secret
        clock.advance(seconds=86400, ns=-1)
        assert own.check(secret).actor == "root"
        clock.advance(ns=1)
        with pytest.raises(errors.TokenRefused, match="expired"):
            own.check(secret)
        assert not own.usable
        assert own.required, "that the last token expired must not open the door"


def test_a_revoked_token_is_refused_at_once():
    """The process that revokes it refuses it at once; revoking again changes nothing."""
    with tallystick.open("memory:") as store:
        own = Tokens(store)
        issued, other = own.issue("admin", actor="root"), own.issue("admin", actor="root")
        own.revoke(issued.token.id)
        with pytest.raises(errors.TokenRefused, match="revoked"):
            own.check(issued.secret)
        assert own.check(other.secret)
        assert own.revoke(issued.token.id) == own.all()[0]
        assert store.stream_head(tokens.STREAM).seq == 3


def test_a_revocation_elsewhere_is_seen_within_a_second(tmp_path):
    """What another process recorded counts as soon as the last look is half a second old."""
    now = [0.0]
    url = f"sqlite:{tmp_path / 'log.db'}"
    with tallystick.open(url) as served, tallystick.open(url) as operators:
        own = Tokens(served, monotonic=lambda: now[0])
        issued = Tokens(operators).issue("writer", actor="billing")
        now[0] += tokens.FRESH_SECONDS
        assert asyncio.run(own.authenticate(issued.secret)).id == issued.token.id
        Tokens(operators).revoke(issued.token.id)
        now[0] += tokens.FRESH_SECONDS
        with pytest.raises(errors.TokenRefused, match="revoked"):
            asyncio.run(own.authenticate(issued.secret))
    assert tokens.FRESH_SECONDS < 1


def test_every_caller_is_refused_if_the_facts_cannot_be_read(tmp_path):
    """A store that cannot say who was revoked accepts nobody."""
    now = [0.0]
    store = tallystick.open(f"sqlite:{tmp_path / 'log.db'}")
    own = Tokens(store, monotonic=lambda: now[0])
    secret = own.issue("admin", actor="root").secret
    store.close()
    now[0] += tokens.FRESH_SECONDS
    with pytest.raises(errors.StoreClosed):
        own.check(secret)


def changed(secret: str, at: int) -> str:
    """The secret with another character at a place."""
    return secret[:at] + ("a" if secret[at] != "a" else "b") + secret[at + 1 :]


def test_a_token_that_is_nearly_right_is_refused():
    """One other character, another kind, a cut, a tail, blanks or another alphabet is refused."""
    with tallystick.open("memory:") as store:
        own = Tokens(store)
        secret = own.issue("writer", actor="billing").secret
        near = [changed(secret, at) for at in range(len("tally_writer_"), len(secret))]
        near += [secret.replace("writer", "admin"), secret[:-1], secret + "0", f" {secret}", f"{secret}\n", ""]
        near += [secret.upper(), "tally_admin_" + "ö" * 43, "\ud800", "tally_admin_" + "٣" * 43]
        for presented in near:
            with pytest.raises(errors.TokenRefused) as refused:
                own.check(presented)
            assert len(presented) < 20 or presented not in str(refused.value)


@pytest.mark.parametrize(
    "claims",
    [
        {"kind": "root", "actor": "x"},
        {"kind": "tenant", "actor": "x"},
        {"kind": "admin", "actor": "x", "org": "acme"},
        {"kind": "writer", "actor": ""},
        {"kind": "writer", "actor": "x\n"},
        {"kind": "writer", "actor": "x", "org": ""},
        {"kind": "writer", "actor": "x", "days": 0},
        {"kind": "writer", "actor": "x", "days": float("nan")},
        {"kind": "writer", "actor": "x", "days": float("inf")},
        {"kind": "writer", "actor": "x", "note": "tally_admin_" + "a" * 43},
    ],
    ids=str,
)
def test_a_token_with_claims_that_make_no_sense_is_not_issued(claims):
    """Nothing is recorded."""
    with tallystick.open("memory:") as store:
        with pytest.raises(errors.InvalidInput):
            Tokens(store).issue(**claims)
        assert store.head() == 0


def test_a_secret_in_place_of_an_id_is_not_repeated():
    """If a caller gives the secret to `revoke`, it is not in the error, and so in no log."""
    with tallystick.open("memory:") as store:
        own = Tokens(store)
        issued = own.issue("admin", actor="root")
        with pytest.raises(errors.TokenUnknown) as refused:
            own.revoke(issued.secret)
    assert issued.secret not in str(refused.value)
    assert issued.secret not in json.dumps(refused.value.as_json())
    assert issued.secret not in repr(issued)


def test_tokens_do_not_travel_with_an_export(tmp_path):
    """The tokens of one store open no other: an import leaves control facts out."""
    first, second, file = f"files:{tmp_path / 'a'}", f"files:{tmp_path / 'b'}", tmp_path / "export.ndjson"
    with tallystick.open(first) as store:
        secret = Tokens(store).issue("admin", actor="root").secret
        store.append("note/1", tallystick.NewEvent("noted", {"n": 1}))
    file.write_text(CliRunner().invoke(tally, ["export", first]).stdout)
    assert CliRunner().invoke(tally, ["import", second, str(file)]).exit_code == 0
    with tallystick.open(second) as store, pytest.raises(errors.TokenRefused):
        Tokens(store).check(secret)


# --- the command -----------------------------------------------------------------------------------------------------


def run(*arguments: str) -> tuple[int, str, str]:
    """`tally token` with arguments: status, stdout, stderr."""
    result = CliRunner().invoke(tally, ["token", *arguments], prog_name="tally")
    return result.exit_code, result.stdout, result.stderr


def test_the_command_issues_lists_and_revokes(url):
    """Each step says what it did, as JSON too, and only `issue` ever shows the secret."""
    status, out, _ = run("issue", url, "writer", "--actor", "billing", "--org", "acme", "--json")
    issued = json.loads(out)
    assert status == 0
    assert tokens.FORM.fullmatch(issued["token"])
    status, listed, _ = run("list", url, "--json")
    assert (status, json.loads(listed)["accepted"]) == (0, True)
    status, revoked, _ = run("revoke", url, issued["id"], "--reason", "lost", "--json")
    assert (status, json.loads(revoked)["id"]) == (0, issued["id"])
    status, table, _ = run("list", url)
    assert (status, "it was revoked" in table) == (0, True)
    audit = CliRunner().invoke(tally, ["audit", url, "--json"]).stdout
    assert [json.loads(line)["type"] for line in audit.splitlines()] == [tokens.ISSUED, tokens.REVOKED]
    assert issued["token"] not in listed + revoked + table + audit


def test_the_command_prints_the_bare_secret(tmp_path: Path):
    """`TOKEN=$(tally token issue …)` works: stdout has only the secret, the rest goes to stderr."""
    status, out, err = run("issue", f"files:{tmp_path / 'log'}", "admin", "--actor", "root")
    assert (status, bool(tokens.FORM.fullmatch(out.strip()))) == (0, True)
    assert out.strip() not in err


def test_the_command_says_no(tmp_path: Path):
    """An unknown id ends with 1, a wrong usage with 2 or with the rule that it breaks."""
    url = f"files:{tmp_path / 'log'}"
    run("issue", url, "admin", "--actor", "root")
    assert run("revoke", url, "nothing")[0] == 1
    assert run("issue", url, "tenant", "--actor", "ada")[0] == 1
    assert run("issue", url, "king", "--actor", "ada")[0] == 2
    assert run("list", f"files:{tmp_path / 'none'}")[0] == 2


def test_the_choices_are_those_of_the_service():
    """The command offers the kinds and lifetimes that there are."""
    assert (token_command.KINDS, token_command.DAYS) == (tokens.KINDS, tokens.LIFETIME_DAYS)
    assert token_command.DAYS_MAX == tokens.LIFETIME_DAYS_MAX

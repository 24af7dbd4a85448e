"""`tally token`: the tokens of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from tallystick.cli import options, output, times

if TYPE_CHECKING:
    from tallystick.server.tokens import Token

KINDS = ("tenant", "writer", "admin", "peer")
DAYS, DAYS_MAX = 90, 3650


@click.group("token", short_help="Issue, list and revoke the tokens of the service.")
def command() -> None:
    """Issue, list and revoke the tokens that `tally serve` asks for.

    A file log has one writer: while a service runs on it, issue and revoke through the service (POST /v1/tokens).
    """


@command.command("issue", short_help="Issue a token and print it once.")
@options.url
@click.argument("kind", type=click.Choice(KINDS))
@click.option(
    "--actor", required=True, metavar="ID", help="The actor: added to the meta of every event appended with this token."
)
@click.option("--org", metavar="ORG", help="The only org that it may use. Required for a tenant.")
@click.option(
    "--days",
    type=click.FloatRange(0, DAYS_MAX, min_open=True),
    default=DAYS,
    show_default=True,
    help="For how many days it is valid.",
)
@click.option("--note", default="", metavar="TEXT", help="A note about its purpose.")
@options.as_json
def issue(url: str, kind: str, actor: str, org: str | None, days: float, note: str, as_json: bool) -> None:
    """Issue a token and print it. It is printed only once: the store keeps only its hash.

    A tenant reads its org, a writer reads and appends, an admin does everything, a peer syncs a community.
    """
    import tallystick
    from tallystick.server.tokens import Tokens

    with tallystick.open(url) as store:
        issued = Tokens(store).issue(kind, actor=actor, org=org, days=days, note=note)
    if as_json:
        output.document(_described(issued.token) | {"token": issued.secret})
        return
    output.note(f"token {issued.token.id}, valid until {times.to_text(issued.token.expires)}; it is not shown again:")
    click.echo(issued.secret)


@command.command("list", short_help="List the tokens.")
@options.url
@options.as_json
def list_(url: str, as_json: bool) -> None:
    """List every issued token: its kind, its actor, and whether it is accepted."""
    from tallystick.server.tokens import Tokens

    with options.open_reading(url) as store:
        found, now = Tokens(store).all(), store.clock()
    if as_json:
        for token in found:
            output.document(_described(token) | {"accepted": token.refusal(now) is None})
        return
    headings = ("id", "kind", "actor", "org", "issued", "expires", "state", "note")
    output.table(headings, (_row(token, now) for token in found))


@command.command("revoke", short_help="Revoke a token.")
@options.url
@click.argument("id", metavar="ID")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the audit trail.")
@options.as_json
def revoke(url: str, id: str, reason: str, as_json: bool) -> None:
    """Revoke the token with this id. Services refuse it within a second."""
    import tallystick
    from tallystick.server.tokens import Tokens

    with tallystick.open(url, create=False) as store:
        token = Tokens(store).revoke(id, reason=reason)
    output.result(_described(token), f"token {token.id} of {token.actor} is revoked", as_json=as_json)


def _described(token: Token) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(token)
    return found


def _row(token: Token, now: int) -> tuple[Any, ...]:
    issued, expires = times.to_text(token.issued)[:19], times.to_text(token.expires)[:19]
    return (token.id, token.kind, token.actor, token.org, issued, expires, token.refusal(now) or "accepted", token.note)

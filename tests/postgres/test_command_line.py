"""`tally` over a PostgreSQL database."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from tallystick.cli.main import tally
from tallystick.engines.postgres import inspection, migrations
from tallystick.testing import postgres


def _run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(tally, list(arguments), input=stdin, prog_name="tally")


def test_migrate_makes_and_then_finds_the_schema(url: str) -> None:
    """CP-12: the first `tally migrate` creates the log with its profile, the second has nothing to do."""
    made = _run("migrate", url, "--profile", "control-plane", "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout) == {
        "url": url,
        "engine": "postgres",
        "from": 0,
        "to": migrations.latest(),
        "migrated": True,
    }
    assert "nothing to do" in _run("migrate", url).stdout
    refused = _run("append", url, "order/1", "order.placed", "{}")
    assert refused.exit_code == 1
    assert "actor_type" in refused.output


def test_migrate_does_not_make_a_database(url: str) -> None:
    """CP-12: a missing database is an error, with the exit status of a command that could not run."""
    assert _run("migrate", postgres.with_database(url, "no_such_database")).exit_code == 2


def test_what_is_exported_from_one_engine_can_be_imported_into_another(url: str, tmp_path: Any) -> None:
    """CP-12: the same events have the same checksums and links in PostgreSQL as in a file."""
    lines = [
        json.dumps({"stream": f"order/{n % 3}", "type": "order.placed", "payload": {"n": n, "é": 1.5}, "time": n})
        for n in range(50)
    ]
    first = f"sqlite:{tmp_path}/log.db"
    assert _run("import", first, "-", stdin="\n".join(lines)).exit_code == 0
    exported = _run("export", first).stdout
    done = _run("import", url, "-", stdin=exported)
    assert done.exit_code == 0, done.output
    again = _run("export", url).stdout
    keys = ("stream", "seq", "id", "time", "payload", "meta", "checksum", "link")

    def content(text: str) -> list[dict[str, Any]]:
        return [{key: line[key] for key in keys} for line in map(json.loads, text.splitlines())]

    assert content(again) == content(exported)
    assert _run("verify", url).exit_code == 0


def test_doctor_names_a_stuck_appender(
    url: str, connect: Callable[..., psycopg.Connection[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CP-13, CP-14: `tally doctor` shows sizes and rates, and which server process holds up the readers."""
    _run("append", url, "order/1", "order.placed", "{}")
    assert _run("doctor", url, "--quick").exit_code == 0
    stuck = connect("tally_app", autocommit=False, application_name="billing")
    stuck.execute(
        "SELECT tally.append_event('order/2', -1, 't', 1, gen_random_uuid(), 0, '{}', '{}', NULL, 0, false, NULL, NULL)"
    )
    monkeypatch.setattr(inspection, "STUCK_S", 0.0)
    found = _run("doctor", url, "--quick")
    stuck.rollback()
    assert found.exit_code == 1
    assert f"server process {stuck.info.backend_pid} (billing" in found.stdout
    assert "table bytes" in found.stdout

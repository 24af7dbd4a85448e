"""Help, version, and the page that is generated from them."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

import tallystick
from tallystick.cli import options, reference
from tallystick.cli.main import COMMANDS
from tallystick.event import profiles
from tallystick.store import control

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_commands_say():
    """docs/cli.md is up to date: `python -m tallystick.cli.reference > docs/cli.md` generates it."""
    assert (ROOT / "docs" / "cli.md").read_text() == reference.markdown()


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(tally, command, flag):
    """Help exits with 0 and starts with the usage."""
    result = tally(command, flag)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: tally {command}")


def test_every_option_says_what_it_does():
    """Every option has a help text."""
    for section in reference.markdown().split("\n## ")[1:]:
        for line in section.splitlines():
            if line.startswith("- `"):
                assert line.rpartition("`: ")[2], line


def test_the_version_is_that_of_the_package(tally):
    """`tally --version` names it."""
    assert tallystick.__version__ in tally("--version").stdout


@pytest.mark.parametrize("arguments", [[], ["nothing"], ["read"], ["--nothing"], ["append", "memory:"]])
def test_a_line_without_sense_is_usage(tally, arguments):
    """Usage errors exit with 2."""
    assert tally(*arguments).exit_code == 2


def test_the_choices_are_those_of_the_store():
    """The offered profiles and modes are those of the store."""
    assert tuple(profiles.PROFILES) == options.PROFILES
    assert control.SECRETS_MODES == options.SECRETS


def test_commands_are_found_by_name_alone():
    """Every line of COMMANDS leads to a command with that name."""
    from tallystick.cli.main import tally

    context = click.Context(tally, **tally.context_settings)
    assert [tally.get_command(context, name).name for name in COMMANDS] == list(COMMANDS)

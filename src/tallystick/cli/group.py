"""A group of commands whose modules are imported when a command is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that finds its commands by name. `sources` has `module:attribute` of each."""

    def __init__(self, *arguments: Any, sources: Mapping[str, str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._sources = sources

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._sources)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._sources:
            return None
        module, _, attribute = self._sources[cmd_name].partition(":")
        found: click.Command = getattr(importlib.import_module(f"tallystick.cli.{module}"), attribute)
        return found

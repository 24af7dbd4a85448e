"""Arguments that name a directory or a URL of an object store. A path type would make one slash of the two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class _Place(click.ParamType[str]):
    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if Path(text).is_file():
            self.fail(f"Directory {text!r} is a file.", param, ctx)
        return text


PLACE = _Place()

"""The examples on the pages work: their blocks run in order, as they are."""

from __future__ import annotations

from typing import Any

import pytest

PAGES = [
    "README.md",
    "docs/tutorial.md",
    "docs/state.md",
    "docs/projections.md",
    "docs/commands.md",
    "docs/deciders.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_the_page_runs(page: str, stage: Any) -> None:
    """Python blocks run, and shell lines print what the page shows."""
    assert stage.play(page) >= 2


def test_the_model_test_of_contributing_holds(fenced: Any, stage: Any) -> None:
    """CONTRIBUTING shows a test that passes."""
    import tallystick

    (block,) = [block for block in fenced("CONTRIBUTING.md") if block.text.startswith("def test_")]
    stage.names |= {"tallystick": tallystick, "NewEvent": tallystick.NewEvent}
    exec(compile(block.text, "CONTRIBUTING.md", "exec"), stage.names)
    stage.names["test_a_torn_frame_is_cut_and_kept"](stage.place)


def test_a_wrong_output_is_noticed(output_matches: Any) -> None:
    """The comparison can fail."""
    assert output_matches("ok: … events\n", "ok: 3 events  \n")
    assert not output_matches("ok: … events\n", "ok: 3 streams\n")
    assert not output_matches("ok\n", "ok\nand more\n")

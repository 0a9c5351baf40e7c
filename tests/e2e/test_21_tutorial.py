"""Scenario 21: docs/tutorial.md, every command of it in order, and what it says that they show."""

from pathlib import Path

import pytest

from tests.e2e.pages import run_page
from tests.e2e.world import World
from tools.stack.layout import SOURCE

pytestmark = pytest.mark.e2e
TEAM = "team"


def test_every_command_of_the_tutorial_works_and_shows_what_it_says(world: World, tmp_path: Path) -> None:
    run_page((SOURCE / "docs" / "tutorial.md").read_text(), world.stack.home, tmp_path)
    assert world.stack.remote.find("LLMInferenceService", TEAM) == []

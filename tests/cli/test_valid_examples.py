"""`validate` finds nothing wrong with the examples, alone or together, and says if it checked nothing."""

from pathlib import Path

import pytest

from function.cli.store import Store
from function.cli.validation import Item, check_items
from tests.cli.conftest import example
from tests.cli.process import EXAMPLES, output_of, run, write


@pytest.mark.parametrize("story", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()))
def test_every_example_is_valid(story: str) -> None:
    found = [Item(manifest, story) for manifest in example(story)]
    assert [fault for fault in check_items(found, Store(), "default") if fault.level == "error"] == []


def test_all_examples_are_valid_together() -> None:
    assert output_of("validate", str(EXAMPLES), "--quiet") == ""


def test_says_that_nothing_was_checked(tmp_path: Path) -> None:
    done = run("validate", write(tmp_path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}))
    assert (done.returncode, done.stdout) == (0, "0 objects valid\n")
    assert done.stderr == "warning: no object of modelplane.ai in what was given: 1 other object passed over\n"

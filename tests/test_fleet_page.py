"""The outputs on docs/fleet.md are those of the commands above them."""

import re
import shlex

import pytest

from tests.cli.process import ROOT, run

_PAIR = re.compile(r"```sh\n(modelplane [^\n]*)\n```\n\n```text\n(.*?)\n```", re.DOTALL)
PAIRS = _PAIR.findall((ROOT / "docs" / "fleet.md").read_text())


def test_page_has_an_output_for_each_command() -> None:
    assert len(PAIRS) == 4


@pytest.mark.parametrize(("command", "shown"), PAIRS, ids=[command.split()[1] for command, _ in PAIRS])
def test_output_is_that_of_the_command(command: str, shown: str) -> None:
    assert run(*shlex.split(command)[1:]).stdout.rstrip("\n") == shown

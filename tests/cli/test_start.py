"""What a command loads and tells of itself, and that a pipe stays plain."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.process import ENVIRONMENT, KIMI, said


@pytest.mark.parametrize("module", ["crossplane", "grpc", "google.protobuf", "structlog", "kr8s"])
def test_a_command_on_files_does_without(module: str) -> None:
    code = (
        "import sys; from function.cli.main import main; sys.argv = ['modelplane', 'plan', '-f', sys.argv[1]]\n"
        "try: main()\n"
        f"except SystemExit: sys.exit({module!r} in sys.modules)"
    )
    done = subprocess.run((sys.executable, "-c", code, KIMI), check=False, capture_output=True, timeout=60)
    assert done.returncode == 0


def test_help_has_an_example_for_every_command() -> None:
    commands = said("--help").partition("Commands:")[2].split("Example:")[0]
    names = [line.split()[0] for line in commands.splitlines() if re.match("  [a-z]", line)]
    assert names == ["plan", "render", "why", "tree", "capacity", "validate", "size", "cache"]
    nested = [("cache", name) for name in ("list", "preload", "clear", "retry")]
    for command in [*((name,) for name in names), *nested]:
        assert f"  modelplane {' '.join(command)}" in said(*command, "--help").partition("Examples:")[2], command


def test_a_pipe_is_plain_and_a_terminal_is_not() -> None:
    assert "\x1b" not in said("plan", "-f", KIMI)
    assert "\x1b[" in in_a_terminal("plan", "-f", KIMI)
    assert "\x1b[" not in in_a_terminal("plan", "-f", KIMI, "--no-color")
    assert "\x1b[" not in in_a_terminal("plan", "-f", KIMI, NO_COLOR="1")


def in_a_terminal(*arguments: str, **variables: str) -> str:
    """Run a command whose output is a terminal, and return what it wrote."""
    leader, follower = os.openpty()
    program = str(Path(sys.executable).with_name("modelplane"))
    process = subprocess.Popen(
        (program, *arguments), stdout=follower, env={**ENVIRONMENT, **variables}, cwd=Path(__file__).parents[2]
    )
    os.close(follower)
    shown = b""
    while True:
        try:
            part = os.read(leader, 4096)
        except OSError:  # the end of a terminal
            break
        if not part:
            break
        shown += part
    os.close(leader)
    assert process.wait(60) == 0
    return shown.decode()

"""The commands of docs/render.md work word for word, and print what the page shows.

Only the port is another one, because the port of the page may be in use. A line `...` of the page stands for lines that
the page leaves out.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.blocks import Block, blocks
from tools import programs

pytestmark = pytest.mark.conformance

PAGE = programs.ROOT / "docs" / "render.md"
FUNCTIONS = "functions.yaml"
BLOCKS = [block for block in blocks() if block.document == PAGE]
COMMANDS = [block for block in BLOCKS if block.language == "sh"]
(SERVER,) = (block for block in COMMANDS if block.said.startswith("function-modelplane "))
RENDERS = [block for block in COMMANDS if block.said.startswith("crossplane render ")]
SETUP = "".join(block.said for block in COMMANDS if block not in (SERVER, *RENDERS))
(PORT,) = re.findall(r"--address=127\.0\.0\.1:(\d+) ", SERVER.said)
LEFT_OUT = "..."


def _output_after(command: Block) -> list[str]:
    """Returns the lines that the page shows below a command."""
    shown = BLOCKS[BLOCKS.index(command) + 1]
    assert shown.language == "text", f"the page shows no output of {command.said}"
    return shown.said.splitlines()


def _find_missing(shown: list[str], output: list[str]) -> list[str]:
    """Returns the first passage of the page that the output does not have after the passages before it."""
    start = 0
    for passage in "\n".join(shown).split(f"\n{LEFT_OUT}\n"):
        lines = passage.splitlines()
        ends = (at for at in range(start + len(lines), len(output) + 1) if output[at - len(lines) : at] == lines)
        end = next(ends, None)
        if end is None:
            return lines
        start = end
    return []


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like the repository, whose functions.yaml names a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    folder = tmp_path_factory.mktemp("clone")
    for path in programs.ROOT.iterdir():
        if path.name != "examples":
            (folder / path.name).symlink_to(path)
    shutil.copytree(programs.ROOT / "examples", folder / "examples")
    functions = folder / "examples" / "render" / FUNCTIONS
    written = functions.read_text()
    assert f"127.0.0.1:{PORT}\n" in written, "the page and the file name the same port"
    functions.write_text(written.replace(f"127.0.0.1:{PORT}\n", f"127.0.0.1:{port}\n"))
    return folder


@pytest.fixture(scope="module")
def server(clone: Path) -> Iterator[None]:
    """The function as the page starts it."""
    (port,) = re.findall(r":(\d+)\n", (clone / "examples" / "render" / FUNCTIONS).read_text())
    command = shlex.split(SERVER.said.replace(PORT, port))
    program = str(Path(sys.executable).with_name(command[0]))
    log = clone.with_name("render.log")
    with log.open("w") as output:
        process = subprocess.Popen((program, *command[1:]), stdout=output, stderr=subprocess.STDOUT)
    try:
        _wait_for(process, int(port), log)
        yield
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(300):
        with socket.socket() as probe:
            probe.settimeout(0.1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    pytest.fail(f"the function does not serve:\n{log.read_text()}")


def test_the_page_renders_each_main_kind() -> None:
    rendered = {block.said.split()[2].rpartition("/")[2] for block in RENDERS}
    kinds = ("deployment", "placement", "environment", "cache", "service")
    assert rendered == {f"{kind}.yaml" for kind in kinds}


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("command", RENDERS, ids=lambda block: block.said.split()[2].rpartition("/")[2])
def test_a_command_prints_what_the_page_shows(clone: Path, command: Block) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ("bash", "-euc", SETUP + command.said), cwd=clone, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert _find_missing(_output_after(command), done.stdout.splitlines()) == [], done.stdout

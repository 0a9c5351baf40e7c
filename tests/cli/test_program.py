"""The program itself: what it loads, its help, colours and version, and `init`."""

import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from function.cli.init import KINDS
from function.cli.live import connect
from function.cli.main import COMMANDS as COMMANDS_BY_NAME
from tests.cli.api import ApiServer
from tests.cli.conftest import Live
from tests.cli.process import ENVIRONMENT, KIMI, on_a_terminal, output_of, run, start
from tests.support.nodes import node

FILES = ("-f", KIMI)
COMMANDS = (
    ("plan", *FILES),
    ("render", *FILES),
    ("why", "kimi-k2", *FILES),
    ("tree", "kimi-k2", *FILES),
    ("capacity", *FILES),
    ("validate", KIMI),
    ("explain", "modeldeployment.spec"),
    ("schema",),
    ("size", *FILES),
    ("cache", "list", *FILES),
    ("init", "model"),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: arguments[0])
def test_installed_program_agrees_with_the_runner(arguments: tuple[str, ...]) -> None:
    process, here = start(*arguments), run(*arguments)
    assert process.stdout, "it says something"
    assert (process.returncode, process.stdout, process.stderr) == (here.returncode, here.stdout, here.stderr)


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """Every module that a command on files has loaded."""
    code = (
        "import sys; from function.cli.main import main; sys.argv = ['modelplane', 'plan', '-f', sys.argv[1]]\n"
        "try: main()\n"
        "except SystemExit as done: print(*sys.modules, file=sys.stderr); sys.exit(done.code)"
    )
    command = (sys.executable, "-c", code, KIMI)
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return set(done.stderr.split())


@pytest.mark.parametrize("module", ["crossplane", "grpc", "google.protobuf", "structlog", "kr8s"])
def test_commands_on_files_do_not_load(module: str, loaded: set[str]) -> None:
    assert "function.cli.plan" in loaded
    assert module not in loaded


def test_help_has_an_example_for_every_command() -> None:
    commands = output_of("--help").partition("Commands:")[2].split("Example:")[0]
    names = [line.split()[0] for line in commands.splitlines() if re.match("  [a-z]", line)]
    assert names == list(COMMANDS_BY_NAME)
    nested = [
        *(("cache", name) for name in ("list", "preload", "clear")),
        *(("check", name) for name in ("cluster", "control-plane")),
    ]
    for command in [*((name,) for name in names), *nested]:
        assert f"modelplane {' '.join(command)}" in output_of(*command, "--help").partition("Examples:")[2], command


def test_suggests_commands_that_resemble_a_misspelt_one() -> None:
    for words, near in ((("paln",), "'plan'"), (("vrsion",), "'version'"), (("cache", "lits"), "'list'")):
        done = run(*words)
        assert done.returncode == 2
        assert f"Did you mean {near}?" in done.stderr


def test_quiet_prints_results_alone(tmp_path: Path) -> None:
    file = tmp_path / "model.yaml"
    file.write_text(output_of("init", "model").replace("memoryPerGpu: 24Gi", "memoryPerGpu: 24"))
    files = ("-f", str(file), *FILES)
    loud, quiet = run("plan", *files), run("plan", *files, "-q")
    assert "warning: " in loud.stderr
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (loud.returncode, loud.stdout, "")
    assert run("init", "model", "--quiet").stderr == ""


def test_colours_only_on_a_terminal() -> None:
    assert "\x1b" not in start("plan", "-f", KIMI).stdout
    shown = in_a_terminal("plan", "-f", KIMI)
    assert "\x1b[" in shown
    # What the runner shows as on a terminal is what a real one gets.
    assert on_a_terminal("plan", "-f", KIMI) == shown.replace("\r\n", "\n")
    assert "\x1b[" not in on_a_terminal("plan", "-f", KIMI, "--no-color")
    assert "\x1b[" not in on_a_terminal("plan", "-f", KIMI, NO_COLOR="1")


def in_a_terminal(*arguments: str) -> str:
    """Run a command whose output is a terminal, and return what it wrote."""
    leader, follower = os.openpty()
    program = str(Path(sys.executable).with_name("modelplane"))
    process = subprocess.Popen((program, *arguments), stdout=follower, env=ENVIRONMENT, cwd=Path(__file__).parents[2])
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


def test_connection_ends_with_the_command(live: Live) -> None:
    before = tempfile.tempdir
    output_of("plan", *live())
    assert tempfile.tempdir == before, "the folder for the client's key is gone"
    assert connect.cache_info().currsize == 0


def test_init_writes_manifests_that_fit_each_other(tmp_path: Path) -> None:
    for kind in KINDS:
        (tmp_path / f"{kind}.yaml").write_text(output_of("init", kind))
    assert output_of("validate", str(tmp_path), "--strict") == f"{len(KINDS)} objects valid\n"
    assert "Placed on us-east (profile one-gpu, pool h100, 1 replica" in output_of("plan", "-f", str(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_init_sets_the_name_and_keeps_comments(kind: str) -> None:
    shown = output_of("init", kind, "mine")
    assert yaml.safe_load(shown)["metadata"]["name"] == "mine"
    assert shown.startswith("# ")
    assert run("init", kind, "Not_A_Name").returncode == 2


def test_init_names_the_model_of_a_deployment() -> None:
    assert yaml.safe_load(output_of("init", "deployment", "chat"))["spec"]["modelRef"] == {"name": "chat"}
    shown = output_of("init", "deployment", "chat", "--model", "gemma")
    assert yaml.safe_load(shown)["spec"]["modelRef"] == {"name": "gemma"}
    assert run("init", "model", "chat", "--model", "gemma").returncode == 2


def test_init_mentions_the_network_between_nodes() -> None:
    shown = output_of("init", "environment")
    block = shown[shown.index("    # interNode:") :].replace("    # ", "    ")
    (pool,) = yaml.safe_load(shown)["spec"]["nodePools"]
    assert "interNode" not in pool
    assert yaml.safe_load(block)["interNode"]["preset"] == "network-operator-shared"


def test_init_names_the_secret_after_the_environment() -> None:
    spec = yaml.safe_load(output_of("init", "environment", "dallas"))["spec"]
    assert spec["cluster"]["existing"]["secretRef"] == {"name": "dallas-kubeconfig"}


def test_init_declares_the_nodes_of_a_cluster(server: ApiServer, tmp_path: Path) -> None:
    labels = {"example.com/rack": "7", "nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"}
    nodes = [node(name, labels=labels) for name in ("gpu-1", "gpu-2")]
    server.paths = {"/version": {"gitVersion": "v1.34.2"}, "/api/v1/nodes": {"items": [*nodes, node("cpu", gpus=None)]}}
    options = ("--from-cluster", "--kubeconfig", server.kubeconfig(tmp_path))
    shown = output_of("init", "environment", "dallas", *options)
    (pool,) = yaml.safe_load(shown)["spec"]["nodePools"]
    assert (pool["nodeCount"], pool["acceleratorCount"], pool["acceleratorType"]) == (2, 8, "nvidia-h200-141gb")
    assert shown.startswith("# One GPU cluster")
    (tmp_path / "dallas.yaml").write_text(shown)
    assert run("validate", str(tmp_path / "dallas.yaml")).returncode == 0
    assert run("init", "model", "m", *options).returncode == 2
    server.paths["/api/v1/nodes"] = 403
    assert run("init", "environment", "dallas", *options).returncode == 3


def test_prints_the_version() -> None:
    assert output_of("--version").strip() == version("function-modelplane")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completes_commands_and_options(shell: str) -> None:
    script = output_of("completion", shell)
    assert "_MODELPLANE_COMPLETE" in script
    assert script == output_of(_MODELPLANE_COMPLETE=f"{shell}_source")


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("cap",), ["capacity", ":4"]),
        (("cache", ""), ["clear", "list", "preload", ":4"]),
        (("capacity", "--by", "na"), ["namespace", ":4"]),
        (("plan", "-f", ""), [":0"]),
    ],
    ids=" ".join,
)
def test_kubectl_completes_the_plugin(words: tuple[str, ...], want: list[str], tmp_path: Path) -> None:
    script = tmp_path / "kubectl_complete-modelplane"
    script.write_text(output_of("completion", "--kubectl"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{ENVIRONMENT['PATH']}"
    command = ("sh", str(script), *words)
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env={"PATH": path})
    assert done.stdout.splitlines() == want

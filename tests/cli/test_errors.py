"""Whatever goes wrong: one line on standard error that says what to do, a stable exit code, never a traceback."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.api import ApiServer
from tests.cli.conftest import Live
from tests.cli.process import KIMI, run, start


@dataclass(frozen=True, kw_only=True)
class Case:
    """A command that cannot succeed, its exit code, and a word of its one line."""

    id: str
    reason: str
    arguments: tuple[str, ...]
    code: int
    says: str


CASES = (
    Case(id="no-such-file", reason="named", arguments=("plan", "-f", "nowhere.yaml"), code=2, says="nowhere.yaml"),
    Case(
        id="not-yaml",
        reason="with the line on which the list should have ended",
        arguments=("plan", "-f", "{folder}/broken.yaml"),
        code=2,
        says="broken.yaml:3: ",
    ),
    Case(
        id="not-a-manifest",
        reason="YAML alone is not enough",
        arguments=("plan", "-f", "{folder}/list.yaml"),
        code=2,
        says="not a Kubernetes manifest",
    ),
    Case(
        id="nothing",
        reason="a comment",
        arguments=("render", "-f", "{folder}/empty"),
        code=2,
        says="there is no object",
    ),
    Case(id="not-text", reason="an image", arguments=("plan", "-f", "{folder}/image.yaml"), code=2, says="not text"),
    Case(
        id="not-a-number",
        reason="an author may give the type of a value in YAML",
        arguments=("plan", "-f", "{folder}/number.yaml"),
        code=2,
        says="number.yaml:2: it has a value that is not what its type says (invalid literal",
    ),
    Case(
        id="bytes",
        reason="JSON has no such type",
        arguments=("plan", "-f", "{folder}/bytes.yaml"),
        code=2,
        says="bytes.yaml:1: !!binary is not a type of Kubernetes (column 7). Correct the YAML",
    ),
    Case(id="empty-folder", reason="nothing in it", arguments=("render", "-f", "{folder}/none"), code=2, says="none"),
    Case(
        id="no-deployment",
        reason="a model alone is nothing to place",
        arguments=("plan", "-f", f"{KIMI}/model.yaml"),
        code=4,
        says="there is no ModelDeployment",
    ),
    Case(
        id="unknown-name",
        reason="with the nearest",
        arguments=("why", "kimi-k3", "-f", KIMI),
        code=4,
        says="Did you mean kimi-k2?",
    ),
    Case(id="unknown-option", reason="usage", arguments=("plan", "--nonsense"), code=2, says="--help"),
    Case(id="unknown-command", reason="usage", arguments=("plam",), code=2, says="plan"),
    Case(
        id="kubectl-describe", reason="a habit of kubectl", arguments=("describe", "x"), code=2, says="'why DEPLOYMENT'"
    ),
    Case(id="unknown-form", reason="usage", arguments=("plan", "-o", "xml"), code=2, says="yaml"),
    Case(
        id="no-cluster",
        reason="no kubeconfig",
        arguments=("plan",),
        code=3,
        says="there is no kubeconfig /nonexistent/config",
    ),
    Case(
        id="no-such-kubeconfig",
        reason="named",
        arguments=("plan", "--kubeconfig", "nowhere"),
        code=2,
        says="does not exist",
    ),
    Case(
        id="no-listener",
        reason="a server that is down",
        arguments=("plan", "--kubeconfig", "{folder}/down"),
        code=3,
        says="does not answer",
    ),
    Case(
        id="no-such-context",
        reason="named",
        arguments=("plan", "--kubeconfig", "{folder}/down", "--context", "other"),
        code=3,
        says="other",
    ),
    Case(
        id="kubeconfig-empty",
        reason="a file of no bytes",
        arguments=("plan", "--kubeconfig", "{folder}/empty"),
        code=3,
        says="empty has no usable current context. Give --kubeconfig",
    ),
    Case(
        id="kubeconfig-of-nothing",
        reason="as kubectl config writes it once all is deleted",
        arguments=("plan", "--kubeconfig", "{folder}/nothing"),
        code=3,
        says="nothing has no usable current context. Give",
    ),
    Case(
        id="kubeconfig-without-current",
        reason="none of them is chosen",
        arguments=("plan", "--kubeconfig", "{folder}/undecided"),
        code=3,
        says="has no usable current context. Give",
    ),
    Case(
        id="kubeconfig-of-broken-yaml",
        reason="a list that does not end",
        arguments=("plan", "--kubeconfig", "{folder}/broken.yaml"),
        code=3,
        says="broken.yaml has no usable current context. Give",
    ),
    Case(id="size-of-what", reason="says how", arguments=("size",), code=2, says="--params"),
    Case(id="size-in-what", reason="says how", arguments=("size", "--params", "7B"), code=2, says="--precision"),
    Case(id="size-of-words", reason="says how", arguments=("size", "--params", "big"), code=2, says="671B"),
    Case(id="render-nothing", reason="says how", arguments=("render",), code=2, says="-f"),
)


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("plan",), "Give --kubeconfig or --context, or files with -f"),
        (("check", "cluster"), "Give --kubeconfig or --context"),
        (("cordon", "us-east"), "Give --kubeconfig or --context"),
    ],
)
def test_advises_files_only_where_a_command_takes_them(arguments: tuple[str, ...], remedy: str) -> None:
    assert one_line(run(*arguments)).endswith(f"there is no kubeconfig /nonexistent/config. {remedy}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "broken.yaml").write_text("a: 1\nb: [1\nc: 2\n")
    (tmp_path / "list.yaml").write_text("- 1\n- 2\n")
    (tmp_path / "image.yaml").write_bytes(b"\x89PNG\xff\xfe")
    (tmp_path / "number.yaml").write_text("---\nkind: !!int foo\n")
    (tmp_path / "bytes.yaml").write_text("kind: !!binary aGk=\n")
    (tmp_path / "none").mkdir()
    (tmp_path / "empty").write_text("")
    (tmp_path / "nothing").write_text("apiVersion: v1\nkind: Config\ncontexts: null\nclusters: null\nusers: null\n")
    (tmp_path / "undecided").write_text("contexts: [{name: a, context: {cluster: a}}]\n")
    gone = tmp_path / "gone"
    gone.mkdir()
    down = ApiServer(address="http://127.0.0.1:1").kubeconfig(gone)
    (tmp_path / "down").write_text(Path(down).read_text())
    return tmp_path


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert done.stdout == ""
    return line


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_failures_are_one_line_with_an_exit_code(case: Case, folder: Path) -> None:
    done = run(*(argument.format(folder=folder) for argument in case.arguments))
    assert case.says in one_line(done), case.reason
    assert done.returncode == case.code, case.reason


def test_standard_input_is_text() -> None:
    done = run("plan", "-f", "-", stdin=b"\x89PNG\xff\xfe")
    assert one_line(done) == (
        "error: standard input: cannot be read: it is not text in UTF-8. Name a file, a folder or -"
    )
    assert done.returncode == 2


def test_forbidden_names_the_kind_and_the_required_rights(live: Live, server: ApiServer) -> None:
    options = live()
    server.forbidden = frozenset({"modelplacements"})
    done = run("plan", *options)
    assert done.returncode == 3
    line = one_line(done)
    assert "cannot list ModelPlacements" in line
    assert "docs/cli.md" in line


def test_warns_without_rights_to_compositions(live: Live, server: ApiServer) -> None:
    options = live()
    server.forbidden = frozenset({"compositions"})
    done = run("plan", *options)
    assert done.returncode == 0
    line = done.stderr.splitlines()[0]
    assert line.startswith("warning: cannot list Compositions")


def test_refused_token_is_one_line(live: Live) -> None:
    options = live()
    kubeconfig = Path(options[1])
    kubeconfig.write_text(kubeconfig.read_text().replace("let-me-in", "let-me-out"))
    # As a process, which takes with it what the library does not close when a connection fails.
    done = start("plan", *options)
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)


def test_closed_pipe_is_no_error() -> None:
    done = subprocess.run(
        ["bash", "-c", f"modelplane render -f {KIMI} | head -1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={"PATH": f"{Path(__import__('sys').executable).parent}:/usr/bin:/bin"},
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[0] == "---"

"""A namespace without objects: every command that reads one says so, and names the one that may be meant."""

import pytest

from tests.cli.conftest import Live
from tests.cli.process import KIMI, run

REFUSED = {
    ("plan",): "there is no ModelDeployment in namespace assistant (-A looks everywhere)",
    ("why",): "there is no ModelDeployment in namespace assistant (-A looks everywhere)",
    ("tree",): "there is no ModelDeployment in namespace assistant (-A looks everywhere)",
    ("tree", "mdlsvc/chat"): "there is no ModelService chat",
    ("traffic",): "name a ModelService",
    ("traffic", "-A"): "there is no ModelService",
}
EMPTY = "amespace assistant has no object of modelplane.ai. Did you mean -n assistants?"


@pytest.mark.parametrize("command", REFUSED, ids=" ".join)
def test_names_the_nearest_namespace_of_files(command: tuple[str, ...]) -> None:
    done = run(*command, "-f", KIMI, "-n", "assistant")
    # With -A every namespace is read, so none is missed.
    advice = "Give one with -f" if "-A" in command else f"N{EMPTY}"
    assert (done.returncode, done.stderr) == (4, f"error: {REFUSED[command]}. {advice}\n")


@pytest.mark.parametrize("command", [("render", "-o", "name"), ("cache", "list")], ids=" ".join)
def test_warns_where_nothing_to_show_is_no_error(command: tuple[str, ...]) -> None:
    done = run(*command, "-f", KIMI, "-n", "assistant")
    assert (done.returncode, done.stderr) == (0, f"warning: n{EMPTY}\n")


def test_lists_the_namespaces_if_none_is_similar() -> None:
    done = run("plan", "-f", KIMI, "-n", "team")
    assert done.stderr == (
        "error: there is no ModelDeployment in namespace team (-A looks everywhere). "
        "Namespace team has no object of modelplane.ai. There are objects in assistants\n"
    )


@pytest.mark.parametrize("command", ["plan", "why"])
def test_names_the_nearest_namespace_of_a_control_plane(command: str, live: Live) -> None:
    """`why` reads one namespace: only if it is empty, it reads the others."""
    done = run(command, *live(), "-n", "assistant")
    assert (done.returncode, done.stderr.strip().endswith(f"N{EMPTY}")) == (4, True), done.stderr


def test_says_nothing_of_the_namespace_of_the_context(live: Live) -> None:
    done = run("plan", *live(namespace="assistant"))
    assert done.stderr.strip().endswith("(-A looks everywhere). Give one with -f")

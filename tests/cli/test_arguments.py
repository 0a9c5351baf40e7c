"""Names as TYPE/NAME and label selectors, as kubectl reads them, and --watch."""

import itertools
import json
import re
import time
from pathlib import Path

import click
import pytest

from function.cli.main import COMMANDS
from function.cli.options import SHORT_NAMES, parse_duration, parse_selector, split_name
from function.kube.manifests import Manifest, mapping, text
from tests.cli.conftest import Live, find_manifest
from tests.cli.process import KIMI, ROOT, output_of, run, write
from tools.documents import documents

LABELS = {"tier": "gold", "team": "search", "empty": ""}


def test_short_names_are_those_of_the_xrds() -> None:
    names = [text(documents(file)[0], "spec.names.kind") for file in (ROOT / "apis").glob("*/definition.yaml")]
    given = [documents(file)[0]["spec"]["names"]["shortNames"] for file in (ROOT / "apis").glob("*/definition.yaml")]
    assert {kind: [short] for kind, short in SHORT_NAMES.items()} == dict(zip(names, given, strict=True))


@pytest.mark.parametrize(
    "value",
    [
        "gemma", "modeldeployment/gemma", "modeldeployments/gemma", "mdldep/gemma", "ModelDeployment/gemma",
        "modeldeployment.modelplane.ai/gemma",
    ],
)  # fmt: skip
def test_reads_names_as_kubectl_does(value: str) -> None:
    assert split_name(value, "ModelDeployment")[1] == "gemma"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("gemma", ("", "gemma", "")),
        ("team/gemma", ("", "gemma", "team")),
        ("mdldep/gemma", ("ModelDeployment", "gemma", "")),
        ("mdldep/team/gemma", ("ModelDeployment", "gemma", "team")),
    ],
)
def test_reads_namespaces_as_commands_print_them(value: str, name: tuple[str, ...]) -> None:
    assert split_name(value, "ModelDeployment") == name


@pytest.mark.parametrize("value", ["team/h100", "ie/team/h100"])
def test_refuses_namespaces_of_what_has_none(value: str) -> None:
    with pytest.raises(click.BadParameter, match="Give NAME or inferenceenvironment/NAME"):
        split_name(value, "InferenceEnvironment")
    with pytest.raises(click.BadParameter, match="names no ClusterModel or Model"):
        split_name("clustermodel/team/kimi", "ClusterModel", "Model")


@pytest.mark.parametrize(
    "value",
    [
        "modelcache/gemma", "deployment/gemma", "modeldeployment.apps/gemma", "/gemma", "team/", "a/b/gemma",
        "mdldep/a/b/gemma", "Team/gemma",
    ],
)  # fmt: skip
def test_refuses_other_types(value: str) -> None:
    with pytest.raises(click.BadParameter, match="names no ModelDeployment"):
        split_name(value, "ModelDeployment")


def test_commands_take_types(live: Live) -> None:
    for command in ("plan", "why", "tree"):
        assert run(command, "mdldep/kimi-k2", *live()).returncode == 0
        assert run(command, "modelcache/kimi-k2", *live()).returncode == 2
    shown = output_of("plan", *live(), "-o", "name").split()
    assert all(name.startswith("modelplacement.modelplane.ai/") for name in shown)


@pytest.mark.parametrize(
    ("selector", "is_met"),
    [
        ("tier=gold", True), ("tier==gold", True), ("tier=silver", False), ("tier!=silver", True),
        ("tier!=gold", False),
        ("gone!=x", True), ("tier in (silver, gold)", True), ("tier in (silver)", False), ("tier notin (gold)", False),
        ("gone notin (gold)", True), ("tier", True), ("gone", False), ("!gone", True), ("!tier", False),
        ("empty=", True),
        ("tier=gold,team=search", True), ("tier=gold, team in (ads,search), !gone", True), ("tier=gold,gone", False),
        ("", True),
    ],
)  # fmt: skip
def test_selects_as_kubectl_does(selector: str, *, is_met: bool) -> None:
    assert (parse_selector(selector).find_unmet(LABELS) == ()) is is_met


@pytest.mark.parametrize("selector", ["=gold", "tier in gold", "!tier=gold", "tier in (a", "a,,b", "a b"])
def test_refuses_what_is_no_selector(selector: str) -> None:
    with pytest.raises(click.BadParameter, match="is not KEY=VALUE"):
        parse_selector(selector)


def _labelled(folder: Path) -> str:
    """Write Kimi's deployment twice more, with other names and labels."""
    deployment = find_manifest(documents(ROOT / KIMI / "deployment.yaml"), "ModelDeployment")
    metadata = mapping(deployment, "metadata")
    others: list[Manifest] = [
        {**deployment, "metadata": {**metadata, "name": tier, "labels": {"tier": tier}}} for tier in ("gold", "silver")
    ]
    return write(folder, *others)


def test_plans_and_explains_what_is_selected(tmp_path: Path) -> None:
    files = ("-f", KIMI, "-f", _labelled(tmp_path))
    plans = json.loads(run("plan", *files, "-l", "tier in (gold,silver)", "-o", "json").stdout)
    assert [plan["name"] for plan in plans] == ["gold", "silver"]
    assert run("why", *files, "-l", "tier=silver").stdout.startswith("ModelDeployment assistants/silver: ")
    done = run("plan", *files, "-l", "tier=bronze")
    assert (done.returncode, done.stderr) == (
        4,
        "error: there is no ModelDeployment with tier=bronze. Give one with -f\n",
    )
    assert run("plan", "gold", *files, "-l", "tier=gold").returncode == 2


@pytest.mark.parametrize(
    ("duration", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("2h", 7200), ("1h0m5s", 3605)]
)
def test_reads_durations_as_kubectl_does(duration: str, seconds: int) -> None:
    assert parse_duration(duration) == seconds


@pytest.mark.parametrize("duration", ["", "0", "5x", "m", "-5m", "1.5h", "5m1h"])
def test_refuses_what_is_no_duration(duration: str) -> None:
    with pytest.raises(click.BadParameter, match="is no duration"):
        parse_duration(duration)


NESTED = {"cache": ("list", "preload", "clear"), "check": ("cluster", "control-plane")}


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "completion"])
def test_every_command_has_another_output(command: str) -> None:
    """But `completion`, which writes a script for a shell."""
    for arguments in NESTED.get(command, ("",)):
        shown = output_of(command, *filter(None, [arguments]), "--help")
        assert re.search(r"-o, --output \[[a-z|]*json", shown.replace("\n", " ")), (command, arguments)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_leave_out_colours(command: str) -> None:
    subcommands = {"cache": ("list", "preload", "clear"), "check": ("cluster", "control-plane"), "init": ("model",)}
    for arguments in subcommands.get(command, ("",)):
        shown = output_of(command, *filter(None, [arguments]), "--help")
        assert "--no-color" in shown, (command, arguments)


@pytest.mark.parametrize(
    "command", [("capacity",), ("capacity", "--by", "model"), ("why", "kimi-k2"), ("tree",)], ids=" ".join
)
def test_watch_looks_again_until_interrupted(
    command: tuple[str, ...], live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = itertools.count(1)

    def interrupt(_: float) -> None:
        if next(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    once = output_of(*command, *live())
    done = run(*command, *live(), "--watch")
    assert (done.returncode, done.stdout) == (130, once), "a pipe gets only what has changed"

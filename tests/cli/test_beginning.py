"""What helps one who begins: `init`, `explain`, `version`, `completion`; none asks a control plane."""

import json
from pathlib import Path

import pytest
import yaml

from function.kube.names import VERSION
from tests.cli.process import ROOT, run, said
from tools.documents import document

KINDS = ("model", "environment", "deployment")


def test_what_init_writes_fits_together(tmp_path: Path) -> None:
    for kind in KINDS:
        (tmp_path / f"{kind}.yaml").write_text(said("init", kind))
    assert said("validate", str(tmp_path), "--strict") == "3 objects valid\n"
    assert "Placed on us-east (profile one-gpu, pool h100, 1 replica" in said("plan", "-f", str(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_init_takes_a_name_and_keeps_its_comments(kind: str) -> None:
    shown = said("init", kind, "mine")
    assert yaml.safe_load(shown)["metadata"]["name"] == "mine"
    assert shown.startswith("# ")
    assert run("init", kind, "Not_A_Name").returncode == 2


def test_explain_says_what_the_xrd_says() -> None:
    shown = said("explain", "InferenceEnvironment.spec.nodePools[0].maxNodeCount")
    assert shown == (
        "KIND:   InferenceEnvironment\n"
        "FIELD:  spec.nodePools.maxNodeCount  <integer>\n"
        "\n"
        "Nodes that the pool can grow to, which is its capacity. Where absent: nodeCount.\n"
        "  minimum: 0\n"
        "  maximum: 10000\n"
    )
    found = json.loads(said("explain", "md.spec.modelRef", "-o", "json"))
    assert (found["kind"], found["type"], found["required"]) == ("ModelDeployment", "object", True)
    assert [(f["name"], f["type"]) for f in found["fields"]] == [("kind", "string"), ("name", "string")]
    assert found["bounds"] == {}


def test_a_rule_says_of_what_it_is() -> None:
    shown = said("explain", "ClusterModel.spec.serving")
    assert "rule: replicaTopology.parallelism.data: must not be set for SGLang" in shown


def test_explain_knows_every_kind_and_every_field() -> None:
    for file in sorted((ROOT / "apis").glob("*/definition.yaml")):
        definition = document(file)
        names = definition["spec"]["names"]
        shown = [said("explain", f"{name}.spec") for name in (names["kind"], names["plural"], *names["shortNames"])]
        assert len(set(shown)) == 1
        spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        assert [f["name"] for f in json.loads(said("explain", f"{names['kind']}.spec", "-o", "json"))["fields"]] == [
            *spec
        ]


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("md.spec.scalng", "scalng is not a field. Did you mean scaling?"),
        ("md.spec.modelRef.zzz", "zzz is not a field. There are kind, name"),
        ("modeldeploymnt.spec", "there is no kind modeldeploymnt. Did you mean modeldeployment?"),
    ],
)
def test_explain_of_what_is_not_there(field: str, says: str) -> None:
    done = run("explain", field)
    assert (done.returncode, done.stdout) == (4, "")
    assert says in done.stderr


def test_version() -> None:
    number = said("--version").strip()
    assert said("version") == f"modelplane v{number} ({VERSION})\n"
    assert json.loads(said("version", "-o", "json")) == {"version": f"v{number}", "apiVersion": VERSION}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_what_the_shell_would_be_given_by_the_variable(shell: str) -> None:
    assert said("completion", shell) == said(_MODELPLANE_COMPLETE=f"{shell}_source")

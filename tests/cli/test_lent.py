"""`plan` names who gives back lent replicas, and `capacity` shows how many GPUs are lent."""

import json
from pathlib import Path

import pytest
import yaml

from function.cli.load_warnings import find_load_slips
from function.kube.manifests import JSON, Manifest
from tests.cli.process import ROOT, output_of, refused_output_of, run
from tests.cli.test_composition import OURS, composition
from tests.support.plane import change, only, plane

EXAMPLE = ROOT / "examples" / "gemma-one-gpu"  # a pool of 2 nodes with 4 GPUs each, and a model of one GPU
DEPLOYMENT = """\
apiVersion: modelplane.ai/v1alpha1
kind: ModelDeployment
metadata: {{name: {name}, namespace: chat}}
spec:
  priority: {priority}
  modelRef: {{name: gemma-3-27b}}
  scaling: {{fixed: {fixed}}}
"""


def write(folder: Path, *deployments: tuple[str, int, str]) -> str:
    """Writes the example with these deployments (name, priority, `scaling.fixed`) in place of its own."""
    found = [
        manifest
        for path in sorted(EXAMPLE.glob("*.yaml"))
        for manifest in yaml.safe_load_all(path.read_text())
        if manifest["kind"] != "ModelDeployment"
    ]
    texts = [DEPLOYMENT.format(name=name, priority=priority, fixed=fixed) for name, priority, fixed in deployments]
    path = folder / "all.yaml"
    path.write_text("---\n".join([yaml.safe_dump_all(found), *texts]))
    return str(path)


def test_plan_names_who_gives_back_lent_replicas(tmp_path: Path) -> None:
    files = write(tmp_path, ("lender", 0, "{replicas: 8, guaranteed: 1}"), ("owner", 0, "{replicas: 3}"))
    lines = output_of("plan", "-f", files).splitlines()
    assert "note: h100-west: 3 lent replicas of chat/lender will end to free GPUs for it" in lines
    (pool,) = json.loads(output_of("capacity", "-f", files, "-o", "json"))
    assert pool["gpus"] == {"total": 8, "inUse": 8, "free": 0, "lent": 4}
    assert {user["deployment"]: (user["gpus"], user.get("lent")) for user in pool["usedBy"]} == {
        "lender": (5, 4),
        "owner": (3, None),
    }
    header, row = output_of("capacity", "-f", files).splitlines()
    assert header.split()[4] == "LENT"
    assert row.split()[4] == "4"


def test_plan_names_whose_guaranteed_replicas_end(tmp_path: Path) -> None:
    """The lender is guaranteed 7 of 8 replicas, and its priority is lower."""
    files = write(tmp_path, ("lender", 0, "{replicas: 8, guaranteed: 7}"), ("owner", 10, "{replicas: 3}"))
    limits: Manifest = {"limits": {"maxPriority": 10, "preemption": "LowerPriority"}}
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump(composition("deployments", {**OURS, **limits})))
    lines = output_of("plan", "-f", files, "-f", str(settings)).splitlines()
    assert "note: h100-west: 3 replicas of chat/lender will end to free GPUs for it" in lines
    assert "note: h100-west: 3 replicas of its 8 will end, because other deployments need their GPUs" in lines


@pytest.mark.parametrize("priority", [-1, -1000])
def test_plan_takes_nothing_back_for_a_lower_priority(tmp_path: Path, priority: int) -> None:
    files = write(tmp_path, ("lender", 0, "{replicas: 8, guaranteed: 1}"), ("owner", priority, "{replicas: 3}"))
    found = {plan["name"]: plan["reason"] for plan in json.loads(refused_output_of("plan", "-f", files, "-o", "json"))}
    assert found == {"lender": "Placed", "owner": "InsufficientCapacity"}


def test_plan_tells_the_lender_what_ends(tmp_path: Path) -> None:
    files = write(tmp_path, ("lender", 0, "{replicas: 8, guaranteed: 1}"), ("owner", 0, "{replicas: 3}"))
    lines = output_of("plan", "-f", files).splitlines()
    assert "note: h100-west: 3 lent replicas of its 8 will end, because other deployments need their GPUs" in lines
    rows = [line for line in lines if line.startswith("placed ")]
    assert [row.split("   ")[-1].strip() for row in rows] == ["room for 8", "room once replicas of others have ended"]


def test_plan_places_a_lender_with_what_fits(tmp_path: Path) -> None:
    """The pool has 8 GPUs, and each replica takes one."""
    files = write(tmp_path, ("lender", 0, "{replicas: 9, guaranteed: 1}"))
    (plan,) = json.loads(refused_output_of("plan", "-f", files, "-o", "json"))
    assert [placement["replicas"] for placement in plan["placements"]] == [8]


@pytest.mark.parametrize(
    ("scaling", "warning"),
    [
        ({"fixed": {"replicas": 6, "guaranteed": 6}}, ""),
        (
            {"fixed": {"replicas": 6, "guaranteed": 9}},
            "spec.scaling.fixed.guaranteed: 9 is more than replicas (6), so no replica is lent",
        ),
        (
            {"signal": "Load", "load": {"maxReplicas": 2}, "fixed": {"guaranteed": 1}},
            "spec.scaling.fixed.guaranteed: has no effect with signal: Load, where load.minReplicas counts",
        ),
        (
            {"signal": "Load", "load": {"maxReplicas": 2, "minReplicas": 0}},
            "spec.scaling.load.minReplicas: is 0 without spec.service, so one replica stays: nothing could wake it",
        ),
    ],
)
def test_warns_of_numbers_without_effect(scaling: Manifest, warning: str) -> None:
    assert [str(slip) for slip in find_load_slips({"spec": {"scaling": scaling}})] == ([warning] if warning else [])


def test_plan_takes_nobody_who_waits_for_a_lender(tmp_path: Path) -> None:
    """The deployment runs on all GPUs, and a placement that a user wrote waits for them."""
    control = plane("gemma-one-gpu")
    change(control, only(control, "ModelDeployment"), "spec.scaling.fixed", {"replicas": 8, "guaranteed": 8})
    spec: Manifest = {
        "modelRef": {"name": "gemma-3-27b"},
        "inferenceEnvironmentRef": {"name": "h100-west"},
        "profile": "one-gpu",
        "pool": "h100",
        "topology": {"nodes": 1, "gpusPerNode": 1},
        "replicas": 8,
    }
    labels: Manifest = {"modelplane.ai/environment": "h100-west"}
    metadata: Manifest = {"name": "hand", "namespace": "chat", "labels": labels}
    control.settle()
    control.apply(
        [{"apiVersion": "modelplane.ai/v1alpha1", "kind": "ModelPlacement", "metadata": metadata, "spec": spec}]
    )
    control.settle()
    path = tmp_path / "dump.yaml"
    path.write_text(yaml.safe_dump_all(dict(manifest) for manifest in control.store.values()))
    assert "lent" not in output_of("plan", "-f", str(path))


def write_settings(folder: Path, **limits: JSON) -> str:
    settings = folder / "settings.yaml"
    found: Manifest = {**OURS, "limits": dict(limits)}
    settings.write_text(yaml.safe_dump(composition("deployments", found)))
    return str(settings)


@pytest.mark.parametrize(
    ("gpus", "note"),
    [
        (8, "3 lent replicas of chat/lender will end to free GPUs for it"),
        (3, "2 lent replicas of chat/lender will end to free GPUs for it"),
    ],
)
def test_plan_takes_back_no_more_than_is_guaranteed(tmp_path: Path, gpus: int, note: str) -> None:
    """The lender comes first, with one guaranteed replica."""
    files = write(tmp_path, ("lender", 0, "{replicas: 8, guaranteed: 1}"), ("owner", 0, "{replicas: 3}"))
    sources = ("-f", files, "-f", write_settings(tmp_path, guaranteedGpusPerNamespace=gpus))
    lines = run("plan", *sources).stdout.splitlines()
    assert f"note: h100-west: {note}" in lines
    assert ("2 of 3 guaranteed replicas count" in " ".join(lines)) == (gpus == 3)
    shown = run("why", "owner", "-n", "chat", *sources).stdout
    assert ("2 of 3 guaranteed replicas count" in " ".join(shown.split())) == (gpus == 3)


def test_capacity_compares_all_guarantees_with_all_gpus(tmp_path: Path) -> None:
    """The pool has 8 GPUs."""
    files = write(tmp_path, ("lender", 0, "{replicas: 8, guaranteed: 1}"))
    namespaces: Manifest = {"idle": {"guaranteedGpus": 5}, "free": {"gpus": 2}}
    settings = write_settings(tmp_path, guaranteedGpusPerNamespace=4, namespaces=namespaces)
    sources = ("-f", files, "-f", settings)
    assert output_of("capacity", *sources).splitlines()[-1] == "guaranteed: 9 GPUs, more than the 8 of all environments"
    header, chat, idle, _, total = output_of("capacity", *sources, "--by", "namespace").splitlines()
    assert header.split()[:3] == ["NAMESPACE", "GPUS", "GUARANTEED"]
    assert (chat.split()[:3], idle.split()[:3]) == (["chat", "8", "4"], ["idle", "0", "5"])
    assert total == "guaranteed: 9 GPUs, more than the 8 of all environments"
    rows = json.loads(output_of("capacity", *sources, "--by", "namespace", "-o", "json"))
    assert {row["namespace"]: (row["gpus"], row["guaranteed"]) for row in rows} == {"chat": (8, 4), "idle": (0, 5)}
    fewer = write_settings(tmp_path, guaranteedGpusPerNamespace=4)
    assert output_of("capacity", "-f", files, "-f", fewer).splitlines()[-1] == (
        "guaranteed: 4 of the 8 GPUs of all environments"
    )
    assert "guaranteed" not in output_of("capacity", "-f", files, "--by", "model", "-f", settings)

"""Mistakes that the API server, Crossplane and the function accept, and that `validate` warns about."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from function.cli.object_warnings import _NETWORKS
from function.cli.settings_warnings import _READERS
from function.kube.manifests import JSON, Manifest, listing, mapping
from tests.cli.conftest import example, find_manifest
from tests.cli.process import run, write

LIMITS: Manifest = {"gpusPerNamespace": 2}
SHARED: Manifest = {"mode": "Shared", "storageClassName": "f", "sharedClaim": {"name": "team", "size": "20Gi"}}
LEAST = "gemma-3-27b takes at least 26Gi with one byte for each parameter in its name"
REMEDY = "enlarge it, and set spec.resources.disk of the model"
GEMMA = "ClusterModel gemma-3-27b"
WEST = "InferenceEnvironment h100-west"
EFA: Manifest = {"preset": "eks-efa", "with": {"instanceType": "p5.48xlarge", "ncclNet": "Libfabric"}}


def _compose(
    kind: str, *, api: str = "modelplane.fn.crossplane.io/v1beta1", name: str = "Defaults", **settings: JSON
) -> Manifest:
    step: Manifest = {
        "step": "modelplane",
        "functionRef": {"name": "function-modelplane"},
        "input": {"apiVersion": api, "kind": name, **settings},
    }
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": f"{kind.lower()}s"},
        "spec": {"compositeTypeRef": {"apiVersion": "modelplane.ai/v1alpha1", "kind": kind}, "pipeline": [step]},
    }


@dataclass(frozen=True, kw_only=True)
class Silent:
    """Changes of an example, and the warnings that are new with them."""

    edits: dict[str, Manifest] = field(default_factory=dict)  # fields of the spec, by kind
    pool: Manifest = field(default_factory=dict)
    namespaces: dict[str, str] = field(default_factory=dict)
    more: tuple[Manifest, ...] = ()
    warnings: tuple[str, ...] = ()


def _pool(bandwidth: str, **more: JSON) -> Manifest:
    return {"acceleratorCount": 8, "capabilities": {"multiNodeCapable": True, "interNodeBandwidth": bandwidth}, **more}


EKS: Manifest = {"source": "Existing", "provider": "EKS", "existing": {"secretRef": {"name": "a"}}}
STEP = "spec.pipeline[0].input"
SILENT = {
    "claim-smaller-than-the-name-says": Silent(
        edits={"ModelDeployment": {"modelCache": {"type": "PVC", "storageClassName": "f", "size": "20Gi"}}},
        warnings=(f"ModelDeployment chat/gemma: spec.modelCache.size: is 20Gi, and {LEAST}; {REMEDY}",),
    ),
    "claim-large-enough-for-the-name": Silent(
        edits={"ModelDeployment": {"modelCache": {"type": "PVC", "storageClassName": "f", "size": "60Gi"}}}
    ),
    "claim-of-four-bits": Silent(
        edits={
            "ClusterModel": {"model": {"name": "google/gemma-3-27b-it-int4"}},
            "ModelDeployment": {"modelCache": {"type": "PVC", "storageClassName": "f", "size": "20Gi"}},
        }
    ),
    "shared-claim-smaller-than-the-name-says": Silent(
        edits={"InferenceEnvironment": {"storage": SHARED}},
        warnings=(f"{GEMMA}: spec.model.name: claim team of {WEST} is 20Gi, and {LEAST}; {REMEDY}",),
    ),
    "namespace-of-a-cluster-model": Silent(
        namespaces={"ClusterModel": "chat"},
        warnings=(
            (
                f"{GEMMA}: metadata.namespace: has no effect, as ClusterModels are in no namespace; "
                "for a model of one namespace, set kind: Model"
            ),
        ),
    ),
    "namespace-of-an-environment": Silent(
        namespaces={"InferenceEnvironment": "chat"},
        warnings=(
            f"{WEST}: metadata.namespace: has no effect, as InferenceEnvironments are in no namespace; leave it out",
        ),
    ),
    "kind-of-the-input": Silent(
        more=(_compose("ModelDeployment", name="Default", gates=[]),),
        warnings=(
            (
                f'Composition modeldeployments: {STEP}.kind: "Default" is not known; must be one of Defaults '
                "(did you mean Defaults?)"
            ),
        ),
    ),
    "group-of-the-input": Silent(
        more=(_compose("ModelDeployment", api="modelplane.ai/v1alpha1", gates=[]),),
        warnings=(
            (
                f'Composition modeldeployments: {STEP}.apiVersion: "modelplane.ai/v1alpha1" is not known; must be one '
                "of modelplane.fn.crossplane.io/v1beta1 (did you mean modelplane.fn.crossplane.io/v1beta1?)"
            ),
        ),
    ),
    "priority-in-another-composition": Silent(
        more=(_compose("ModelPlacement", limits={"maxPriority": 5}),),
        warnings=(
            (
                f"Composition modelplacements: {STEP}.limits.maxPriority: has no effect in the Composition of "
                "ModelPlacements; set it in the Composition of ModelDeployments"
            ),
        ),
    ),
    "names-of-priorities-in-another-composition": Silent(
        more=(_compose("ModelPlacement", limits={"priorities": {"critical": 5}}),),
        warnings=(
            (
                f"Composition modelplacements: {STEP}.limits.priorities: has no effect in the Composition of "
                "ModelPlacements; set it in the Composition of ModelDeployments"
            ),
        ),
    ),
    "priority-that-no-namespace-may-have": Silent(
        more=(
            _compose(
                "ModelDeployment",
                limits={
                    "priorities": {"critical": 100, "high": 50, "batch": -10},
                    "namespaces": {"a": {"maxPriority": 50}, "b": {}},
                },
            ),
        ),
        warnings=(
            (
                f"Composition modeldeployments: {STEP}.limits.priorities.critical: 100 counts as at most 50 in every "
                "namespace; raise maxPriority of those that may have it"
            ),
        ),
    ),
    "limits-in-one-composition": Silent(
        more=(_compose("ModelDeployment", limits=LIMITS), _compose("ModelPlacement", objectWatch=True)),
        warnings=(
            (
                f"Composition modeldeployments: {STEP}.limits: is not the same in the Composition of ModelPlacements; "
                "set it equally in both"
            ),
        ),
    ),
    "limits-in-both": Silent(
        more=(
            _compose(
                "ModelDeployment",
                limits={
                    **LIMITS,
                    "maxPriority": 5,
                    "priorities": {"critical": 5},
                    "namespaces": {"a": {"maxPriority": 9}},
                },
            ),
            _compose("ModelPlacement", limits=LIMITS),
        )
    ),
    "network-of-another-preset": Silent(
        pool=_pool("ib-400g", interNode=EFA),
        warnings=(f"{WEST}: spec.nodePools: pool h100 declares ib-400g, and preset eks-efa has efa-400g; correct one",),
    ),
    "network-of-another-provider": Silent(
        edits={"InferenceEnvironment": {"cluster": EKS}},
        pool=_pool("ib-400g", interNode={"preset": "coreweave-infiniband"}),
        warnings=(
            (
                f"{WEST}: spec.nodePools: pool h100 declares ib-400g, and provider EKS has efa-400g or eth-400g; "
                "correct one"
            ),
        ),
    ),
    "network-of-the-preset": Silent(pool=_pool("efa-400g", interNode=EFA)),
}


def _list_warnings(folder: Path, *manifests: Manifest) -> list[str]:
    folder.mkdir()
    done = run("validate", write(folder, *manifests), "-o", "json")
    return [
        f"{each['kind']} {each['namespace'] + '/' if each['namespace'] else ''}{each['name']}: {each['path']}: "
        f"{each['message']}"
        for each in json.loads(done.stdout)
    ]


@pytest.fixture(params=[*SILENT.values()], ids=[*SILENT])
def silent(request: pytest.FixtureRequest) -> Silent:
    assert isinstance(request.param, Silent)
    return request.param


def test_warns_of_what_is_accepted_and_not_meant(silent: Silent, tmp_path: Path) -> None:
    manifests = example("gemma-one-gpu")
    before = _list_warnings(tmp_path / "before", *manifests)
    for kind, fields in silent.edits.items():
        mapping(find_manifest(manifests, kind), "spec").update(fields)
    for kind, namespace in silent.namespaces.items():
        mapping(find_manifest(manifests, kind), "metadata")["namespace"] = namespace
    (pool,) = listing(find_manifest(manifests, "InferenceEnvironment"), "spec.nodePools")
    pool.update(silent.pool)
    after = _list_warnings(tmp_path / "after", *manifests, *silent.more)
    assert tuple(each for each in after if each not in before) == silent.warnings


def test_input_of_another_group_counts_as_it_does_for_the_function(tmp_path: Path) -> None:
    """Crossplane passes the input on whatever it is called: three replicas exceed two GPUs."""
    settings = _compose("ModelDeployment", api="modelplane.ai/v1alpha1", limits=LIMITS)
    done = run("plan", "-f", write(tmp_path, *example("gemma-one-gpu"), settings), "-o", "json")
    assert [plan["reason"] for plan in json.loads(done.stdout)] == ["QuotaExceeded"]


def test_every_preset_has_its_networks() -> None:
    folder = Path(__file__).parents[2] / "function" / "presets"
    assert _NETWORKS.keys() == {file.stem for file in folder.glob("*.yaml")} - {"common"}


def test_settings_of_some_compositions_exist() -> None:
    schemas = json.loads((Path(__file__).parents[2] / "function" / "schemas" / "manifests.json").read_text())
    fields = schemas["$defs" if "$defs" in schemas else "definitions"]["Defaults"]["properties"]
    for setting in _READERS:
        first, *below = setting.split(".")
        assert first in fields, setting
        assert all(field in fields[first]["properties"] for field in below), setting

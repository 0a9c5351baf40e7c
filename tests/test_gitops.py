"""The health checks for Argo CD and Flux, run by Lua and by CEL on every kind and on every golden response."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import celpy
import lupa  # type: ignore[import-untyped]  # its stubs are those of another release
import pytest
import yaml
from celpy.adapter import json_to_cel

from function.composers import COMPOSERS
from function.kube.manifests import JSON, Manifest, listing, mapping, text
from tools.documents import document
from tools.gitops import FOLDER, generate

GOLDENS = sorted((Path(__file__).parent / "golden").glob("*/*.yaml"))
GENERATION = 3


def condition(
    type_: str, status: str, reason: str = "", *, generation: int = GENERATION, message: str = ""
) -> Manifest:
    return {"type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": generation}


def false(type_: str, reason: str) -> Manifest:
    return condition(type_, "False", reason)


READY, NOT_READY = condition("Ready", "True"), condition("Ready", "False", "Creating")
DOWNLOADING = condition("StorageReady", "False", "Downloading")
FULL = condition("Scheduled", "False", "InsufficientCapacity", message="0/1 environments have room")


def build(*conditions: Manifest, **metadata: JSON) -> Manifest:
    status: Manifest = {"status": {"conditions": [*conditions]}} if conditions else {}
    return {"metadata": {"name": "x", "generation": GENERATION, **metadata}, **status}


def ask_argo_cd(kind: str, manifest: Manifest) -> tuple[str, str]:
    """Returns status and message of the health check in install/gitops/argocd-cm.yaml."""
    data = mapping(document(FOLDER / "argocd-cm.yaml"), "data")
    lua = lupa.LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(manifest, recursive=True)
    found = lua.execute(str(data[f"resource.customizations.health.modelplane.ai_{kind}"]))
    return str(found.status), str(found.message)


def ask_flux(kind: str, manifest: Manifest) -> str:
    """Returns the status by install/gitops/flux-kustomization.yaml; `failed` is asked before `current`, as by Flux."""
    variables: dict[str, Any] = {name: json_to_cel(value) for name, value in manifest.items()}
    for name, status in (("failed", "Degraded"), ("current", "Healthy")):
        if "status" in manifest and compile_check(kind, name).evaluate(variables):
            return status
    return "Progressing"


@cache
def compile_check(kind: str, name: str) -> celpy.Runner:
    checks = listing(document(FOLDER / "flux-kustomization.yaml"), "spec.healthCheckExprs")
    (check,) = (check for check in checks if check["kind"] == kind)
    environment = celpy.Environment()
    return environment.program(environment.compile(text(check, name)))


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    manifest: Manifest
    want: str
    message: str = ""


CASES = (
    Case("new", "nobody has reconciled it", build(), "Progressing", "has not been reconciled yet"),
    Case("ready", "it serves", build(READY), "Healthy"),
    Case("stale", "Ready is about an earlier spec", build(condition("Ready", "True", generation=2)), "Progressing"),
    Case("downloads", "the download ends by itself", build(NOT_READY, DOWNLOADING), "Progressing"),
    Case(
        "full", "no environment has room", build(NOT_READY, FULL), "Degraded", "Scheduled: 0/1 environments have room"
    ),
    Case(
        "full-of-an-earlier-spec",
        "the refusal is about an earlier spec",
        build(NOT_READY, {**FULL, "observedGeneration": 2}),
        "Progressing",
    ),
    Case(
        "drift",
        "the nodes differ, and everything serves",
        build(READY, {**FULL, "type": "HardwareAsDeclared"}),
        "Healthy",
    ),
    Case(
        "invalid",
        "a profile is wrong, and another serves",
        build(READY, false("ModelValid", "InvalidProfile")),
        "Degraded",
    ),
    Case("in-use", "an edit of a pool is refused", build(READY, false("PoolsValid", "PoolInUse")), "Degraded"),
    Case("rolling", "environments change one by one", build(READY, false("RolledOut", "Rolling")), "Healthy"),
    Case("stopped", "the new image does not start", build(READY, false("RolledOut", "Stopped")), "Degraded"),
    Case("unsynced", "Crossplane cannot apply it", build(NOT_READY, false("Synced", "ReconcileError")), "Degraded"),
    Case(
        "breaker", "Crossplane delays calls", build(NOT_READY, false("Responsive", "WatchCircuitOpen")), "Progressing"
    ),
    Case(
        "unknown",
        "the cluster does not answer",
        build(NOT_READY, condition("ServiceReady", "Unknown", "Unreachable")),
        "Progressing",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.parametrize("kind", COMPOSERS)
def test_health_of_a_state(kind: str, case: Case) -> None:
    status, message = ask_argo_cd(kind, case.manifest)
    assert status == case.want, case.reason
    assert case.message in message
    assert ask_flux(kind, case.manifest) == case.want, case.reason


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        ({"annotations": {"crossplane.io/paused": "true"}}, "Suspended"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "Progressing"),
    ],
    ids=["paused", "being deleted"],
)
def test_argo_cd_shows_what_is_paused_or_goes(metadata: Mapping[str, JSON], want: str) -> None:
    assert ask_argo_cd("ModelDeployment", build(READY, **metadata))[0] == want


HEALTHY = {
    "InferenceEnvironment/nodes-unusable", "Model/oci-by-tag", "ModelCache/hydrated", "ModelDeployment/ready",
    "ModelDeployment/two-environments", "ModelPlacement/kueue", "ModelPlacement/on-a-model-cache",
    "ModelPlacement/serving", "ModelPlacement/single-node", "ModelService/serving",
}  # fmt: skip
FAILED = {"ClusterModel/one-profile-invalid", "ModelService/no-gateway"}


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_health_of_a_response(path: Path) -> None:
    """What Crossplane makes of a response: it is Ready if everything that is desired is."""
    name = f"{path.parent.name}/{path.stem}"
    response: Manifest = yaml.safe_load(path.read_text())
    desired = mapping(response, "desired")
    resources = mapping(desired, "resources").values()
    is_ready = text(desired, "composite.ready") != "READY_FALSE" and all(
        isinstance(item, dict) and item.get("ready") == "READY_TRUE" for item in resources
    )
    conditions = [
        condition(text(c, "type"), text(c, "status").rpartition("_")[2].capitalize(), text(c, "reason"))
        for c in listing(response, "conditions")
    ]
    manifest = build(READY if is_ready else NOT_READY, *conditions)
    want = "Healthy" if name in HEALTHY else "Degraded" if name in FAILED else "Progressing"
    assert ask_argo_cd(path.parent.name, manifest)[0] == want
    assert ask_flux(path.parent.name, manifest) == want


@pytest.mark.parametrize("name", dict(generate()))
def test_files_are_generated(name: str) -> None:
    assert (FOLDER / name).read_text() == dict(generate())[name], "run make generate"

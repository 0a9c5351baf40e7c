"""Scenario 15: what a pool's preset gives, on the pods that KServe and LeaderWorkerSet finally make of a service."""

from dataclasses import replace
from decimal import Decimal

import pytest

from function.api.inference_environment import parse_environment
from function.api.pod_additions import get_preset
from function.domain.pods import PresetInputs
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.kube.quantity import parse
from function.serving.service import build_service
from tests.api.test_presets import GIVEN, SHARED, Given
from tests.e2e.objects import environment, pool
from tests.e2e.world import World, main_container, running
from tests.support.serving_requests import DATA, PIPELINE, request
from tools.stack.waiting import until

pytestmark = pytest.mark.e2e

TEAM = "fabrics"
PREPARED = "fabric"


@pytest.fixture(scope="module", autouse=True)
def prepared(world: World, empty: None) -> None:  # noqa: ARG001  # it comes first
    """The preset of KServe's that pipelines need is made by any environment."""
    world.team(TEAM)
    world.apply(environment(PREPARED, pool("gpus")))
    world.wait("InferenceEnvironment", PREPARED, "Ready", "True")
    world.stack.remote.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})


def _told(inputs: PresetInputs) -> JSON:
    said: dict[str, JSON] = {
        "instanceType": inputs.instance_type,
        "resourceName": inputs.resource,
        "count": inputs.count,
        "networks": [*inputs.networks],
        "ncclNet": inputs.nccl_net,
    }
    return {key: value for key, value in said.items() if value}


def _service(case: Given, name: str, *, data: bool) -> Manifest:
    between: Manifest = {"preset": case.preset, "with": _told(case.inputs)}
    (nodes,) = parse_environment(environment("e", pool("gpus", interNode=between)), BUILT_IN).value.pools
    asked = replace(
        request(DATA if data else PIPELINE, pool=nodes, uri="hf://org/kimi:main"), name=name, namespace=TEAM
    )
    return build_service(asked)


def _pods(world: World, service: Manifest) -> list[Manifest]:
    world.stack.remote.apply(service)
    until("two pods", lambda: [running(pod) for pod in world.pods(service)] == [True] * 2)
    found = world.pods(service)
    world.stack.remote.delete("LLMInferenceService", text(service, "metadata.name"), TEAM)
    until("its pods to go", lambda: not world.pods(service))
    return found


def _amounts(resources: Manifest) -> dict[str, Decimal]:
    """Return quantities as numbers: Kubernetes writes 5120Mi as 5Gi."""
    return {name: parse(str(amount)) for name, amount in resources.items()}


def _env(pod: Manifest) -> dict[str, JSON]:
    entries = listing(main_container(pod), "env")
    return {text(e, "name"): e.get("value") or get(e, "valueFrom.fieldRef.fieldPath") for e in entries}


@pytest.mark.parametrize("case", GIVEN, ids=lambda case: case.preset)
def test_leader_and_worker_have_what_the_providers_example_has(world: World, case: Given) -> None:
    if case.preset == "aks-infiniband":
        case = replace(case, inputs=PresetInputs(resource="rdma/ib", count=8), resources={"rdma/ib": "8"})
    if case.preset == "network-operator-sriov":
        inputs = replace(case.inputs, resource="nvidia.com/sriov_rdma")
        case = replace(case, inputs=inputs, resources={"nvidia.com/sriov_rdma": "2"})
    for pod in _pods(world, _service(case, f"p-{case.preset}", data=False)):
        main = main_container(pod)
        limits, requests = (_amounts(mapping(main, f"resources.{side}")) for side in ("limits", "requests"))
        assert limits == _amounts({"nvidia.com/gpu": "8", **case.resources})
        assert {name: requests[name] for name in limits} == limits, "limits are requests, too"
        assert {name: _env(pod)[name] for name in SHARED | case.env} == SHARED | case.env
        assert {key: mapping(pod, "metadata.annotations").get(key) for key in case.annotations} == case.annotations
        paths = {text(v, "name"): text(v, "hostPath.path") for v in listing(pod, "spec.volumes") if "hostPath" in v}
        mounts = {text(m, "mountPath"): paths.get(text(m, "name")) for m in listing(main, "volumeMounts")}
        assert {path: mounts.get(path) for path in case.mounts} == case.mounts
        assert get(main, "securityContext.capabilities.add") == ["IPC_LOCK"]
        assert (get(main, "securityContext.privileged") is True) == case.privileged
        assert (get(pod, "spec.hostNetwork") is True) == case.host_network
        assert "/dev/shm" in mounts
        start = [str(part) for part in _list(main, "command")]
        assert start[:2] == (["/bin/bash", "-c"] if get_preset(case.preset).start else ["vllm", "serve"])


@pytest.mark.parametrize("name", ["coreweave-infiniband", "oci-virtual-functions"])
def test_beside_kserves_own_preset_its_rights_stay(world: World, name: str) -> None:
    (case,) = (given for given in GIVEN if given.preset == name)
    for pod in _pods(world, _service(case, f"d-{name}", data=True)):
        rights = mapping(main_container(pod), "securityContext")
        assert mapping(rights, "capabilities") == {"add": ["IPC_LOCK", "SYS_RAWIO", "NET_RAW"], "drop": ["ALL"]}
        assert (rights.get("privileged") is True) == case.privileged
        assert {key: _env(pod)[key] for key in SHARED | case.env} == SHARED | case.env


def _list(manifest: Manifest, path: str) -> list[JSON]:
    found = get(manifest, path)
    return found if isinstance(found, list) else []

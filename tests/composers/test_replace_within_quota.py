"""A service whose pods end before the new ones start gets its GPUs back, whatever the platform allows meanwhile."""

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

import pytest

from function.cli.store import Ref
from function.kube.manifests import JSON, Manifest, get, integer, listing, mapping, text
from tests.support.plane import call, change, manifests, only, remote, said
from tools.control_plane import ControlPlane
from tools.engine import Engine
from tools.world import World

LOWERED: Manifest = {"limits": {"gpusPerNamespace": 4}}
MISTYPED: Manifest = {"limits": {"gpusPerNamespace": "four"}}
COSTLY: Manifest = {"limits": {"costPerHour": {"amount": "1", "currency": "USD"}}}
# The pool costs 8 x 2.50 USD per hour, so the running service exceeds each of these limits.
SETTINGS: Mapping[str, Manifest] = {"lowered": LOWERED, "mistyped": MISTYPED, "costly": COSTLY}


STOPPING_ROUNDS = 6


class SlowPods(World):
    """Clusters on which pods need some rounds to end once their service has no replicas."""

    rounds: ClassVar[Counter[str]] = Counter()  # since the replicas are 0, by service

    def advance(self, resource: Manifest, step: int) -> Manifest:
        observed = super().advance(resource, step)
        service = mapping(observed, "status.atProvider.manifest")
        name = text(service, "metadata.name")
        if service.get("kind") == "LLMInferenceService":
            self.rounds[name] = self.rounds[name] + 1 if not get(service, "spec.replicas") else 0
            is_stopping = 0 < self.rounds[name] < STOPPING_ROUNDS
            mapping(service, "status")["workloads"] = {"primary": {"readyReplicas": int(is_stopping)}}
        return observed


def serving() -> ControlPlane:
    """Returns a deployment of 8 GPUs, ready on a pool of one node with 8 GPUs."""
    control = ControlPlane(renderer=Engine(call, {"limits": {"gpusPerNamespace": 8}}), world=SlowPods())
    for manifest in manifests("gemma-one-gpu"):
        spec = mapping(manifest, "spec")
        if manifest["kind"] == "InferenceEnvironment":
            (pool,) = listing(spec, "nodePools")
            pool |= {"acceleratorCount": 8, "maxNodeCount": 1, "price": {"perGpuHour": "2.50", "currency": "USD"}}
        if manifest["kind"] == "ClusterModel":
            (profile,) = listing(spec, "serving")
            mapping(profile, "replicaTopology")["gpusPerNode"] = 8
        if manifest["kind"] == "ModelDeployment":
            spec |= {"rollout": {"whenFull": "Replace"}, "scaling": {"fixed": {"replicas": 1}}}
        control.apply([manifest])
    control.settle()
    assert read_replicas(control) == 1
    return control


def change_settings(control: ControlPlane, settings: Manifest) -> None:
    control.renderer = Engine(call, settings)


def change_image(control: ControlPlane) -> None:
    change(
        control,
        only(control, "ClusterModel"),
        "spec.serving",
        [
            {**profile, "engine": {**mapping(profile, "engine"), "image": "vllm/vllm-openai:v0.12.0"}}
            for profile in listing(control.composites[only(control, "ClusterModel")], "spec.serving")
        ],
    )


def placement(control: ControlPlane) -> Ref:
    return only(control, "ModelPlacement")


def read_replicas(control: ControlPlane) -> int:
    (service,) = remote(control, placement(control), "service-").values()
    return integer(service, "spec.replicas", -1)


def stop_pods(control: ControlPlane) -> None:
    """Renders until the service is written without replicas."""
    for _ in range(6):
        control.advance()
        if read_replicas(control) == 0:
            return
    raise AssertionError("its pods do not stop, although the pool is full")


def check_returns(control: ControlPlane) -> None:
    """Renders until rest: the ledger never gives the GPUs away, and the service has its replica again."""
    for _ in range(STOPPING_ROUNDS + 6):
        control.advance()
        environment = control.composites[only(control, "InferenceEnvironment")]
        rows = [(text(row, "name"), row["replicas"]) for row in listing(environment, "status.admitted")]
        assert rows == [(placement(control).name, 1)]
        assert integer(control.composites[placement(control)], "status.service.replicas") == 1
    assert read_replicas(control) == 1
    assert said(control, only(control, "ModelDeployment"), "PlacementsReady")[0] == "True"


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_returns_under_limit_that_was_lowered_before(settings: Manifest) -> None:
    control = serving()
    change_settings(control, settings)
    control.settle()
    assert read_replicas(control) == 1, "running replicas are kept"
    change_image(control)
    stop_pods(control)
    check_returns(control)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_returns_under_limit_that_is_lowered_while_pods_are_stopped(settings: Manifest) -> None:
    control = serving()
    change_image(control)
    stop_pods(control)
    change_settings(control, settings)
    check_returns(control)


def test_returns_where_price_rose_above_budget_before() -> None:
    control = serving()
    change_settings(control, {"limits": {"costPerHour": {"amount": "20", "currency": "USD"}}})
    control.settle()
    environment = only(control, "InferenceEnvironment")
    pools: JSON = [
        {**pool, "price": {"perGpuHour": "5.00", "currency": "USD"}}
        for pool in listing(control.composites[environment], "spec.nodePools")
    ]
    change(control, environment, "spec.nodePools", pools)
    control.settle()
    change_image(control)
    stop_pods(control)
    check_returns(control)


def test_keeps_gpus_while_model_is_invalid_and_pods_are_stopped() -> None:
    control = serving()
    change_image(control)
    stop_pods(control)
    model = only(control, "ClusterModel")
    spec = control.composites[model]["spec"]
    change(control, model, "spec", {})
    change_settings(control, LOWERED)
    control.settle()
    assert integer(control.composites[placement(control)], "status.service.replicas") == 1
    change(control, model, "spec", spec)
    check_returns(control)


def test_deployment_is_not_ready_while_quota_leaves_it_without_replicas() -> None:
    control = serving()
    deployment = only(control, "ModelDeployment")
    change(control, deployment, "spec.scaling.fixed.replicas", 0)
    control.settle()
    assert said(control, deployment, "PlacementsReady")[0] == "True", "a deployment without replicas is Ready"
    change_settings(control, LOWERED)
    change(control, deployment, "spec.scaling.fixed.replicas", 1)
    control.settle()
    assert read_replicas(control) == 0
    assert said(control, deployment, "Scheduled") == ("False", "QuotaExceeded")
    assert said(control, deployment, "PlacementsReady")[0] == "False"

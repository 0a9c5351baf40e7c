"""Parsing environments: broken pools are left out by name, other problems break the environment."""

from dataclasses import dataclass

import pytest

from function.api.inference_environment import ClusterAccess, ParsedEnvironment, name_provider_config, parse_environment
from function.domain.environment import (
    Drift,
    DriftField,
    Environment,
    EnvironmentStorage,
    Observe,
    Pool,
    PoolFacts,
    Unusable,
    UnusableReason,
)
from function.domain.model import Problem, SecretKey
from function.domain.settings import BUILT_IN, Download, Kserve, Settings
from function.kube import names
from function.kube.manifests import JSON, Manifest
from function.kube.selectors import Taint
from function.status.inference_environment import build_node_facts, list_invalid
from tests.api import manifests
from tests.api.manifests import pool

GIB = 2**30


def _read(manifest: Manifest, settings: Settings = BUILT_IN) -> ParsedEnvironment:
    return parse_environment(manifest, settings)


OBSERVED: Manifest = {
    "nodes": 3,
    "usable": 1,
    "unusable": [{"reason": "TooFewGPUs", "detail": "7 of 8", "count": 2, "nodes": ["a", "b"]}],
    "gpusPerNode": 8,
    "product": "NVIDIA-H100",
    "memoryPerGpu": "81559Mi",
    "drift": [{"field": "taints", "declared": "none", "observed": "x:NoSchedule", "nodes": ["a"]}],
}
FULL = manifests.environment(
    pool(
        acceleratorType="NVIDIA-H100",
        gpuResource="nvidia.com/mig-1g.5gb",
        nodeCount=2,
        labels={"b": "2", "a": "1"},
        unschedulable=True,
        unschedulableReason="new firmware",
        taints=[{"key": "gpu", "effect": "NoSchedule"}],
        capabilities={
            "memoryPerGpu": "80Gi",
            "interconnect": "NVLink",
            "precisionSupport": ["FP16", "bf16"],
            "multiNodeCapable": True,
            "interNodeBandwidth": "IB-400G",
            "nvlinkDomainSize": 8,
        },
    ),
    storage={
        "storageClassName": "fast",
        "accessMode": "ReadWriteOnce",
        "mode": "Shared",
        "sharedClaim": {"name": "models", "size": "2Ti"},
        "download": {"backoffLimit": 2},
    },
    taints=[
        {"key": "team", "value": "a", "effect": "NoSchedule"},
        {"key": "repair", "effect": "NoExecute", "reason": "new switch"},
    ],
    hardware={"observe": "Always", "selector": {"matchLabels": {"gpu": "yes"}}},
    kserve={"namespace": "llm"},
)
FULL |= {
    "metadata": {
        "name": "east",
        "uid": "1",
        "labels": {"tier": "production", "a": "b"},
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    },
    "status": {
        "providerConfigRef": {"name": "made-earlier"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Available"}],
        "pools": [{"name": "h100", "observed": OBSERVED}],
    },
}
READ = Environment(
    name="east",
    uid="1",
    labels=(("a", "b"), ("tier", "production")),
    taints=(
        Taint(key="team", value="a", effect="NoSchedule"),
        Taint(key="repair", effect="NoExecute", reason="new switch"),
    ),
    pools=(
        Pool(
            name="h100",
            gpus_per_node=8,
            max_nodes=4,
            node_count=2,
            accelerator_type="nvidia-h100",
            gpu_resource="nvidia.com/mig-1g.5gb",
            labels=(("a", "1"), ("b", "2")),
            taints=({"key": "gpu", "effect": "NoSchedule"},),
            memory_per_gpu=80 * GIB,
            interconnect="nvlink",
            precision=("fp16", "bf16"),
            multi_node=True,
            bandwidth="ib-400g",
            nvlink_domain=8,
            autoscaled=True,
            unschedulable=True,
            unschedulable_reason="new firmware",
            facts=PoolFacts(
                nodes=3,
                usable=1,
                unusable=(Unusable(reason=UnusableReason.TOO_FEW_GPUS, detail="7 of 8", count=2, nodes=("a", "b")),),
                gpus_per_node=8,
                product="NVIDIA-H100",
                memory_per_gpu=81559 * 2**20,
                drift=(Drift(field=DriftField.TAINTS, declared="none", observed="x:NoSchedule", nodes=("a",)),),
            ),
        ),
    ),
    observe=Observe.ALWAYS,
    node_selector={"matchLabels": {"gpu": "yes"}},
    storage=EnvironmentStorage(
        class_name="fast",
        access_mode="ReadWriteOnce",
        is_shared=True,
        shared_claim="models",
        shared_size=2048 * GIB,
        download=Download(backoff_limit=2),
    ),
    kserve=Kserve(namespace="llm", config_prefix="kserve-", gateway=True),
    provider_config="made-earlier",
    ready=True,
    deleting=True,
)


def test_observed_nodes_are_parsed_as_status_has_them() -> None:
    facts = READ.pools[0].facts
    assert facts is not None
    assert build_node_facts(facts) == OBSERVED


def test_parses_every_field() -> None:
    parsed = _read(FULL)
    assert parsed.problems == ()
    assert parsed.value == READ


def test_absent_fields_have_the_documented_defaults() -> None:
    environment = _read(manifests.environment({"name": "h100"})).value
    assert environment.pools == (Pool(name="h100", gpus_per_node=1, max_nodes=0, count_field="nodeCount"),)
    assert environment.storage == EnvironmentStorage()
    assert environment.kserve == BUILT_IN.kserve
    assert (
        environment.provider_config == name_provider_config("east") == names.build_name("east", "environment", "east")
    )


@dataclass(frozen=True)
class Class:
    id: str
    reason: str
    environment: JSON
    platform: str | None
    want: str | None


@pytest.mark.parametrize(
    "case",
    [
        Class("neither", "a missing storage class is not the default class of the cluster", None, None, None),
        Class("platform", "the storage class of the platform is the fallback", None, "slow", "slow"),
        Class("both", "the storage class of the environment takes precedence", "fast", "slow", "fast"),
        Class("default-class", "an empty string is an explicit value", "", "slow", ""),
    ],
    ids=lambda c: c.id,
)
def test_merges_the_storage_class_over_the_settings(case: Class) -> None:
    given = manifests.environment(storage={"storageClassName": case.environment})
    settings = Settings(storage_class=case.platform)
    assert _read(given, settings).value.storage.class_name == case.want, case.reason


@pytest.mark.parametrize(
    ("fields", "want"),
    [({"nodeCount": 3}, 3), ({"nodeCount": 3, "maxNodeCount": 8}, 8), ({"nodeCount": 3, "maxNodeCount": 0}, 0)],
)
def test_capacity_of_a_pool_is_its_maximum_number_of_nodes(fields: Manifest, want: int) -> None:
    environment = _read(manifests.environment({"name": "a", **fields})).value
    assert [p.max_nodes for p in environment.pools] == [want]


@dataclass(frozen=True)
class AccessCase:
    id: str
    reason: str
    cluster: JSON
    want: ClusterAccess | None
    paths: tuple[str, ...] = ()


def _key(name: str, namespace: str = "modelplane-system", key: str = "kubeconfig") -> SecretKey:
    return SecretKey(name=name, namespace=namespace, key=key)


GKE: Manifest = {"project": "p", "region": "r"}
ACCESS = [
    AccessCase("existing", "the namespace and the key have defaults",
               {"source": "Existing", "existing": {"secretRef": {"name": "a"}}}, ClusterAccess(kubeconfig=_key("a"))),
    AccessCase("said", "all fields can be set",
               {"source": "Existing",
                "existing": {"secretRef": {"name": "a", "namespace": "b", "key": "c"},
                             "identitySecretRef": {"name": "d", "namespace": "e", "key": "f",
                                                   "type": "UpboundTokens"}}},
               ClusterAccess(kubeconfig=_key("a", "b", "c"), identity=_key("d", "e", "f"),
                             identity_type="UpboundTokens")),
    AccessCase("gke", "the kubeconfig of GKE is called after the environment", {"source": "GKE", "gke": GKE},
               ClusterAccess(kubeconfig=_key("east-kubeconfig"))),
    AccessCase("identity", "Google credentials are the default identity",
               {"source": "GKE", "gke": GKE | {"identitySecretRef": {"name": "sa"}}},
               ClusterAccess(kubeconfig=_key("east-kubeconfig"), identity=_key("sa", key="private_key"),
                             identity_type="GoogleApplicationCredentials")),
    AccessCase("gke-faulty", "a fault in another field does not hide the Secrets",
               {"source": "GKE", "gke": {"region": "r"}},
               ClusterAccess(kubeconfig=_key("east-kubeconfig")), ("spec.cluster.gke.project",)),
    AccessCase("no-secret", "the Secret is required", {"source": "Existing", "existing": {"provider": "x"}}, None,
               ("spec.cluster.existing.secretRef",)),
    AccessCase("bad-identity", "an invalid identity makes the whole access invalid",
               {"source": "GKE", "gke": GKE | {"identitySecretRef": {"name": 3}}}, None,
               ("spec.cluster.gke.identitySecretRef.name",)),
    AccessCase("no-block", "the block of the source is required", {"source": "GKE"}, None, ("spec.cluster.gke",)),
    AccessCase("foreign-block", "a block of another source is refused",
               {"source": "GKE", "gke": GKE, "existing": {"secretRef": {"name": "a"}}},
               ClusterAccess(kubeconfig=_key("east-kubeconfig")), ("spec.cluster.existing",)),
    AccessCase("source", "an unknown source is refused", {"source": "EKS", "gke": GKE}, None, ("spec.cluster.source",)),
    AccessCase("no-cluster", "a cluster is required", None, None, ("spec.cluster",)),
]  # fmt: skip


@pytest.mark.parametrize("case", ACCESS, ids=lambda c: c.id)
def test_parses_the_access_to_the_cluster(case: AccessCase) -> None:
    parsed = _read(manifests.environment(cluster=case.cluster))
    assert parsed.access == case.want, case.reason
    assert tuple(p.path for p in parsed.problems) == case.paths
    assert parsed.value.broken is bool(case.paths)


def test_a_missing_block_of_gke_names_the_secret_of_the_cluster() -> None:
    (problem,) = _read(manifests.environment(cluster={"source": "GKE"})).problems
    assert problem.message == (
        "is required, as source is GKE: a cluster that exists already, "
        "with its kubeconfig in Secret modelplane-system/east-kubeconfig"
    )


@pytest.mark.parametrize("place", ["existing", "gke"])
def test_accepts_pools_in_the_block_of_the_cluster(place: str) -> None:
    block: Manifest = {"secretRef": {"name": "a"}, "nodePools": [pool("a")], **GKE}
    given = manifests.environment(
        cluster={"source": "GKE" if place == "gke" else "Existing", place: block}, nodePools=None
    )
    assert [p.name for p in _read(given).value.pools] == ["a"]


def test_refuses_pools_in_two_places() -> None:
    existing: JSON = {"secretRef": {"name": "a"}, "nodePools": []}
    parsed = _read(manifests.environment(pool("a"), cluster={"source": "Existing", "existing": existing}))
    assert parsed.problems == (
        Problem("spec.cluster.existing.nodePools", "[] is not allowed; must be left out together with spec.nodePools"),
    )
    assert parsed.value.broken


def test_names_broken_pools_and_keeps_the_others() -> None:
    parsed = _read(
        manifests.environment(
            pool("a", capabilities={"interNodeBandwidth": "ib-400g-or-better"}),
            pool("b"),
            pool("b"),
            pool("cpu", acceleratorCount=0),
        )
    )
    assert [p.name for p in parsed.value.pools] == ["b"]
    assert parsed.value.broken_pools == ("a", "b")
    assert not parsed.value.broken
    assert parsed.other_problems == ()
    assert [p.path for p in parsed.pool_problems] == [
        "spec.nodePools[0].capabilities.interNodeBandwidth",
        "spec.nodePools[2].name",
    ]
    assert "must be unique, and spec.nodePools[1] has the same name" in str(parsed.problems[1])


def test_problem_outside_the_pools_breaks_the_environment() -> None:
    parsed = _read(manifests.environment(storage={"storageClassName": 3}))
    assert parsed.value.broken
    assert [p.name for p in parsed.value.pools] == ["h100"]
    assert [p.path for p in parsed.other_problems] == ["spec.storage.storageClassName"]


def test_absent_spec_breaks_the_environment() -> None:
    parsed = _read({"metadata": {"name": "east"}})
    assert parsed.value.broken
    assert parsed.access is None
    assert [p.path for p in parsed.problems] == ["spec"]


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        ([], "has not reported Ready yet"),
        ([{"type": "Ready", "status": "False", "reason": "Creating"}], "Creating"),
        ([{"type": "Ready", "status": "False", "reason": "Creating", "message": "a is not ready"}],
         "Creating: a is not ready"),
        ([{"type": "Ready", "status": "False", "reason": "Creating", "message": "a is\n\x1b[31mnot ready\n"}],
         "Creating: a is [31mnot ready"),
    ],
)  # fmt: skip
def test_says_why_it_is_not_ready(conditions: JSON, want: str) -> None:
    environment = _read(manifests.environment() | {"status": {"conditions": conditions}}).value
    assert (environment.ready, environment.ready_message) == (False, want)


@pytest.mark.parametrize(
    ("generation", "seen", "want"),
    [
        (2, 2, (True, "")),
        (2, 1, (False, "has not reported Ready for its latest change yet")),
        (None, 1, (True, "")),
        (2, None, (True, "")),
    ],
)
def test_ready_must_be_about_the_current_spec(generation: JSON, seen: JSON, want: tuple[bool, str]) -> None:
    ready: Manifest = {"type": "Ready", "status": "True"}
    given = manifests.environment() | {
        "status": {"conditions": [ready if seen is None else ready | {"observedGeneration": seen}]}
    }
    given["metadata"] = {"name": "east"} if generation is None else {"name": "east", "generation": generation}
    environment = _read(given).value
    assert (environment.ready, environment.ready_message) == want


def test_pools_in_two_places_are_a_problem_of_the_pools() -> None:
    nested: JSON = {"secretRef": {"name": "a"}, "nodePools": [{"name": "b", "acceleratorCount": 8}]}
    parsed = _read(manifests.environment(pool("a"), cluster={"source": "Existing", "existing": nested}))
    (condition,) = list_invalid(parsed.pool_problems, parsed.other_problems)
    assert (condition.type, condition.reason) == ("PoolsValid", "InvalidPool")
    assert "spec.cluster.existing.nodePools" in condition.message
    assert "together with spec.nodePools" in condition.message


def test_reasons_of_users_are_one_line() -> None:
    """They are part of messages of one line each, and of the rows of tables."""
    taint: Manifest = {"key": "drain", "effect": "NoSchedule", "reason": "new\r\n racks"}
    spec = manifests.environment(
        pool("a", unschedulable=True, unschedulableReason="until\nMonday\t\x07"), taints=[taint]
    )
    environment = _read(spec).value
    assert environment.pools[0].unschedulable_reason == "until Monday"
    assert [taint.describe() for taint in environment.taints] == ["drain:NoSchedule (new racks)"]


def test_paused_environment_is_not_ready() -> None:
    paused: Manifest = {"annotations": {"crossplane.io/paused": "true"}}
    ready: Manifest = {"conditions": [{"type": "Ready", "status": "True"}]}
    environment = parse_environment({"metadata": paused, "status": ready}, BUILT_IN).value
    assert (environment.ready, environment.ready_message) == (False, "paused by its annotation crossplane.io/paused")
    assert environment.paused


@dataclass(frozen=True)
class Twin:
    id: str
    reason: str
    second: Manifest
    is_valid: bool = True


@pytest.mark.parametrize(
    "case",
    [
        Twin("same", "two pools with the same labels would count the same nodes", {}, is_valid=False),
        Twin(
            "more-labels",
            "pools with overlapping labels are valid, because their nodes may differ",
            {"labels": {"x": "y", "z": "w"}},
        ),
        Twin("no-labels", "a pool without labels is valid, because its nodes may differ", {"labels": {}}),
        Twin(
            "resource",
            "the same nodes may also have GPUs of another resource",
            {"gpuResource": "nvidia.com/mig-1g.5gb"},
        ),
        Twin(
            "taints",
            "pods of the first pool cannot start on nodes with the taint",
            {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        ),
    ],
    ids=lambda c: c.id,
)
def test_pools_of_equal_labels_are_a_fault(case: Twin) -> None:
    first: Manifest = {"name": "a", "labels": {"x": "y"}, "acceleratorCount": 8}
    parsed = _read(manifests.environment(first, {**first, "name": "b", **case.second}))
    fault = Problem("spec.nodePools[1].labels", "pool a has the same; its nodes would be counted twice")
    assert parsed.problems == (() if case.is_valid else (fault,)), case.reason
    assert parsed.value.broken_pools == (() if case.is_valid else ("b",)), case.reason


def test_says_that_a_cluster_of_any_provider_is_existing() -> None:
    spec: Manifest = {"cluster": {"source": "EKS"}, "nodePools": []}
    problems = parse_environment({"metadata": {"name": "a"}, "spec": spec}, BUILT_IN).problems
    want = (
        '"EKS" is not known; must be one of Existing, GKE; a cluster of any provider is Existing, '
        "with its kubeconfig in a Secret"
    )
    assert Problem("spec.cluster.source", want) in problems


def test_a_queue_of_kueue_is_a_label_of_the_pods() -> None:
    (parsed,) = _read(manifests.environment(pool(kueue={"queue": "team.gpus"}, pod={"labels": {"a": "b"}}))).value.pools
    (by_label,) = _read(
        manifests.environment(pool(pod={"labels": {"a": "b", "kueue.x-k8s.io/queue-name": "team.gpus"}}))
    ).value.pools
    assert parsed == by_label
    assert parsed.pod.queue == "team.gpus"


QUEUED: Manifest = {"labels": {"kueue.x-k8s.io/queue-name": "other"}}
TAKEN = 'labels.kueue.x-k8s.io/queue-name: "other" is not allowed; must be left out, as kueue.queue sets it'
NO_NAME = (
    'kueue.queue: "team..gpus" is not allowed; must be of lower-case letters, digits, - and ., and each part between '
    "dots must begin and end with a letter or digit"
)


@pytest.mark.parametrize(
    ("queue", "fields", "want"),
    [
        ("team..gpus", {}, NO_NAME),
        ("gpus", {"pod": QUEUED}, f"pod.{TAKEN}"),
        ("gpus", {"interNode": {"pod": QUEUED}}, f"interNode.pod.{TAKEN}"),
    ],
)
def test_refuses_a_queue_that_kueue_or_another_field_refuses(queue: str, fields: Manifest, want: str) -> None:
    block: Manifest = {"name": "h100", "acceleratorCount": 8, "maxNodeCount": 4, "kueue": {"queue": queue}, **fields}
    parsed = _read(manifests.environment(block))
    assert [str(problem) for problem in parsed.problems] == [f"spec.nodePools[0].{want}"]

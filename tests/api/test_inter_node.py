"""Additions of a pool to its pods: merged, or refused with path, value and what is allowed."""

from dataclasses import dataclass

import pytest

from function.api.inference_environment import parse_environment
from function.domain.environment import Pool
from function.domain.model import Problem
from function.domain.pods import InterNode, PodAdditions, PresetInputs
from function.domain.settings import BUILT_IN
from function.kube.manifests import JSON, Manifest, prune, text
from tests.api.manifests import environment

POOL = "spec.nodePools[0]"
POOL_OF_FOUR: Manifest = {"name": "h100", "acceleratorCount": 8, "maxNodeCount": 4}
EFA: dict[str, JSON] = {"instanceType": "p5.48xlarge", "ncclNet": "Libfabric"}


def read(**fields: JSON) -> Pool:
    found = parse_environment(environment({**POOL_OF_FOUR, **fields}), BUILT_IN)
    assert found.problems == ()
    (only,) = found.value.pools
    return only


def test_pool_without_settings_adds_nothing() -> None:
    plain = read()
    assert (plain.pod, plain.inter_node) == (PodAdditions(), None)
    assert plain.pod_overrides(1) == plain.pod_overrides(2) == PodAdditions()


def test_parses_every_field() -> None:
    assert read(
        pod={
            "resources": {"hugepages-2Mi": "1Gi", "example.com/nic": 2},
            "env": [{"name": "A", "value": "1"}],
            "annotations": {"example.com/a": "b"},
            "labels": {"team": "x"},
            "volumes": [{"name": "v", "hostPath": {"path": "/opt/v"}}],
            "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True}],
            "hostNetwork": True,
            "priorityClassName": "high",
            "schedulerName": "kai",
            "runtimeClassName": "nvidia",
            "serviceAccountName": "engines",
            "imagePullSecrets": [{"name": "z"}, {"name": "a"}],
            "securityContext": {"runAsUser": 0, "capabilities": {"add": ["SYS_PTRACE"]}},
            "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}],
        }
    ).pod == PodAdditions(
        resources=(("example.com/nic", "2"), ("hugepages-2Mi", "1Gi")),
        env=({"name": "A", "value": "1"},),
        annotations=(("example.com/a", "b"),),
        labels=(("team", "x"),),
        volumes=({"name": "v", "hostPath": {"path": "/opt/v"}},),
        volume_mounts=({"name": "v", "mountPath": "/v", "readOnly": True},),
        host_network=True,
        priority_class="high",
        scheduler="kai",
        runtime_class="nvidia",
        service_account="engines",
        pull_secrets=("a", "z"),
        security={"runAsUser": 0, "capabilities": {"add": ["SYS_PTRACE"]}},
        resource_claims=({"name": "nic", "resourceClaimTemplateName": "nics"},),
    )


def test_pod_needs_an_exclusive_node_for_its_ports_or_devices() -> None:
    """Settings of the pool count for every pod, those of interNode for replicas over several nodes."""
    host = {"hostNetwork": True}
    efa = {"preset": "eks-efa", "with": {"instanceType": "p5.48xlarge", "ncclNet": "Libfabric"}}
    for said, one, several in (
        ({}, False, False),
        ({"pod": host}, True, True),
        ({"pod": host, "interNode": {"pod": {"hostNetwork": False}}}, True, False),
        ({"interNode": {"pod": host}}, False, True),
        ({"interNode": efa}, False, True),
        ({"interNode": {"preset": "coreweave-infiniband"}}, False, False),
    ):
        found = read(**said)
        assert [found.needs_exclusive_node(nodes, 4) for nodes in (1, 2)] == [one, several], said
        assert not found.needs_exclusive_node(2, 8), "a pod with all GPUs of a node needs no further rule"


def test_merges_inter_node_over_pool_over_preset() -> None:
    said = read(
        pod={"env": [{"name": "NCCL_IB_HCA", "value": "mlx5"}, {"name": "A", "value": "pool"}]},
        interNode={"preset": "coreweave-infiniband", "pod": {"env": [{"name": "A", "value": "between"}]}},
    )
    env = {text(entry, "name"): entry.get("value") for entry in said.pod_overrides(2).env}
    assert (env["NCCL_IB_HCA"], env["A"], env["NCCL_NET"]) == ("mlx5", "between", "IB")
    assert said.pod_overrides(2).limits == (("rdma/ib", "1"),)
    assert said.pod_overrides(1) == said.pod, "pods of one node need no network between nodes"


def test_keeps_settings_beside_the_merged_result() -> None:
    between = read(interNode={"preset": "eks-efa", "with": EFA, "failClosed": False}).inter_node
    assert between is not None
    assert (between.preset, between.inputs, between.fail_closed, between.pod) == (
        "eks-efa",
        PresetInputs(instance_type="p5.48xlarge", nccl_net="Libfabric"),
        False,
        PodAdditions(),
    )
    assert "NCCL_NET" not in between.preset_env
    assert "FI_PROVIDER" in between.preset_env


def test_zero_removes_a_device_of_a_preset() -> None:
    said = read(interNode={"preset": "eks-efa", "with": EFA, "pod": {"resources": {"hugepages-2Mi": 0}}})
    assert said.pod_overrides(2).limits == (("vpc.amazonaws.com/efa", "32"),)


def test_count_replaces_the_instance_type() -> None:
    said = read(interNode={"preset": "eks-efa", "with": {"count": 8, "ncclNet": "Libfabric"}})
    assert ("vpc.amazonaws.com/efa", "8") in said.pod_overrides(2).limits


def test_pool_without_preset_has_only_its_own_settings() -> None:
    said = read(interNode={"pod": {"resources": {"example.com/nic": 1}}})
    assert said.inter_node == InterNode(pod=said.pod_overrides(2), merged=said.pod_overrides(2))


@dataclass(frozen=True)
class Fault:
    id: str
    reason: str
    fields: dict[str, JSON]
    path: str
    message: str


def between(preset: str | None = None, given: JSON = None, pod: JSON = None) -> dict[str, JSON]:
    return {"interNode": prune({"preset": preset, "with": given, "pod": pod})}


def pod(**fields: JSON) -> dict[str, JSON]:
    return {"pod": fields}


TMP: JSON = {"name": "v", "emptyDir": {}}
FAULTS = [
    Fault("input-missing", "names of resources on a cluster have no defaults",
          between("network-operator-shared", {"networks": ["n"]}), "interNode.with.resourceName",
          "is required, as preset network-operator-shared needs it"),
    Fault("nccl-net-missing", "the value depends on the image",
          between("eks-efa", {"instanceType": "p5.48xlarge"}), "interNode.with.ncclNet",
          "is required, as preset eks-efa needs it"),
    Fault("shape-without-count", "more than the count depends on the instance type",
          between(preset="oci-host-network"), "interNode.with.instanceType",
          "is required, as preset oci-host-network needs it"),
    Fault("unknown-input", "an input that the preset does not take is refused",
          between("coreweave-infiniband", {"networks": ["n"]}), "interNode.with.networks",
          '["n"] is not allowed; must be left out, as preset coreweave-infiniband takes resourceName, count, ncclNet'),
    Fault("input-without-preset", "an input without a preset has no effect, and is refused",
          between(given={"count": 1}), "interNode.with.count",
          "1 is not allowed; must be left out, as no preset is set"),
    Fault("instance-type", "an unknown instance type is refused with the nearest known one",
          between("oci-host-network", {"instanceType": "BM.GPU.H10.8"}),
          "interNode.with.instanceType",
          '"BM.GPU.H10.8" is not known; must be one of BM.GPU.H100.8, BM.GPU.H200.8, BM.GPU.B200.8 '
          "(did you mean BM.GPU.H100.8?)"),
    Fault("gpus-as-network", "the resource of the GPUs is not a network device",
          between("network-operator-sriov", {"resourceName": "nvidia.com/gpu", "count": 1, "networks": ["n"]}),
          "interNode.with.resourceName",
          '"nvidia.com/gpu" is not allowed; must be the resource of the network devices, not that of the GPUs'),
    Fault("cpu", "the model sets cpu and memory", pod(resources={"cpu": 4}), "pod.resources.cpu",
          "4 is not allowed; must be under a name like vpc.amazonaws.com/efa or hugepages-2Mi; "
          "the model sets cpu and memory"),
    Fault("gpus", "the shape sets the number of GPUs",
          pod(resources={"nvidia.com/gpu": 8}), "pod.resources.nvidia.com/gpu",
          "8 is not allowed; must be left out, as the shape of the replica sets the number of nvidia.com/gpu of a pod"),
    Fault("label", "KServe selects pods by reserved labels", pod(labels={"app.kubernetes.io/name": "x"}),
          "pod.labels.app.kubernetes.io/name",
          '"x" is not allowed; must be left out, as keys of app.kubernetes.io are reserved'),
    Fault("annotation", "KServe reads reserved annotations", pod(annotations={"serving.kserve.io/x": "y"}),
          "pod.annotations.serving.kserve.io/x",
          '"y" is not allowed; must be left out, as keys of kserve.io are reserved'),
    Fault("template", "KServe would expand the template", pod(env=[{"name": "A", "value": "{{ .Name }}"}]),
          "pod.env[0].value", '"{{ .Name }}" is not allowed; must be without {{, which KServe reads as a template'),
    Fault("two-values", "a variable has one value", pod(env=[{"name": "A", "value": "1", "valueFrom": {}}]),
          "pod.env[0].valueFrom", "{} is not allowed; must be left out together with value"),
    Fault("own-volume", "the volume would replace a volume of the pod", pod(volumes=[{"name": "dshm", "emptyDir": {}}]),
          "pod.volumes[0].name",
          '"dshm" is not allowed; must be none of dshm, home, tmp-dir, model-cache, tls-certs, engine-cache, '
          'initializer-certificates, '
          "which pods have already"),
    Fault("two-sources", "a volume must have only one source",
          pod(volumes=[{"name": "v", "emptyDir": {}, "secret": {}}]),
          "pod.volumes[0].secret", "{} is not allowed; must be left out together with emptyDir"),
    Fault("no-source", "a volume must have a source", pod(volumes=[{"name": "v"}]), "pod.volumes[0].hostPath",
          "is required, or emptyDir, configMap, secret, persistentVolumeClaim, projected, csi"),
    Fault("no-volume", "a mount needs an existing volume",
          pod(volumeMounts=[{"name": "w", "mountPath": "/w"}], volumes=[TMP]),
          "pod.volumeMounts[0]", '"w" is not a volume; must be one of v'),
    Fault("taken-by-weights", "KServe mounts the weights at this path",
          pod(volumeMounts=[{"name": "v", "mountPath": "/mnt/models"}],
                                                        volumes=[TMP]),
          "pod.volumeMounts[0]",
          'volume v at "/mnt/models" is not allowed; must be at another path than that of the model\'s weights'),
    Fault("two-at-one-path", "the message names both volumes at one path",
          pod(volumes=[TMP, {"name": "w", "emptyDir": {}}],
              volumeMounts=[{"name": "v", "mountPath": "/x"}, {"name": "w", "mountPath": "/x/"}]),
          "pod.volumeMounts[1]",
          'volume w at "/x" is not allowed; must be at another path than that of volume v '
          f"({POOL}.pod.volumeMounts[0])"),
    Fault("taken-by-preset", "the message names the volume of the preset",
          between("oci-host-network", {"instanceType": "BM.GPU.H200.8"},
                  {"volumes": [TMP], "volumeMounts": [{"name": "v", "mountPath": "/dev/infiniband"}]}),
          "interNode.pod.volumeMounts[0]",
          'volume v at "/dev/infiniband" is not allowed; must be at another path than that of volume devinf '
          "(preset oci-host-network)"),
    Fault("claim-twice", "a claim must not name both a claim and a template",
          pod(resourceClaims=[{"name": "n", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}]),
          "pod.resourceClaims[0].resourceClaimTemplateName",
          '"b" is not allowed; must be left out together with resourceClaimName'),
    Fault("claim-of-nothing", "a claim must name a claim or a template", pod(resourceClaims=[{"name": "n"}]),
          "pod.resourceClaims[0].resourceClaimName", "is required, or resourceClaimTemplateName"),
]  # fmt: skip


@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.id)
def test_reports_every_problem_of_a_pool(case: Fault) -> None:
    found = parse_environment(environment({**POOL_OF_FOUR, **case.fields}), BUILT_IN)
    assert found.problems == (Problem(f"{POOL}.{case.path}", case.message),), case.reason
    assert found.pool_problems == found.problems, "the other pools remain valid"
    assert found.value.broken_pools == ("h100",)

"""What a pool gives reaches every pod of a service alike, over several nodes what lies between them as well."""

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from function.api.pod_additions import get_preset
from function.domain.environment import Pool
from function.domain.model import Engine, Problem, Shape
from function.domain.pods import InterNode, PodAdditions, PresetInputs
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.serving.digest import ServingRequest, compute_spec_digest
from function.serving.service import build_service, find_service_problems
from tests.support.serving_requests import (
    DATA,
    FRONTIER,
    ONE_GPU,
    ONE_NODE,
    PIPELINE,
    SGLANG,
    VLLM_OLD,
    engine,
    request,
)

GIVEN = PodAdditions(
    resources=(("example.com/nic", "2"), ("example.com/none", "0")),
    env=({"name": "A", "value": "pool"}, {"name": "B", "value": "pool"}),
    annotations=(("example.com/a", "b"),),
    labels=(("modelplane.ai/service", "stolen"), ("team", "x")),
    volumes=({"name": "v", "hostPath": {"path": "/opt/v"}},),
    volume_mounts=({"name": "v", "mountPath": "/v"},),
    host_network=True,
    priority_class="high",
    scheduler="kai",
    runtime_class="nvidia",
    service_account="engines",
    pull_secrets=("pull",),
    security={"runAsUser": 0},
    resource_claims=({"name": "nic", "resourceClaimTemplateName": "nics"},),
)


def pool(given: PodAdditions = GIVEN) -> Pool:
    return replace(FRONTIER, pod=given)


def between(name: str, inputs: PresetInputs = PresetInputs()) -> Pool:  # noqa: B008  # frozen
    given = get_preset(name).build_additions(inputs, fail_closed=True)
    names = frozenset(text(entry, "name") for entry in given.env)
    return replace(
        FRONTIER, inter_node=InterNode(preset=name, merged=given, preset_env=names, start=get_preset(name).start)
    )


def service(request: ServingRequest) -> Manifest:
    return build_service(request)


def pods(request: ServingRequest) -> list[Manifest]:
    return [mapping(service(request), f"spec.{part}") for part in ("template", "worker")]


def main(pod: Manifest) -> Manifest:
    (container,) = listing(pod, "containers")
    return container


def _said(container: Manifest) -> list[Manifest]:
    """Returns the variables that were set, without those that follow from engine and storage."""
    added = (
        "VLLM_ENGINE_READY_TIMEOUT_S",
        "HF_HUB_OFFLINE",
        "VLLM_CACHE_ROOT",
        "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        *("USER", "HOME", "HF_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"),
    )
    return [entry for entry in listing(container, "env") if text(entry, "name") not in added]


@pytest.mark.parametrize("asked", [request(PIPELINE, pool=pool()), request(DATA, pool=pool())])
def test_leader_and_worker_get_pool_additions(asked: ServingRequest) -> None:
    for made in pods(asked):
        one = {key: made[key] for key in ONE if key in made}
        assert one == ONE
        container = main(made)
        assert get(container, "resources.limits") == {"nvidia.com/gpu": "8", "example.com/nic": "2"}
        assert get(container, "resources.requests") == {"cpu": "4", "memory": "16Gi"}, (
            "the resources of the pool are limits as well as requests"
        )
        assert get(container, "resources.claims") == [{"name": "nic"}]
        assert _said(container) == [*GIVEN.env]
        assert get(container, "securityContext.runAsUser") == 0
        assert {"name": "v", "mountPath": "/v"} in listing(container, "volumeMounts")
        assert {"name": "v", "hostPath": {"path": "/opt/v"}} in listing(made, "volumes")


ONE: Manifest = {
    "hostNetwork": True,
    "dnsPolicy": "ClusterFirstWithHostNet",
    "priorityClassName": "high",
    "schedulerName": "kai",
    "runtimeClassName": "nvidia",
    "serviceAccountName": "engines",
    "imagePullSecrets": [{"name": "pull"}],
    "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}],
}


def test_labels_and_annotations_reach_pods() -> None:
    built = service(request(PIPELINE, pool=pool()))
    assert get(built, "spec.labels") == {
        "team": "x",
        "app.kubernetes.io/managed-by": "modelplane",
        "modelplane.ai/service": "kimi-1a2b3c4d",
    }, "the label for anti-affinity takes precedence over a label of the pool"
    assert get(built, "spec.annotations") == {
        "example.com/a": "b",
        "serving.kserve.io/model-based-routing-enabled": "true",
    }
    on_one_node = request(pool=pool())
    assert get(service(on_one_node), "spec.annotations") == {
        "example.com/a": "b",
        "modelplane.ai/spec-digest": compute_spec_digest(on_one_node),
    }


def test_author_variable_overrides_pool_variable() -> None:
    author = engine(env=({"name": "B", "value": "author"},))
    found = _said(main(pods(request(PIPELINE, author, pool=pool()))[0]))
    assert found == [{"name": "A", "value": "pool"}, {"name": "B", "value": "author"}]


def test_inter_node_settings_do_not_apply_to_one_node() -> None:
    plain, over_nodes = (service(request(ONE_NODE, pool=p)) for p in (FRONTIER, between("coreweave-infiniband")))
    assert plain == over_nodes


@dataclass(frozen=True)
class Rights:
    id: str
    reason: str
    shape: Shape
    engine: Engine
    given: Manifest
    want: JSON


LOCK: Manifest = {"capabilities": {"add": ["IPC_LOCK"]}}
RIGHTS = [
    Rights("locks-already", "the function's own command already has the capability", PIPELINE, engine(), LOCK, LOCK),
    Rights("adds-up",
        "capabilities of the pool are added to those of the function",
        PIPELINE, engine(), {"capabilities": {"add": ["SYS_PTRACE"]}},
           {"capabilities": {"add": ["IPC_LOCK", "SYS_PTRACE"]}}),
    Rights("preset-locks",
        "KServe's preset has the capability, and another list would replace the preset's list",
        DATA, engine(), LOCK,
           {"runAsNonRoot": False}),
    Rights("beside-presets", "a merge replaces the list, so that it repeats the preset's capabilities", DATA, engine(),
           {"capabilities": {"add": ["SYS_PTRACE"], "drop": ["CHOWN"]}},
           {"runAsNonRoot": False, "capabilities": {"add": ["IPC_LOCK", "NET_RAW", "SYS_PTRACE", "SYS_RAWIO"]}}),
    Rights("one-node",
        "the preset for one node has no capability, so that the list has only the pool's",
        ONE_GPU, engine(), LOCK,
           {"runAsNonRoot": False, "capabilities": {"add": ["IPC_LOCK"]}}),
    Rights("privileged", "a privileged container must allow privilege escalation, which presets deny", DATA, engine(),
           {"privileged": True}, {"allowPrivilegeEscalation": True, "runAsNonRoot": False, "privileged": True}),
    Rights("said",
        "the security context of the pool takes precedence",
        ONE_GPU, engine(), {"runAsNonRoot": True}, {"runAsNonRoot": True}),
]  # fmt: skip


@pytest.mark.parametrize("case", RIGHTS, ids=lambda c: c.id)
def test_rights(case: Rights) -> None:
    asked = request(case.shape, case.engine, pool=pool(PodAdditions(security=case.given)))
    assert main(pods(asked)[0]).get("securityContext") == case.want, case.reason


ENGINES = [engine("--a b", "--c={}"), engine(image=VLLM_OLD), engine("--x='y'", image=SGLANG)]


@pytest.mark.parametrize("author", ENGINES, ids=lambda e: e.image)
def test_start_line_of_preset_precedes_own_command(author: Engine, tmp_path: Path) -> None:
    plain = pods(request(PIPELINE, author))
    gke = pods(request(PIPELINE, author, pool=between("gke-rdma", PresetInputs(networks=("rdma-0",)))))
    script = tmp_path / "set_nccl_env.sh"
    script.write_text("export SAID=so\n")
    for ours, wrapped in zip(plain, gke, strict=True):
        begin = [str(part) for part in _list(main(wrapped), "command")]
        assert begin[:2] == ["/bin/bash", "-c"]
        line, *rest = begin[2].splitlines()
        assert line == "source /usr/local/gib/scripts/set_nccl_env.sh"
        print_all = (
            'exec() { printf "%s\\n" "$SAID"; python3 -c "import json, sys; print(json.dumps(sys.argv[1:]))" "$@"; }'
        )
        said = "\n".join((f"source {script}", print_all, *rest))
        args = [str(part) for part in _list(main(wrapped), "args")]
        done = subprocess.run(
            ("/bin/bash", "-c", said, *begin[3:], *args), capture_output=True, text=True, check=True, timeout=60
        )
        first, second = done.stdout.splitlines()
        assert (first, json.loads(second)) == ("so", [*_list(main(ours), "command"), *_list(main(ours), "args")])


def _list(manifest: Manifest, path: str) -> list[JSON]:
    found = get(manifest, path)
    return found if isinstance(found, list) else []


@dataclass(frozen=True)
class Refused:
    id: str
    reason: str
    request: ServingRequest
    want: tuple[Problem, ...]


SERVING = "spec.serving[default]"
REFUSED = [
    Refused("variable", "the network preset needs its own value of the variable",
            request(PIPELINE, engine(env=({"name": "A"}, {"name": "NCCL_NET", "value": "Socket"})),
                    pool=between("coreweave-infiniband")),
            (Problem(f"{SERVING}.engine.env[1]",
                     "NCCL_NET must be left out, preset coreweave-infiniband of pool frontier sets it"),)),
    Refused("line", "KServe's own command cannot begin with another line",
            request(DATA, pool=between("gke-rdma", PresetInputs(networks=("rdma-0",)))),
            (Problem(f"{SERVING}.replicaTopology.parallelism.data",
                     "must be left out, as KServe's own command cannot begin with what preset gke-rdma "
                     "of pool frontier needs"),)),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c.id)
def test_refused(case: Refused) -> None:
    assert find_service_problems(case.request) == case.want, case.reason


def test_author_may_set_preset_variable_on_one_node() -> None:
    author = engine(env=({"name": "NCCL_NET", "value": "Socket"},))
    assert find_service_problems(request(ONE_NODE, author, pool=between("coreweave-infiniband"))) == ()

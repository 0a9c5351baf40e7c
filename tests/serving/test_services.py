"""A running service changes only if a user or the platform team has changed an input of its pods."""

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from function.kube.manifests import JSON, get, listing, mapping, text
from function.reasons import Status
from tests.serving.test_scaling import admitted
from tests.support.remote_scene import (
    ONE_NODE,
    SEVERAL_NODES,
    Edit,
    Scene,
    composed_service,
    drop_status,
    edit_environment,
    edit_model,
    edit_observed,
    edit_placement,
    edit_settings,
    load_scene,
    observed_service,
    relabel_idle_pool,
    scale,
    set_field,
)

ENGINE = "serving.0.engine"
POOL = "nodePools.0"
MIRRORED = "status.atProvider.manifest"
REVISION = edit_model("huggingFace.revision", "v2")
UNPLANNABLE = edit_placement("modelCache", {"type": "EmptyDir"})


@dataclass(frozen=True)
class Held:
    """Edits that must wait for other weights."""

    id: str
    reason: str
    edits: tuple[Edit, ...]


def _another_model(found: Scene) -> None:
    other = found.answers["model"]
    mapping(other, "metadata")["name"] = "another"
    edit_placement("modelRef", {"kind": "ClusterModel", "name": "another"})(found)
    edit_model("model.name", "org/another")(found)
    edit_model("huggingFace.repo", "org/another")(found)
    edit_model(f"{ENGINE}.args", ["--max-model-len=1"])(found)


HELD = (
    Held("revision", "the service keeps the old weights until the new ones are complete", (REVISION,)),
    Held(
        "repo-and-name",
        "edits of one request are applied together",
        (edit_model("huggingFace.repo", "a/b"), edit_model("model.name", "a/b")),
    ),
    Held(
        "image",
        "a new image may not support the old weights, so that it waits for the new ones",
        (REVISION, edit_model(f"{ENGINE}.image", "vllm:v9")),
    ),
    Held(
        "args",
        "new arguments may not fit the old weights, so that they wait for the new ones",
        (REVISION, edit_model(f"{ENGINE}.args", ["--max-model-len=1"])),
    ),
    Held(
        "pool-labels",
        "other edits wait for the new weights as well",
        (REVISION, edit_environment(f"{POOL}.labels.a", "b")),
    ),
    Held("model-ref", "another model waits for its weights as another revision does", (_another_model,)),
    Held(
        "unplannable",
        "the service stays unchanged if the new weights cannot be planned",
        (UNPLANNABLE, edit_model(f"{ENGINE}.image", "vllm:v9")),
    ),
    Held(
        "unplannable-name",
        "no other edit is applied if the new weights cannot be planned",
        (UNPLANNABLE, edit_model("model.name", "a/b")),
    ),
)


@pytest.mark.parametrize("case", HELD, ids=lambda case: case.id)
def test_keeps_service_while_new_revision_downloads(case: Held) -> None:
    rest = load_scene(SEVERAL_NODES)
    assert composed_service(rest.edited(*case.edits)) == observed_service(rest), case.reason
    grown = rest.edited(*case.edits, edit_placement("replicas", 3))
    replicas = 1 if case.id == "pool-labels" else 3
    assert composed_service(grown) == scale(observed_service(rest), replicas), (
        "the number of replicas does not wait for weights, except on other nodes"
    )


def _lose_weights(found: Scene) -> None:
    """The claim was deleted and made again, and the Job that fills it has only begun."""
    set_field(found.xr, "status.storage", None)
    for key in [key for key in found.observed if key.startswith("job-")]:
        set_field(found.observed[key], f"{MIRRORED}.status", {"active": 1})


@pytest.mark.parametrize("edit", [edit_model(f"{ENGINE}.image", "vllm:v9"), edit_model(f"{ENGINE}.args", ["--seed=4"])])
def test_edit_waits_while_weights_are_downloaded_again(edit: Edit) -> None:
    """Histories, seed 381619: new pods would read an empty claim, and pods that still run have the weights."""
    rest = load_scene(SEVERAL_NODES)
    lost = rest.edited(_lose_weights, edit)
    assert composed_service(lost) == observed_service(rest)
    assert composed_service(lost.edited(edit_placement("replicas", 3))) == scale(observed_service(rest), 3)
    assert composed_service(_downloaded(lost)) == composed_service(rest.edited(edit)) != observed_service(rest)


def test_applies_edit_together_with_its_weights() -> None:
    found = load_scene(SEVERAL_NODES).edited(REVISION, edit_model(f"{ENGINE}.image", "vllm:v9"))
    assert composed_service(_downloaded(found)) != observed_service(found)
    assert "vllm:v9" in str(composed_service(_downloaded(found)))


def _downloaded(found: Scene) -> Scene:
    """Return the scene in which every Job is Complete that is composed now."""
    settled = found.settled()
    done: JSON = [{"type": "Complete", "status": "True"}]
    for key, manifest in settled.observed.items():
        if key.startswith("job-"):
            job = {**mapping(manifest, "spec.forProvider.manifest"), "status": {"conditions": done}}
            manifest["status"] = {"atProvider": {"manifest": job}}
    return settled


DERIVED: tuple[tuple[str, str, Edit], ...] = (
    ("disk", SEVERAL_NODES, edit_model("resources.disk", "1500Gi")),
    ("no-disk", SEVERAL_NODES, edit_model("resources.disk", None)),
    ("vram", ONE_NODE, edit_model("resources.vram", "200Gi")),
    ("disk-on-one-node", ONE_NODE, edit_model("resources.disk", "200Gi")),
    ("pool-memory", SEVERAL_NODES, edit_environment(f"{POOL}.capabilities.memoryPerGpu", "192Gi")),
    ("pool-count", SEVERAL_NODES, edit_environment(f"{POOL}.maxNodeCount", 9)),
    ("requires", SEVERAL_NODES, edit_model("serving.0.replicaTopology.requires.memoryPerGpu", "100Gi")),
    ("image-of-jobs", SEVERAL_NODES, edit_settings("storageInitializerImage", "mirror/init:v1")),
    ("download-env", SEVERAL_NODES, edit_settings("download.env", [{"name": "HF_ENDPOINT", "value": "http://hub"}])),
    ("download-here", SEVERAL_NODES, edit_environment("storage.download.resources", {"requests": {"memory": "64Gi"}})),
    ("deadline", ONE_NODE, edit_settings("download.activeDeadlineSeconds", 60)),
    ("class", SEVERAL_NODES, edit_environment("storage.storageClassName", "other")),
    ("kserve-namespace", SEVERAL_NODES, edit_environment("kserve.namespace", "elsewhere")),
    ("watch", SEVERAL_NODES, edit_settings("objectWatch", True)),
)


@pytest.mark.parametrize(("story", "edit"), [row[1:] for row in DERIVED], ids=[row[0] for row in DERIVED])
def test_derived_values_restart_nothing(story: str, edit: Edit) -> None:
    rest = load_scene(story)
    assert composed_service(rest.edited(edit)) == observed_service(rest)


@dataclass(frozen=True)
class Input:
    """An input of the pods, and the text that the service must contain at once."""

    id: str
    story: str
    edit: Edit
    shown: str


HUB: JSON = [{"name": "HF_ENDPOINT", "value": "http://hub.internal"}]
INPUTS = (
    Input("served-name", SEVERAL_NODES, edit_model("model.name", "org/other"), "org/other"),
    Input("image", SEVERAL_NODES, edit_model(f"{ENGINE}.image", "vllm/vllm-openai:v0.16.0"), "v0.16.0"),
    Input("args", SEVERAL_NODES, edit_model(f"{ENGINE}.args", ["--max-num-seqs=7"]), "--max-num-seqs=7"),
    Input("env", SEVERAL_NODES, edit_model(f"{ENGINE}.env", [{"name": "A", "value": "b-c"}]), "b-c"),
    Input("cpu", SEVERAL_NODES, edit_model("resources.cpu", "17"), "'17'"),
    Input("engine-cpu", SEVERAL_NODES, edit_model(f"{ENGINE}.resources.cpu", "19"), "'19'"),
    Input(
        "disk-of-node",
        ONE_NODE,
        edit_model(f"{ENGINE}.resources.ephemeralStorage", "9Gi"),
        "'ephemeral-storage': '9Gi'",
    ),
    Input("shared-memory", SEVERAL_NODES, edit_model(f"{ENGINE}.resources.shm", "33Gi"), "'sizeLimit': '33Gi'"),
    Input("shared-memory-of-one", ONE_NODE, edit_model(f"{ENGINE}.resources.shm", "5Gi"), "'sizeLimit': '5Gi'"),
    Input("memory", SEVERAL_NODES, edit_model("resources.memory", "17Gi"), "17Gi"),
    Input(
        "pods-apart",
        SEVERAL_NODES,
        edit_model("serving.0.replicaTopology.placement.podsAcrossNodes", "preferred"),
        "'weight': 100, 'podAffinityTerm': {'labelSelector': {'matchLabels': {'modelplane.ai/service': "
        "'kimi-k2-4e23e0cb-3fafcaa9'}}, 'matchLabelKeys'",
    ),
    Input(
        "replicas-apart",
        ONE_NODE,
        edit_model("serving.0.replicaTopology.placement.replicasAcrossNodes", "required"),
        "requiredDuringScheduling",
    ),
    Input("gpus", ONE_NODE, edit_placement("topology", {"nodes": 1, "gpusPerNode": 2}), "'nvidia.com/gpu': '2'"),
    Input(
        "parallelism",
        SEVERAL_NODES,
        edit_placement("topology.parallelism.expert", "disabled"),
        "'parallelism': {'tensor': 8, 'pipeline': 2}",
    ),
    Input("labels", SEVERAL_NODES, relabel_idle_pool({"zone": "z-1"}), "z-1"),
    Input("taints", SEVERAL_NODES, edit_environment(f"{POOL}.taints", [{"key": "k-1", "effect": "NoSchedule"}]), "k-1"),
    Input("gpu-resource", SEVERAL_NODES, edit_environment(f"{POOL}.gpuResource", "amd.com/gpu"), "amd.com/gpu"),
    Input("prefix", SEVERAL_NODES, edit_environment("kserve.configPrefix", "other-"), "other-config-llm"),
    Input("no-prefix", SEVERAL_NODES, edit_environment("kserve.configPrefix", ""), "'name': 'config-llm"),
    Input("initializer-image", ONE_NODE, edit_settings("storageInitializerImage", "mirror/init:v1"), "mirror/init:v1"),
    Input(
        "initializer-pin", ONE_NODE, edit_environment("storage.download.image", "kserve/storage-initializer:v9"), ":v9"
    ),
    Input("initializer-memory", ONE_NODE, edit_settings("download.resources.requests.memory", "3Gi"), "3Gi"),
    Input("initializer-env", ONE_NODE, edit_settings("download.env", HUB), "hub.internal"),
    Input(
        "own-variable",
        ONE_NODE,
        edit_settings("download.env", [{"name": "HF_XET_NUM_CONCURRENT_RANGE_GETS", "value": "1"}]),
        "'HF_XET_NUM_CONCURRENT_RANGE_GETS', 'value': '1'",
    ),
    Input("token", ONE_NODE, edit_environment("storage.download.tokenSecretName", "there"), "'name': 'there'"),
    Input("patterns", ONE_NODE, edit_model("huggingFace.allowPatterns", ["*.x"]), "*.x"),
    Input("revision-in-pods", ONE_NODE, edit_model("huggingFace.revision", "v2"), ":v2"),
)


@pytest.mark.parametrize("story", [ONE_NODE, SEVERAL_NODES])
def test_removed_shared_memory_returns_to_default(story: str) -> None:
    asked = load_scene(story).edited(edit_model(f"{ENGINE}.resources.shm", "33Gi")).settled()
    assert (
        composed_service(asked.edited(edit_model(f"{ENGINE}.resources.shm", None)))["spec"]
        == observed_service(load_scene(story))["spec"]
    )


@pytest.mark.parametrize("case", INPUTS, ids=lambda case: case.id)
def test_requested_changes_reach_pods(case: Input) -> None:
    rest = load_scene(case.story)
    assert case.shown not in str(observed_service(rest)), "the service must not contain the text before the edit"
    edited = rest.edited(case.edit)
    assert case.shown in str(composed_service(edited))
    assert composed_service(edited.settled()) == composed_service(edited), (
        "the edited service must not change again in the next call"
    )


def test_disabled_gateway_changes_service() -> None:
    closed = composed_service(load_scene(ONE_NODE).edited(edit_environment("kserve.gateway", False)))
    assert "router" not in mapping(closed, "spec")


def test_keeps_pods_when_an_argument_only_repeats_the_weights() -> None:
    rest = load_scene(SEVERAL_NODES)
    (profile,) = listing(rest.answers["model"], "spec.serving")
    args = get(profile, "engine.args")
    assert isinstance(args, list)
    repeated: list[JSON] = ["--model", "moonshotai/Kimi-K2-Instruct", *args]
    found = composed_service(rest.edited(edit_model(f"{ENGINE}.args", repeated)))
    assert found["spec"] == observed_service(rest)["spec"], (
        "the spec does not change if an argument repeats the default model"
    )
    assert found["metadata"] != observed_service(rest)["metadata"], "the service carries the new digest"


SIZES = st.none() | st.integers(600, 9000).map("{}Gi".format)
TEXTS = st.text("abc", min_size=1, max_size=5)
ANYTHING_ELSE = {
    "disk": st.builds(edit_model, st.just("resources.disk"), SIZES),
    "vram": st.builds(edit_model, st.just("resources.vram"), SIZES),
    "pool": st.builds(
        edit_environment, st.just(f"{POOL}.capabilities.memoryPerGpu"), st.sampled_from(["141Gi", "192Gi"])
    ),
    "pools": st.builds(
        edit_environment, st.just("nodePools.1"), TEXTS.map(lambda name: {"name": name, "maxNodeCount": 3})
    ),
    "class": st.builds(edit_environment, st.just("storage.storageClassName"), TEXTS),
    "here": st.builds(
        edit_environment, st.just("storage.download.env"), TEXTS.map(lambda v: [{"name": "A", "value": v}])
    ),
    "image": st.builds(edit_settings, st.just("storageInitializerImage"), TEXTS),
    "resources": st.builds(edit_settings, st.just("download.resources.requests.memory"), SIZES.filter(bool)),
    "deadline": st.builds(edit_settings, st.just("download.activeDeadlineSeconds"), st.integers(60, 10**6)),
    "watch": st.builds(edit_settings, st.just("objectWatch"), st.booleans()),
}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits=st.fixed_dictionaries({}, optional=ANYTHING_ELSE), replicas=st.integers(1, 2))
def test_only_replicas_follow_inputs_outside_the_digest(edits: dict[str, Edit], replicas: int) -> None:
    rest = load_scene(SEVERAL_NODES)
    found = rest.edited(*edits.values(), edit_placement("replicas", replicas))
    assert composed_service(found) == scale(observed_service(rest), replicas)


def test_keeps_previous_weights_while_service_state_is_unknown() -> None:
    rest = load_scene(SEVERAL_NODES)
    restored = rest.edited(drop_status("service-"), REVISION).outcome()
    for prefix in ("claim-", "job-"):
        before = {key for key in rest.observed if key.startswith(prefix)}
        assert before <= restored.composed.keys(), "the previous weights stay, because the service may read them"


def test_deletes_unserved_weights_once_status_has_new_plan() -> None:
    """Until then, an earlier call may have composed an unobserved service that reads them."""
    found = load_scene(SEVERAL_NODES).edited(REVISION)
    for key in [key for key in found.observed if key.startswith("service-")]:
        del found.observed[key]
    assert found.composed("claim-").keys() & found.observed.keys()
    set_field(found.xr, "status.storage.uri", get(found.outcome().status, "storage.uri"))
    claims = found.composed("claim-")
    assert len(claims) == 1
    assert not claims.keys() & found.observed.keys(), "weights without a consumer are deleted"
    assert text(next(iter(claims.values())), "kind") == "PersistentVolumeClaim"


def _conditions(found: Scene, **said: str) -> None:
    """Let the service's own conditions say something else."""
    (service,) = (m for key, m in found.observed.items() if key.startswith("service-"))
    for condition in listing(service, "status.atProvider.manifest.status.conditions"):
        condition["status"] = said.get(text(condition, "type"), condition["status"])


def _down(found: Scene) -> None:
    _conditions(found, Ready="False", WorkloadsReady="False")


def _not_combined(found: Scene) -> None:
    _conditions(found, Ready="False", PresetsCombined="False")


def _never_served(found: Scene) -> None:
    mapping(found.xr, "status")["served"] = False


def _refused(found: Scene) -> None:
    (service,) = (m for key, m in found.observed.items() if key.startswith("service-"))
    for condition in listing(service, "status.conditions"):
        if condition["type"] == "Synced":
            condition.update({"status": "False", "message": "admission webhook denied the request"})


def _knows_no_field(found: Scene) -> None:
    message = ".spec.worker.x: field not declared in schema"
    edit_observed("service-", "status.conditions", [{"type": "Synced", "status": "False", "message": message}])(found)


@pytest.mark.parametrize(
    ("reason", "edits", "stays"),
    [
        ("a service without status stays, as after a restored backup", [drop_status("service-")], True),
        (
            "a service without status stays, even if it is not known to have served",
            [drop_status("service-"), _never_served],
            True,
        ),
        ("a service that is up stays, even if its status does not say yet that it has served", [_never_served], True),
        ("a service that is down stays if it has served before", [_down], True),
        (
            "a service that never came up is updated, because the changed value may be the cause",
            [_down, _never_served],
            False,
        ),
        ("a service that the cluster refused is updated, because no pod runs with its spec", [_refused], False),
        ("a service without pods is updated, because KServe cannot combine its presets", [_not_combined], False),
        (
            "a service with a field that the cluster lacks is updated, because no pod runs with its spec",
            [_knows_no_field],
            False,
        ),
    ],
)
def test_rebuilds_service_that_has_no_pods(reason: str, edits: list[Edit], stays: bool) -> None:  # a row
    rest = load_scene(SEVERAL_NODES).edited(*edits)
    found = composed_service(rest.edited(edit_model("resources.disk", "1500Gi")))
    assert (found == observed_service(rest)) == stays, reason


def test_keeps_service_when_new_one_is_invalid() -> None:
    rest = load_scene(SEVERAL_NODES)
    split = edit_model(f"{ENGINE}.args", ["--tensor-parallel-size=8"])
    narrower: JSON = {"nodes": 2, "gpusPerNode": 4, "parallelism": {"tensor": 4, "pipeline": 2}}
    refused = rest.edited(split, edit_placement("topology", narrower), edit_placement("replicas", 2))
    assert composed_service(refused) == observed_service(rest), "two replicas of the new shape are requested"
    assert refused.condition("ServiceAccepted").reason == "Rejected"


def _without_service(found: Scene) -> None:
    for key in [key for key in found.observed if key.startswith("service-")]:
        del found.observed[key]


@pytest.mark.parametrize(
    ("edits", "reason", "message"),
    [
        ([], "Applying", "The service is being created"),
        ([REVISION], "WaitingForStorage", "The service is created once its weights are ready"),
        ([UNPLANNABLE], "WaitingForStorage", "The service is created once its weights are ready"),
        ([admitted(0)], "WaitingForAdmission", "The service is created once the placement is admitted"),
        ([admitted(0), REVISION], "WaitingForAdmission", "The service is created once the placement is admitted"),
        (
            [edit_observed("claim-", f"{MIRRORED}.spec.accessModes", ["ReadWriteOnce"])],
            "WaitingForStorage",
            "The service is not created, because its pods cannot all mount the claim",
        ),
    ],
)
def test_reports_why_service_is_not_composed(edits: list[Edit], reason: str, message: str) -> None:
    found = load_scene(SEVERAL_NODES).edited(_without_service, *edits)
    accepted = found.condition("ServiceAccepted")
    assert (accepted.status, accepted.reason, accepted.message) == (Status.FALSE, reason, message)
    assert bool(found.composed()) == (reason == "Applying"), "the service is composed exactly if the condition says so"


ANOTHER_GROUP = edit_placement("topology", {"nodes": 3, "gpusPerNode": 8, "parallelism": {"tensor": 8, "pipeline": 3}})


@pytest.mark.parametrize(
    ("reason", "edits"),
    [
        ("the service waits for new weights", [REVISION]),
        ("the service waits for new weights of another group", [REVISION, ANOTHER_GROUP]),
        ("the new weights cannot be planned", [UNPLANNABLE]),
    ],
)
def test_reapplies_waiting_service_over_seen_version(reason: str, edits: list[Edit]) -> None:
    rest = load_scene(SEVERAL_NODES).edited(edit_observed("service-", "metadata.resourceVersion", "7"))
    (repeated,) = (m for key, m in rest.edited(*edits).outcome().composed.items() if key.startswith("service-"))
    assert mapping(repeated.manifest, "spec.forProvider.manifest") == observed_service(rest), reason
    assert get(repeated.manifest, "metadata.resourceVersion") == "7", (
        "the resourceVersion is set, because another call may have changed the service since"
    )


@pytest.mark.parametrize("edits", [[REVISION], [UNPLANNABLE]], ids=["other-bytes", "unplannable"])
def test_reapplies_weights_over_seen_version(edits: list[Edit]) -> None:
    rest = load_scene(SEVERAL_NODES).edited(edit_observed("", "metadata.resourceVersion", "7"))
    composed = rest.edited(*edits).outcome().composed
    stay = {key for key in rest.observed if key.startswith(("claim-", "job-"))}
    assert {get(composed[key].manifest, "metadata.resourceVersion") for key in stay} == {"7"}


@pytest.mark.parametrize(
    ("reason", "edits", "version"),
    [
        ("a service at rest needs no resourceVersion, because every call composes the same", [], None),
        ("an edited service is written only over the observed version", [edit_model(f"{ENGINE}.args", ["--x=7"])], "7"),
        (
            "a service that keeps its observed values is written only over the observed version",
            [edit_model("resources.disk", "1500Gi")],
            "7",
        ),
        ("a service is scaled only over the observed version", [edit_placement("replicas", 2)], "7"),
        (
            "a service that never came up is updated only over the observed version, as it may serve now",
            [_down, _never_served, edit_model("resources.disk", "1500Gi")],
            "7",
        ),
    ],
)
def test_changes_service_only_over_seen_version(reason: str, edits: list[Edit], version: str | None) -> None:
    """Histories, seed 1789: with lists three seconds late two startup budgets took turns for ever."""
    rest = load_scene(SEVERAL_NODES).edited(edit_observed("service-", "metadata.resourceVersion", "7"))
    (kept,) = (m for key, m in rest.edited(*edits).outcome().composed.items() if key.startswith("service-"))
    assert get(kept.manifest, "metadata.resourceVersion") == version, reason


def test_without_preload_service_waits_only_for_claim() -> None:
    def unmade(found: Scene) -> None:
        for key in [key for key in found.observed if key.startswith("service-")]:
            del found.observed[key]

    first = load_scene("bring-your-own-claim").edited(edit_placement("modelCache.preload", False), unmade)
    assert first.composed(), "the service is composed if the claim exists"
    assert not first.edited(drop_status("claim-")).composed(), (
        "the service is not composed before the claim is observed"
    )

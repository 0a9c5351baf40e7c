"""A running service changes only when the user asked for something that its pods must see."""

import copy
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from function.domain.settings import INITIALIZER_IMAGE
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from tests.lifecycle.scene import (
    ONE_NODE,
    SEVERAL_NODES,
    Edit,
    Scene,
    at_rest,
    defaults,
    environment,
    model,
    placement,
    without_status,
)

ENGINE = "serving.0.engine"
POOL = "nodePools.0"
_SCENES: dict[str, Scene] = {}


def scene(story: str) -> Scene:
    """Return an example at rest, made once."""
    if story not in _SCENES:
        _SCENES[story] = at_rest(story)
    return _SCENES[story]


def running(found: Scene) -> Manifest:
    """Return the one service that is observed."""
    (service,) = (m for key, m in found.observed.items() if key.startswith("service-"))
    return copy.deepcopy(mapping(service, "spec.forProvider.manifest"))


def only(found: Scene) -> Manifest:
    """Return the one service that is composed."""
    (service,) = found.composed().values()
    return service


def scaled(service: Manifest, replicas: int) -> Manifest:
    """Return a service with another number of replicas."""
    return {**service, "spec": {**mapping(service, "spec"), "replicas": replicas}}


REVISION = model("huggingFace.revision", "v2")
UNPLANNABLE = environment("storage", None)


@dataclass(frozen=True)
class Held:
    """Edits that must wait for other bytes."""

    id: str
    reason: str
    edits: tuple[Edit, ...]


def _another_model(found: Scene) -> None:
    other = found.answers["model"]
    mapping(other, "metadata")["name"] = "another"
    placement("modelRef", {"kind": "ClusterModel", "name": "another"})(found)
    model("model.name", "org/another")(found)
    model("huggingFace.repo", "org/another")(found)
    model(f"{ENGINE}.args", ["--max-model-len=1"])(found)


HELD = (
    Held("revision", "the old bytes serve until the new ones are there", (REVISION,)),
    Held("repo-and-name", "one edit is taken as one", (model("huggingFace.repo", "a/b"), model("model.name", "a/b"))),
    Held("image", "an image for other weights may not read these", (REVISION, model(f"{ENGINE}.image", "vllm:v9"))),
    Held("args", "so may arguments", (REVISION, model(f"{ENGINE}.args", ["--max-model-len=1"]))),
    Held("pool-labels", "whatever else is edited comes along", (REVISION, environment(f"{POOL}.labels.a", "b"))),
    Held("model-ref", "another model is nothing but other bytes under another name", (_another_model,)),
    Held("unplannable", "what cannot be planned is not there", (UNPLANNABLE, model(f"{ENGINE}.image", "vllm:v9"))),
    Held("unplannable-name", "nor is anything else taken then", (UNPLANNABLE, model("model.name", "a/b"))),
)


@pytest.mark.parametrize("case", HELD, ids=lambda case: case.id)
def test_a_service_serves_on_unchanged_until_other_bytes_are_there(case: Held) -> None:
    rest = scene(SEVERAL_NODES)
    assert only(rest.edited(*case.edits)) == running(rest), case.reason
    grown = rest.edited(*case.edits, placement("replicas", 3))
    assert only(grown) == scaled(running(rest), 3), "replicas are no matter of bytes"


def test_an_edit_arrives_with_its_bytes() -> None:
    found = scene(SEVERAL_NODES).edited(REVISION, model(f"{ENGINE}.image", "vllm:v9"))
    assert only(_downloaded(found)) != running(found)
    assert "vllm:v9" in str(only(_downloaded(found)))


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
    ("disk", SEVERAL_NODES, model("resources.disk", "1500Gi")),
    ("no-disk", SEVERAL_NODES, model("resources.disk", None)),
    ("vram", ONE_NODE, model("resources.vram", "200Gi")),
    ("disk-on-one-node", ONE_NODE, model("resources.disk", "200Gi")),
    ("pool-memory", SEVERAL_NODES, environment(f"{POOL}.capabilities.memoryPerGpu", "192Gi")),
    ("pool-count", SEVERAL_NODES, environment(f"{POOL}.maxNodeCount", 9)),
    ("requires", SEVERAL_NODES, model("serving.0.replicaTopology.requires.memoryPerGpu", "100Gi")),
    ("image-of-jobs", SEVERAL_NODES, defaults("storageInitializerImage", "mirror/init:v1")),
    ("download-env", SEVERAL_NODES, defaults("download.env", [{"name": "HF_ENDPOINT", "value": "http://hub"}])),
    ("download-here", SEVERAL_NODES, environment("storage.download.resources", {"requests": {"memory": "64Gi"}})),
    ("deadline", ONE_NODE, defaults("download.activeDeadlineSeconds", 60)),
    ("class", SEVERAL_NODES, environment("storage.storageClassName", "other")),
    ("kserve-namespace", SEVERAL_NODES, environment("kserve.namespace", "elsewhere")),
    ("watch", SEVERAL_NODES, defaults("objectWatch", True)),
)


@pytest.mark.parametrize(("story", "edit"), [row[1:] for row in DERIVED], ids=[row[0] for row in DERIVED])
def test_what_is_derived_restarts_nothing(story: str, edit: Edit) -> None:
    rest = scene(story)
    assert only(rest.edited(edit)) == running(rest)


@dataclass(frozen=True)
class Wished:
    """A field of somebody's own, and what of it the service must show at once."""

    id: str
    story: str
    edit: Edit
    shown: str


HUB: JSON = [{"name": "HF_ENDPOINT", "value": "http://hub.internal"}]
WISHED = (
    Wished("served-name", SEVERAL_NODES, model("model.name", "org/other"), "org/other"),
    Wished("image", SEVERAL_NODES, model(f"{ENGINE}.image", "vllm/vllm-openai:v0.16.0"), "v0.16.0"),
    Wished("args", SEVERAL_NODES, model(f"{ENGINE}.args", ["--max-num-seqs=7"]), "--max-num-seqs=7"),
    Wished("env", SEVERAL_NODES, model(f"{ENGINE}.env", [{"name": "A", "value": "b-c"}]), "b-c"),
    Wished("cpu", SEVERAL_NODES, model("resources.cpu", "17"), "'17'"),
    Wished("memory", SEVERAL_NODES, model("resources.memory", "17Gi"), "17Gi"),
    Wished(
        "pods-apart",
        SEVERAL_NODES,
        model("serving.0.replicaTopology.placement.podsAcrossNodes", "preferred"),
        "'weight': 100, 'podAffinityTerm': {'labelSelector': {'matchLabels': {'modelplane.ai/service': "
        "'kimi-k2-4e23e0cb-3fafcaa9'}}, 'matchLabelKeys'",
    ),
    Wished(
        "replicas-apart",
        ONE_NODE,
        model("serving.0.replicaTopology.placement.replicasAcrossNodes", "required"),
        "requiredDuringScheduling",
    ),
    Wished("gpus", ONE_NODE, placement("topology", {"nodes": 1, "gpusPerNode": 2}), "'nvidia.com/gpu': '2'"),
    Wished(
        "parallelism",
        SEVERAL_NODES,
        placement("topology.parallelism.expert", "disabled"),
        "'parallelism': {'tensor': 8, 'pipeline': 2}",
    ),
    Wished("labels", SEVERAL_NODES, environment(f"{POOL}.labels.zone", "z-1"), "z-1"),
    Wished("taints", SEVERAL_NODES, environment(f"{POOL}.taints", [{"key": "k-1", "effect": "NoSchedule"}]), "k-1"),
    Wished("gpu-resource", SEVERAL_NODES, environment(f"{POOL}.gpuResource", "amd.com/gpu"), "amd.com/gpu"),
    Wished("prefix", SEVERAL_NODES, environment("kserve.configPrefix", "other-"), "other-config-llm"),
    Wished("no-prefix", SEVERAL_NODES, environment("kserve.configPrefix", ""), "'name': 'config-llm"),
    Wished("initializer-image", ONE_NODE, defaults("storageInitializerImage", "mirror/init:v1"), "mirror/init:v1"),
    Wished("initializer-pin", ONE_NODE, environment("storage.download.image", "kserve/storage-initializer:v9"), ":v9"),
    Wished("initializer-memory", ONE_NODE, defaults("download.resources.requests.memory", "3Gi"), "3Gi"),
    Wished("initializer-env", ONE_NODE, defaults("download.env", HUB), "hub.internal"),
    Wished(
        "own-variable",
        ONE_NODE,
        defaults("download.env", [{"name": "HF_XET_NUM_CONCURRENT_RANGE_GETS", "value": "1"}]),
        "'HF_XET_NUM_CONCURRENT_RANGE_GETS', 'value': '1'",
    ),
    Wished("token", ONE_NODE, environment("storage.download.tokenSecretName", "there"), "'name': 'there'"),
    Wished("patterns", ONE_NODE, model("huggingFace.allowPatterns", ["*.x"]), "*.x"),
    Wished("revision-in-pods", ONE_NODE, model("huggingFace.revision", "v2"), ":v2"),
)


@pytest.mark.parametrize("case", WISHED, ids=lambda case: case.id)
def test_what_is_asked_for_reaches_the_pods(case: Wished) -> None:
    rest = scene(case.story)
    assert case.shown not in str(running(rest)), "it must be news"
    wished = rest.edited(case.edit)
    assert case.shown in str(only(wished))
    assert only(wished.settled()) == only(wished), "and stays"


def test_no_gateway_is_a_wish() -> None:
    closed = only(scene(ONE_NODE).edited(environment("kserve.gateway", False)))
    assert "router" not in mapping(closed, "spec")


def test_a_wish_that_changes_nothing_for_pods_restarts_none() -> None:
    rest = scene(SEVERAL_NODES)
    (profile,) = listing(rest.answers["model"], "spec.serving")
    args = get(profile, "engine.args")
    assert isinstance(args, list)
    repeated: list[JSON] = ["--model", "moonshotai/Kimi-K2-Instruct", *args]
    found = only(rest.edited(model(f"{ENGINE}.args", repeated), model("resources.disk", "1500Gi")))
    assert found["spec"] == running(rest)["spec"], "the argument repeats where the weights are"
    assert found["metadata"] != running(rest)["metadata"], "and the wish is remembered"


SIZES = st.none() | st.integers(600, 9000).map("{}Gi".format)
TEXTS = st.text("abc", min_size=1, max_size=5)
ANYTHING_ELSE = {
    "disk": st.builds(model, st.just("resources.disk"), SIZES),
    "vram": st.builds(model, st.just("resources.vram"), SIZES),
    "pool": st.builds(environment, st.just(f"{POOL}.capabilities.memoryPerGpu"), st.sampled_from(["141Gi", "192Gi"])),
    "pools": st.builds(environment, st.just("nodePools.1"), TEXTS.map(lambda name: {"name": name, "maxNodeCount": 3})),
    "class": st.builds(environment, st.just("storage.storageClassName"), TEXTS),
    "here": st.builds(environment, st.just("storage.download.env"), TEXTS.map(lambda v: [{"name": "A", "value": v}])),
    "image": st.builds(defaults, st.just("storageInitializerImage"), TEXTS),
    "resources": st.builds(defaults, st.just("download.resources.requests.memory"), SIZES.filter(bool)),
    "deadline": st.builds(defaults, st.just("download.activeDeadlineSeconds"), st.integers(1, 10**6)),
    "watch": st.builds(defaults, st.just("objectWatch"), st.booleans()),
}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits=st.fixed_dictionaries({}, optional=ANYTHING_ELSE), replicas=st.integers(1, 2))
def test_nothing_but_replicas_follows_what_is_no_wish(edits: dict[str, Edit], replicas: int) -> None:
    rest = scene(SEVERAL_NODES)
    found = rest.edited(*edits.values(), placement("replicas", replicas))
    assert only(found) == scaled(running(rest), replicas)


def test_earlier_bytes_stay_while_nothing_is_known_of_the_service() -> None:
    rest = scene(SEVERAL_NODES)
    restored = rest.edited(without_status("service-"), REVISION).outcome()
    for prefix in ("claim-", "job-"):
        before = {key for key in rest.observed if key.startswith(prefix)}
        assert before <= restored.composed.keys(), "the service may read them"


def test_earlier_bytes_go_at_once_where_nothing_ever_served() -> None:
    found = scene(SEVERAL_NODES).edited(REVISION)
    for key in [key for key in found.observed if key.startswith("service-")]:
        del found.observed[key]
    claims = found.composed("claim-")
    assert len(claims) == 1
    assert not claims.keys() & found.observed.keys(), "nobody reads them"
    assert text(next(iter(claims.values())), "kind") == "PersistentVolumeClaim"


def _of_an_earlier_release(found: Scene) -> None:
    """Let what is observed be as another release would have written it: no wish, and other numbers."""
    for key, manifest in found.observed.items():
        if not key.startswith("service-"):
            continue
        for path in ("spec.forProvider.manifest", "status.atProvider.manifest"):
            service = mapping(manifest, path)
            del mapping(service, "metadata")["annotations"]
            for pod in (mapping(service, f"spec.{part}") for part in ("template", "worker")):
                _with_other_numbers(pod)


def _with_other_numbers(pod: Manifest) -> None:
    for container in listing(pod, "containers"):
        for probe in ("startupProbe", "readinessProbe"):
            if probe in container:
                mapping(container, probe)["failureThreshold"] = 99
    for volume in listing(pod, "volumes"):
        mapping(volume, "emptyDir")["sizeLimit"] = "7Gi"
    for container in listing(pod, "initContainers"):
        container["image"] = EARLIER
        mapping(container, "resources")["requests"] = {"memory": "5Gi"}
        for entry in listing(container, "env"):
            if entry["name"] == "TQDM_MININTERVAL":
                entry["value"] = "20"


EARLIER = "kserve/storage-initializer:v0.19.0"


@pytest.mark.parametrize("story", [SEVERAL_NODES, ONE_NODE])
def test_what_an_earlier_release_wrote_is_only_marked(story: str) -> None:
    rest = scene(story).edited(_of_an_earlier_release)
    marked = only(rest)
    assert marked["spec"] == running(rest)["spec"]
    assert marked["metadata"] == running(scene(story))["metadata"], "now it carries its wish"
    again = rest.settled()
    assert only(again.edited(model("resources.disk", "1500Gi"))) == marked, "and stays, as any other"


@dataclass(frozen=True)
class Upgraded:
    """An edit that comes together with the first release that knows wishes, and what must be seen of it."""

    id: str
    edit: Edit
    shown: str


UPGRADED = (
    Upgraded("args", model(f"{ENGINE}.args", ["--max-num-seqs=7"]), "--max-num-seqs=7"),
    Upgraded("image", defaults("storageInitializerImage", "kserve/storage-initializer:v0.18.0"), ":v0.18.0"),
    Upgraded("resources", defaults("download.resources", {"requests": {"memory": "3Gi"}}), "3Gi"),
    Upgraded("env", defaults("download.env", HUB), "hub.internal"),
    Upgraded("token", environment("storage.download.tokenSecretName", "there"), "'name': 'there'"),
)


@pytest.mark.parametrize("case", UPGRADED, ids=lambda case: case.id)
def test_a_wish_that_comes_with_an_upgrade_is_not_lost(case: Upgraded) -> None:
    rest = scene(ONE_NODE).edited(_of_an_earlier_release)
    assert case.shown in str(only(rest.edited(case.edit)))


def test_an_image_that_no_release_ever_pinned_does_not_stay() -> None:
    def mirrored(found: Scene) -> None:
        for key, manifest in found.observed.items():
            for container in listing(manifest, "spec.forProvider.manifest.spec.template.initContainers"):
                assert key.startswith("service-")
                container["image"] = "mirror/storage-initializer:v1"

    assert INITIALIZER_IMAGE in str(only(scene(ONE_NODE).edited(_of_an_earlier_release, mirrored)))


def test_what_a_platform_names_no_longer_goes_at_once() -> None:
    named = scene(ONE_NODE).edited(defaults("storageInitializerImage", EARLIER)).settled()
    assert EARLIER in str(only(named))
    assert INITIALIZER_IMAGE in str(only(named.edited(defaults("storageInitializerImage", None))))


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


@pytest.mark.parametrize(
    ("reason", "edits", "stays"),
    [
        ("nothing is known of it, as after a restored backup", [without_status("service-")], True),
        ("it served, and will again", [_down], True),
        ("it never came up, perhaps for that number", [_down, _never_served], False),
        ("the cluster refused it, so that nothing runs as written", [_refused], False),
        ("KServe cannot make pods of it", [_not_combined], False),
    ],
)
def test_only_what_may_run_is_spared(reason: str, edits: list[Edit], stays: bool) -> None:  # a row
    rest = scene(SEVERAL_NODES).edited(*edits)
    found = only(rest.edited(model("resources.disk", "1500Gi")))
    assert (found == running(rest)) == stays, reason

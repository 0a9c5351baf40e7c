"""Scaling a service down, to zero and up, while references are missing and while KServe waits."""

import copy
from dataclasses import dataclass

import pytest

from function.kube.manifests import JSON, get, text
from function.reasons import Status
from tests.support.remote_scene import (
    ONE_NODE,
    SEVERAL_NODES,
    Edit,
    Scene,
    build_scene,
    composed_service,
    edit_environment,
    edit_model,
    edit_observed,
    edit_placement,
    load_scene,
    remote_manifests,
    scale,
    set_field,
)

NO_MODEL = edit_model("serving", [])
NO_PROFILE = edit_model("serving.0.replicaTopology.parallelism", {"tensor": 3})
NO_POOL = edit_environment("nodePools.0.acceleratorCount", "x")
NO_ENVIRONMENT = edit_environment("storage.storageClassName", 7)
MISSING = pytest.mark.parametrize(
    "missing", [NO_MODEL, NO_PROFILE, NO_POOL, NO_ENVIRONMENT], ids=["model", "profile", "pool", "environment"]
)
REVISION = edit_model("huggingFace.revision", "v2")
LARGER = edit_placement("topology", {"nodes": 3, "gpusPerNode": 8, "parallelism": {"tensor": 8, "pipeline": 3}})


def runs(replicas: int) -> Edit:
    """Let the service have so many replicas, and say that it takes them."""

    def edit(found: Scene) -> None:
        for path in ("spec.forProvider", "status.atProvider"):
            edit_observed("service-", f"{path}.manifest.spec.replicas", replicas)(found)
        set_field(found.xr, "status.service.replicas", replicas)
        set_field(found.xr, "status.gpus", replicas * 16)

    return edit


@MISSING
@pytest.mark.parametrize("asks", [1, 0])
def test_scales_down_while_a_reference_is_missing(missing: Edit, asks: int) -> None:
    there = load_scene(SEVERAL_NODES).edited(runs(3))
    held = there.edited(missing, edit_placement("replicas", asks))
    assert held.condition("ReferencesResolved").status is Status.FALSE
    before, after = there.edited(missing).composed(), held.composed()
    assert after == {key: scale(service, asks) for key, service in before.items()}
    status = held.outcome().status
    assert (get(status, "service.replicas"), status["gpus"]) == (3, 48), "the replicas still run on the cluster"
    confirmed = (
        held.edited(edit_observed("service-", "status.atProvider.manifest.spec.replicas", asks)).outcome().status
    )
    assert (get(confirmed, "service.replicas"), confirmed["gpus"]) == (asks, asks * 16), (
        "replicas that are gone are not charged"
    )
    assert held.condition("ServiceReady").reason == ("Serving" if asks else "ScaledToZero")
    assert held.outcome().ready is None


@MISSING
def test_scales_up_only_when_references_resolve(missing: Edit) -> None:
    there = load_scene(SEVERAL_NODES).edited(runs(1), missing)
    more = there.edited(edit_placement("replicas", 3))
    assert more.composed() == there.composed()
    assert get(more.outcome().status, "service.replicas") == 1
    assert more.condition("ServiceReady").reason == "Serving", "the replica that runs serves"


@MISSING
def test_service_without_running_replicas_is_not_serving(missing: Edit) -> None:
    """KServe reports Ready for a service without replicas."""
    more = load_scene(SEVERAL_NODES).edited(runs(0), missing, edit_placement("replicas", 2))
    said = more.condition("ServiceReady")
    assert (said.status, said.reason, said.message) == (Status.FALSE, "Starting", "The service has no replicas yet")


def test_keeps_replicas_of_invalid_placement() -> None:
    faulty = load_scene(SEVERAL_NODES).edited(
        runs(3), edit_placement("topology", "two nodes"), edit_placement("replicas", 0)
    )
    assert faulty.condition("ReferencesResolved").reason == "InvalidPlacement"
    assert [get(service, "spec.replicas") for service in faulty.composed().values()] == [3]
    assert faulty.condition("ServiceReady").reason == "Serving"


@pytest.mark.parametrize(("asks", "want"), [(0, 0), (1, 3)])
def test_keeps_replicas_of_other_group_unless_scaled_to_zero(asks: int, want: int) -> None:
    """A service with the smaller group keeps its replicas while one replica of the larger group is admitted."""
    there = load_scene(SEVERAL_NODES).edited(runs(3), REVISION, LARGER, edit_placement("replicas", asks))
    assert [get(service, "spec.replicas") for service in there.composed().values()] == [want]
    confirmed = there.edited(edit_observed("service-", "status.atProvider.manifest.spec.replicas", want))
    assert get(confirmed.outcome().status, "service.replicas") == want


def test_refused_service_is_not_ready_at_zero() -> None:
    none = load_scene(SEVERAL_NODES).edited(runs(3), NO_MODEL, edit_placement("replicas", 0))
    refused = edit_observed(
        "service-", "status.atProvider.manifest.status.conditions", [{"type": "PresetsCombined", "status": "False"}]
    )
    for found, ready in ((none, True), (none.edited(refused), False)):
        assert [item.ready for key, item in found.outcome().composed.items() if key.startswith("service-")] == [ready]


def test_service_scaled_to_zero_is_ready() -> None:
    said = load_scene(SEVERAL_NODES).edited(runs(0), edit_placement("replicas", 0)).condition("ServiceReady")
    assert (said.status, said.reason) == (Status.TRUE, "ScaledToZero")


NO_ROUTES = "The following HTTPRoutes are not ready"


def waiting(type_: str) -> Edit:
    """Let KServe have combined its presets and wait for something."""
    conditions: list[JSON] = [
        {"type": "PresetsCombined", "status": "True"},
        {"type": type_, "status": "False", "message": NO_ROUTES},
        {"type": "Ready", "status": "False", "message": NO_ROUTES},
    ]

    def edit(scene: Scene) -> None:
        for key, found in scene.observed.items():
            if key.startswith("service-"):
                set_field(found, "status.atProvider.manifest.status.conditions", conditions)

    return edit


@pytest.mark.parametrize("story", [ONE_NODE, SEVERAL_NODES])
@pytest.mark.parametrize("type_", ["HTTPRoutesReady", "MainWorkloadReady"])
def test_service_at_zero_does_not_wait_for_kserve(story: str, type_: str) -> None:
    scene = build_scene(story).edited(edit_placement("replicas", 0), waiting(type_))
    serving = scene.condition("ServiceReady")
    assert (serving.status, serving.reason) == (Status.TRUE, "ScaledToZero")
    assert serving.message == f"No replicas are requested. KServe: {type_}: {NO_ROUTES}"
    outcome = scene.outcome()
    assert all(item.ready for key, item in outcome.composed.items() if key.startswith("service-"))
    assert outcome.ready is None


def test_reports_refused_service_at_zero() -> None:
    def refused(found: Scene) -> None:
        conditions: list[JSON] = [{"type": "PresetsCombined", "status": "False", "message": "no such preset"}]
        for key, manifest in found.observed.items():
            if key.startswith("service-"):
                set_field(manifest, "status.atProvider.manifest.status.conditions", conditions)

    scene = build_scene(SEVERAL_NODES).edited(edit_placement("replicas", 0), refused)
    assert scene.condition("ServiceReady").status is Status.FALSE
    assert not any(item.ready for key, item in scene.outcome().composed.items() if key.startswith("service-"))


@pytest.mark.parametrize("type_", ["HTTPRoutesReady", "MainWorkloadReady"])
def test_service_with_replicas_waits_for_kserve(type_: str) -> None:
    composed = build_scene(SEVERAL_NODES).edited(waiting(type_)).outcome().composed
    assert [item.ready for key, item in composed.items() if key.startswith("service-")] == [False]


GROUP: dict[str, JSON] = {"pool": "h200", "nodes": 2, "gpusPerNode": 8}
UNPLANNABLE = edit_placement("modelCache", {"type": "EmptyDir"})


def admitted(replicas: int) -> Edit:
    """Let the environment publish that it has admitted the placement for so many replicas of its first shape."""

    def edit(found: Scene) -> None:
        set_field(found.answers["environment"], "metadata.uid", "of-the-environment")
        row: JSON = {**GROUP, "replicas": replicas, "uid": text(found.xr, "metadata.uid")}
        set_field(found.answers["environment"], "status.admitted", [row] if replicas else [])

    return edit


def with_replicas(replicas: int) -> Edit:
    """Let the service have so many replicas; with none of them there is no service."""

    def edit(found: Scene) -> None:
        edit_observed("service-", "spec.forProvider.manifest.spec.replicas", replicas)(found)
        set_field(found.xr, "status.service", {**GROUP, "replicas": replicas, "name": "a", "namespace": "b"})
        if not replicas:
            for key in [key for key in found.observed if key.startswith("service-")]:
                del found.observed[key]
            set_field(found.xr, "status.service", None)

    return edit


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    asks: int
    admits: int
    runs: int
    want: int
    edits: tuple[Edit, ...] = ()


CASES = (
    Case("all", "all requested replicas are admitted", 3, 3, 1, 3),
    Case("some", "the service gets as many replicas as are admitted", 3, 2, 1, 2),
    Case("first", "a new service starts with the admitted replicas", 3, 2, 0, 2),
    Case("spared", "running replicas are not scaled down to the admitted number", 3, 1, 2, 2),
    Case("fewer", "fewer replicas need no admission", 1, 3, 2, 1),
    Case("none", "a service without admitted replicas is not created", 3, 0, 0, 0),
    Case("withdrawn", "a running service stays although no replicas are admitted", 3, 0, 2, 2),
    Case("withdrawn-fewer", "a running service without admitted replicas may be scaled down", 1, 0, 2, 1),
    Case("bytes", "the number of replicas follows the admission while other weights download", 3, 2, 1, 2, (REVISION,)),
    Case(
        "no-plan",
        "the number of replicas follows the admission although the weights cannot be planned",
        3,
        2,
        1,
        2,
        (UNPLANNABLE,),
    ),
    Case(
        "shape",
        "the earlier group stays and is allocated while the larger group is not admitted",
        3,
        2,
        2,
        2,
        (LARGER,),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_replicas_follow_admission(case: Case) -> None:
    edits = (with_replicas(case.runs), *case.edits, admitted(case.admits), edit_placement("replicas", case.asks))
    outcome = load_scene(SEVERAL_NODES).edited(*edits).outcome()
    services = remote_manifests(outcome, "service-").values()
    assert [get(each, "spec.replicas") for each in services] == [case.want] * bool(case.want), case.reason
    takes = {key: get(outcome.status, f"service.{key}") for key in (*GROUP, "replicas")}
    assert takes == ({**GROUP, "replicas": case.want} if case.want else dict.fromkeys(takes)), case.reason


@pytest.mark.parametrize(("admits", "version"), [(3, "7"), (2, None), (1, "7")])
def test_changes_replicas_only_over_seen_version(admits: int, version: str | None) -> None:
    """With a late list, two different observations would alternate."""
    seen = edit_observed("service-", "metadata.resourceVersion", "7")
    found = (
        load_scene(SEVERAL_NODES)
        .edited(with_replicas(2), seen, admitted(admits), edit_placement("replicas", 3))
        .outcome()
    )
    (service,) = (item.manifest for key, item in found.composed.items() if key.startswith("service-"))
    assert get(service, "metadata.resourceVersion") == version


@pytest.mark.parametrize("there", [0, 2], ids=["no-service", "service"])
def test_keeps_pull_secrets_while_service_waits(there: int) -> None:
    def pulled(found: Scene) -> None:
        found.observed["pull-a"] = copy.deepcopy(next(m for k, m in found.observed.items() if k.startswith("claim-")))
        set_field(found.observed["pull-a"], "spec.forProvider.manifest", {"kind": "Secret", "metadata": {"name": "a"}})

    waiting = load_scene(SEVERAL_NODES).edited(with_replicas(there), pulled, admitted(0))
    assert waiting.composed("pull-") == {"pull-a": {"kind": "Secret", "metadata": {"name": "a"}}}


@pytest.mark.parametrize(("ready", "allocated"), [(3, 3), (0, 1)], ids=["three-ready", "none-ready"])
def test_missing_replicas_of_the_cluster_are_not_zero(ready: int, allocated: int) -> None:
    """Another controller scales the service, so that its number of pods is known from its status alone."""
    mirror = "status.atProvider.manifest"
    scaled = load_scene(ONE_NODE).edited(edit_placement("replicas", 0)).settled()
    elsewhere = scaled.edited(
        edit_observed("service-", mirror, composed_service(scaled)),
        edit_observed("service-", f"{mirror}.spec.replicas", None),
        edit_observed("service-", f"{mirror}.status.workloads.primary.readyReplicas", ready),
    )
    assert get(elsewhere.outcome().status, "service.replicas") == allocated

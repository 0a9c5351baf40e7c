"""A placement with several services: which one serves, and which weights stay because they may be read."""

import copy

import pytest

from function.kube.manifests import JSON, get
from tests.serving.test_scaling import LARGER, admitted
from tests.support.remote_scene import (
    SEVERAL_NODES,
    Edit,
    Scene,
    edit_environment,
    edit_model,
    edit_observed,
    edit_placement,
    load_scene,
    relabel_idle_pool,
    remote_manifests,
    set_field,
)

REVISION, UNPLANNABLE = edit_model("huggingFace.revision", "v2"), edit_placement("modelCache", {"type": "EmptyDir"})
WAITING = pytest.mark.parametrize("edit", [REVISION, UNPLANNABLE, admitted(0)], ids=["bytes", "no-plan", "unadmitted"])


def beside(prefix: str, key: str, *, status: JSON = None) -> Edit:
    """Let another Object be observed that equals the one with this prefix, except for these fields."""

    def edit(found: Scene) -> None:
        (like,) = (m for name, m in found.observed.items() if name.startswith(prefix))
        found.observed[key] = copy.deepcopy(like)
        set_field(found.observed[key], "metadata.name", key)
        set_field(found.observed[key], "status", status)

    return edit


def without_service(found: Scene) -> None:
    """Let no service be observed."""
    for key in [key for key in found.observed if key.startswith("service-")]:
        del found.observed[key]


def told_of(*edits: Edit) -> Edit:
    """Let the status of the composite report the storage that it has after these edits."""
    said = get(load_scene(SEVERAL_NODES).edited(*edits).outcome().status, "storage.uri")
    return lambda found: set_field(found.xr, "status.storage.uri", said)


def never_recorded(found: Scene) -> None:
    """Let the status of the composite report no storage."""
    set_field(found.xr, "status.storage.uri", None)


def created(prefix: str, when: str) -> Edit:
    """Let the Objects with this prefix be as old as this."""
    return edit_observed(prefix, "metadata.creationTimestamp", when)


NOON, BEFORE, AFTER = "2026-11-23T12:00:00Z", "2026-11-23T11:59:59Z", "2026-11-23T12:00:01Z"
TWO = (created("service-", NOON), beside("service-", "service-a"))


def starting(found: Scene) -> None:
    """Let no service be ready."""
    edit_observed("service-", "status.atProvider.manifest.status.conditions", [])(found)


@WAITING
@pytest.mark.parametrize(
    ("edits", "stays"),
    [
        ((created("service-a", BEFORE), starting), True),
        ((created("service-a", AFTER), starting), False),
        ((created("service-a", NOON), starting), False),
        ((created("service-a", BEFORE),), False),
    ],
    ids=["older", "younger", "same-second", "older-but-not-ready"],
)
def test_keeps_one_of_two_services_while_new_one_waits(edit: Edit, edits: tuple[Edit, ...], stays: bool) -> None:
    """Histories, seed 44340: a call with a late list created a group again, beside the group that had replaced it."""
    outcome = load_scene(SEVERAL_NODES).edited(*TWO, *edits, edit).outcome()
    (kept,) = remote_manifests(outcome, "service-")
    assert (kept == "service-a") is stays, "the serving service comes first, then the older one, then the requested one"
    assert get(outcome.status, "service.replicas") == 1


def test_keeps_both_services_while_a_reference_is_missing() -> None:
    two = load_scene(SEVERAL_NODES).edited(*TWO, edit_model("serving", []))
    assert two.composed().keys() == {key for key in two.observed if key.startswith("service-")}


def test_deletes_other_service_when_new_one_is_composed() -> None:
    rest = load_scene(SEVERAL_NODES)
    assert rest.edited(*TWO).composed() == rest.composed()


def test_reports_earlier_service_while_new_one_waits() -> None:
    waiting = load_scene(SEVERAL_NODES).edited(LARGER, REVISION)
    outcome = waiting.outcome()
    assert [c.reason for c in outcome.conditions if c.type == "ServiceReady"] == ["Serving"]
    assert get(outcome.status, "service.name") == get(waiting.xr, "status.service.name")


def ended(*, recorded: bool) -> Edit:
    """Let composed Jobs be Complete, and the status of the composite report them so; or let the Jobs run."""

    def edit(found: Scene) -> None:
        set_field(found.xr, "status.storage", get(found.outcome().status, "storage"))
        for key, manifest in found.settled().observed.items():
            if key.startswith("job-"):
                found.observed[key] = manifest
                job = get(manifest, "spec.forProvider.manifest")
                assert isinstance(job, dict)
                status: JSON = {"conditions": [{"type": "Complete", "status": "True"}], "completionTime": ENDED}
                set_field(manifest, "status", {"atProvider": {"manifest": {**job, "status": status}}})
        if recorded:
            set_field(found.xr, "status.storage", get(found.outcome().status, "storage"))

    return edit


def test_deletes_other_group_once_status_has_completion() -> None:
    """The Job was deleted with its namespace, and a call that still observed the old service created it again."""
    rest = load_scene(SEVERAL_NODES)
    wanted = rest.edited(LARGER).composed().keys()
    waiting = rest.edited(LARGER, REVISION)
    assert waiting.composed().keys().isdisjoint(wanted)
    assert waiting.edited(ended(recorded=False)).composed() == waiting.composed(), (
        "the status of a Job alone does not suffice, because it may change again"
    )
    recorded = waiting.edited(ended(recorded=True))
    assert recorded.composed().keys() == wanted
    again = recorded.edited(edit_observed("job-", f"{MIRRORED}.status", {"active": 1}))
    assert again.composed() == recorded.composed(), (
        "the weights that the status of the composite records are sufficient"
    )
    unheard = waiting.edited(ended(recorded=False), lambda found: set_field(found.xr, "status.storage", None))
    assert unheard.composed() == waiting.composed(), "a call without recorded weights does not know them either (13134)"
    heard = unheard.edited(lambda found: set_field(found.xr, "status.storage", get(found.outcome().status, "storage")))
    assert heard.composed().keys() == wanted, "the status of the composite records the weights after that call"
    undated = waiting.edited(ended(recorded=False), edit_observed("job-", f"{MIRRORED}.status.completionTime", None))
    assert undated.composed().keys() == wanted, (
        "a Job without a completion time cannot be recorded, so that its status suffices"
    )


def test_same_group_does_not_wait_for_status() -> None:
    """Its Object is written over what was seen or not at all."""
    waiting = load_scene(SEVERAL_NODES).edited(REVISION)
    (before,), (after,) = (found.composed().values() for found in (waiting, waiting.edited(ended(recorded=False))))
    assert get(before, "spec.model.uri") != get(after, "spec.model.uri")


MIRRORED = "status.atProvider.manifest"
ENDED = "2026-11-23T12:00:00Z"
DOWN: JSON = [{"type": "Ready", "status": "False"}]
UNANSWERED: JSON = [{"type": "Synced", "status": "False", "message": "dial tcp: i/o timeout"}]


def test_does_not_move_while_its_cluster_does_not_answer() -> None:
    """It would have GPUs in both places, and the ledger would know of one (a history with relabelled pools, 86497)."""
    moved = relabel_idle_pool({"pool": "other-nodes"})
    silent = edit_observed("service-", "status.conditions", UNANSWERED)
    rest = load_scene(SEVERAL_NODES)
    (before,), (after,) = (found.composed().values() for found in (rest, rest.edited(moved)))
    assert get(before, "spec.template.nodeSelector") != get(after, "spec.template.nodeSelector")
    (kept,) = rest.edited(moved, silent).composed().values()
    assert kept == before


@pytest.mark.parametrize(
    ("edits", "stay", "reason"),
    [
        ((), False, "the only service is up with the planned weights"),
        ((without_service,), True, "this call composes the service, which may exist unobserved"),
        (
            (without_service, REVISION),
            True,
            "an earlier call may have composed an unobserved service that reads the weights (6168)",
        ),
        (
            (without_service, REVISION, told_of(REVISION)),
            False,
            "the status would report a service that reads the earlier weights",
        ),
        (
            (without_service, REVISION, never_recorded),
            False,
            "no weights were planned before, so that no service was composed",
        ),
        ((LARGER,), True, "a service of another group may exist unobserved"),
        ((REVISION,), True, "the planned weights are still downloading"),
        ((UNPLANNABLE,), True, "the requested weights are unknown"),
        (
            (edit_observed("service-", f"{MIRRORED}.spec.model.uri", "pvc://claim-earlier/models/0"),),
            True,
            "the service still reads the earlier weights",
        ),
        (
            (edit_observed("service-", f"{MIRRORED}.status.conditions", DOWN),),
            True,
            "the service has moved to the planned weights, but is not up",
        ),
        (
            (edit_observed("service-", "status.conditions", UNANSWERED),),
            True,
            "the cluster does not answer, so that the service may not be up",
        ),
        ((*TWO, admitted(0)), True, "another service exists, which may read the weights"),
    ],
)
def test_keeps_weights_that_may_be_read(edits: tuple[Edit, ...], stay: bool, reason: str) -> None:
    earlier = beside("claim-", "claim-earlier", status={"atProvider": {}})
    assert ("claim-earlier" in load_scene(SEVERAL_NODES).edited(earlier, *edits).composed("claim-")) is stay, reason


# The preset sets this variable, so that a profile must leave it out.
UNWRITABLE = (
    edit_environment("nodePools.0.interNode", {"preset": "coreweave-infiniband"}),
    edit_model("serving.0.engine.env", [{"name": "NCCL_NET", "value": "Socket"}]),
)


def test_invalid_service_keeps_running_and_reports_why() -> None:
    rest = load_scene(SEVERAL_NODES)
    refused = rest.edited(*UNWRITABLE)
    (profile,) = [get(refused.xr, "spec.profile")]
    accepted = refused.condition("ServiceAccepted")
    assert (accepted.status, accepted.reason) == ("False", "Rejected")
    assert accepted.message.startswith(f"spec.serving[{profile}].engine.env[0]: NCCL_NET must be left out"), accepted
    assert refused.composed() == rest.composed()
    assert get(refused.outcome().status, "service.replicas") == 1


def test_composes_nothing_for_invalid_service() -> None:
    refused = load_scene(SEVERAL_NODES).edited(without_service, *UNWRITABLE)
    assert refused.condition("ServiceAccepted").reason == "Rejected"
    assert refused.composed() == {}

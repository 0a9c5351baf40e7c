"""How restarts of a group are counted, what is told of them, and when they stop a service."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from function.kube.manifests import JSON, Manifest, get, mapping
from function.serving.restarts import MAX_PODS, clean_message
from tests.support.crashes import (
    ERROR,
    LEADER,
    MODEL,
    SINCE,
    WORKER,
    apply,
    crash,
    crashing,
    drop_answer,
    exited,
    go_on,
    pod,
    replicas,
    report,
    restarts,
    service_key,
    shows,
)
from tests.support.remote_scene import (
    ONE_NODE,
    Edit,
    Scene,
    edit_environment,
    edit_model,
    edit_observed,
    edit_placement,
    load_scene,
    set_field,
)

DROPS = ["pod-0-0", "pod-0-1"]


def after(*rounds: tuple[Edit, ...], scene: Scene | None = None) -> Scene:
    """Returns the scene of the call that sees the last of these rounds."""
    found = scene or crashing()
    for edits in rounds:
        found = go_on(found, *edits)
    return found


def count(scene: Scene) -> JSON:
    return restarts(scene.outcome()).get("count")


def both(number: int) -> tuple[Edit, ...]:
    """Returns the edits by which the leader created in a minute crashed, and its worker was killed for it."""
    return crash(LEADER, number), crash(WORKER, number, code=143, message="")


def stopped(limit: int = 2) -> Scene:
    """Returns a placement that has reached its limit and has no replicas on the cluster."""
    found = apply(go_on(after(both(1), both(3), scene=crashing(limit=limit))))
    assert replicas(found) == 0
    return found


def redigested(scene: Scene) -> None:
    """The cluster has another spec of the service."""
    annotations = mapping(scene.observed[service_key(scene)], "status.atProvider.manifest.metadata.annotations")
    annotations["modelplane.ai/spec-digest"] = "another"


# What is observed


def test_pods_are_observed_by_name_while_the_service_is_not_ready() -> None:
    outcome = crashing().outcome()
    composed = {key: item for key, item in outcome.composed.items() if key.startswith("pod-")}
    assert {key: mapping(item.manifest, "spec.forProvider.manifest") for key, item in composed.items()} == {
        key: {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "assistants"}}
        for key, name in ((LEADER, "kimi-mn-0"), (WORKER, "kimi-mn-0-1"))
    }
    assert all(get(item.manifest, "spec.managementPolicies") == ["Observe"] for item in composed.values())
    assert all(item.ready for item in composed.values()), "a pod that crashes is no fault of the placement"


@pytest.mark.parametrize(
    "edits",
    [
        (report(1),),
        (edit_environment("monitoring", {"observePods": "Never"}),),
        (edit_environment("monitoring", None),),
    ],
    ids=["ready", "never", "left-out"],
)
def test_pods_are_observed_no_more_once_none_is_missing_or_the_consent_is_withdrawn(edits: tuple[Edit, ...]) -> None:
    outcome = after(both(1), edits).outcome()
    assert not [key for key in outcome.composed if key.startswith("pod-")]
    assert [drop.key for drop in outcome.drops if drop.key.startswith("pod-")] == DROPS


def test_pods_of_large_services_are_observed_in_part() -> None:
    def grow(scene: Scene) -> None:
        set_field(scene.observed[service_key(scene)], "status.atProvider.manifest.spec.replicas", 900)

    keys = [key for key in crashing(grow).outcome().composed if key.startswith("pod-")]
    assert keys == [f"pod-{group}-{index}" for group in range(MAX_PODS // 2) for index in range(2)]


def test_pods_on_one_node_are_not_observed() -> None:
    def single(scene: Scene) -> None:
        set_field(
            scene.observed[service_key(scene)], "status.atProvider.manifest.status.workloads.primary.kind", "Deployment"
        )

    found = after(
        (report(0), single), scene=load_scene(ONE_NODE).edited(edit_environment("monitoring.observePods", "Restarts"))
    )
    outcome = found.outcome()
    assert not [key for key in outcome.composed if key.startswith("pod-")]
    assert "restarts" not in outcome.status


# What is counted


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    rounds: tuple[tuple[Edit, ...], ...]
    want: int


def failed(number: int, path: str = "", value: JSON = None) -> Manifest:
    """Returns a leader whose container ended and was not started again, with another field."""
    made = pod(LEADER, number)
    if path:
        set_field(made, path, value)
    set_field(made, "status.containerStatuses.0.state", {"terminated": exited(number)})
    return made


def init(number: int, code: int) -> Manifest:
    """Returns a leader whose init container ended."""
    ended: JSON = [{"name": "init", "restartCount": 0, "state": {"terminated": exited(number, code)}}]
    return pod(LEADER, number, status__initContainerStatuses=ended)


DISRUPTED: JSON = {"type": "DisruptionTarget", "status": "True"}
ABSENT, FORBIDDEN = "external resource does not exist", "cannot dry run SSA: pods is forbidden"
CASES = (
    Case("none", "a pod that starts", ((shows(LEADER, pod(LEADER, 1)),),), 0),
    Case("group", "containers that end together are one restart", (both(1),), 1),
    Case("groups", "each time, the pods are new", (both(1), both(3), both(5)), 3),
    Case("worker", "the worker crashes alone", ((crash(WORKER, 1),), (crash(WORKER, 3),)), 2),
    Case("same", "the same restart is read again", (both(1), (), both(1), ()), 1),
    Case("stale", "an earlier pod is read once more", (both(1), both(3), both(1), both(3)), 2),
    Case("deleting", "the group is deleted after the restart that is seen",
         ((shows(LEADER, pod(LEADER, 1, restarts=1, last=exited(1), metadata__deletionTimestamp="x")),),), 1),
    Case("more", "a container restarts in its pod",
         ((crash(LEADER, 1),), (shows(LEADER, pod(LEADER, 1, restarts=3, last=exited(4))),)), 3),
    Case("ended", "a container ended for good", ((shows(LEADER, failed(1)),),), 1),
    Case("drained", "a container that ends with its pod is stopped by Kubernetes",
         ((shows(LEADER, failed(1, "metadata.deletionTimestamp", "x")),),), 0),
    Case("evicted", "an evicted pod did not crash", ((shows(LEADER, failed(1, "status.reason", "Evicted")),),), 0),
    Case("disrupted", "a preempted pod did not crash",
         ((shows(LEADER, failed(1, "status.conditions", [DISRUPTED])),),), 0),
    Case("init-done", "an init container that is done", ((shows(LEADER, init(1, 0)),),), 0),
    Case("init-failed", "an init container that failed", ((shows(LEADER, init(1, 2)),),), 1),
    Case("of-another", "a pod of this name that is of something else",
         ((shows(LEADER, pod(LEADER, 1, restarts=9, last=exited(1), metadata__labels={})),),), 0),
    Case("no-time", "a pod without a time of creation cannot be told from an earlier one",
         ((shows(LEADER, pod(LEADER, 1, restarts=9, metadata__creationTimestamp=None)),),), 0),
    Case("forbidden", "the right to patch pods is missing, and the pod is shown all the same",
         ((shows(LEADER, pod(LEADER, 1, restarts=1, last=exited(1)), "False", FORBIDDEN),),), 1),
    Case("absent", "the pod does not exist now", (both(1), (shows(LEADER, {}, "False", ABSENT),)), 1),
    Case("ready", "the service became Ready, and crashes again",
         (both(1), both(3), (report(1),), (report(0),), both(5)), 1),
    Case("no-exit", "how it ended is not reported", ((shows(LEADER, pod(LEADER, 1, restarts=1)),),), 1),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_counts(case: Case) -> None:
    found = after(*case.rounds)
    assert count(found) == case.want, case.reason
    assert count(go_on(found)) == case.want, "the next call sees the same"


def test_a_cluster_that_does_not_answer_changes_no_count() -> None:
    away = edit_observed(
        "", "status.conditions", [{"type": "Synced", "status": "False", "message": "dial tcp: timeout"}]
    )
    before = after(both(1), both(3))
    found = go_on(before, *both(5), away)
    assert restarts(found.outcome()) == restarts(before.outcome())


def test_an_edit_begins_to_count_again_without_the_pods_that_exist() -> None:
    found = after(both(1), both(3), (redigested,))
    assert count(found) == 0
    assert count(go_on(found)) == 0
    assert count(go_on(found, *both(5))) == 1


# What is told


def test_the_last_words_are_of_the_container_that_nobody_killed() -> None:
    found = after(both(1), (crash(WORKER, 2, code=137, message="killed"),))
    assert restarts(found.outcome())["last"] == {
        "pod": "kimi-mn-0", "container": "main", "reason": "Error", "exitCode": 1,
        "finishedAt": "2026-03-01T10:01:00Z", "message": ERROR,
    }  # fmt: skip
    later = go_on(found, crash(LEADER, 30, code=137, reason="OOMKilled", message=""))
    assert get(restarts(later.outcome()), "last.reason") == "OOMKilled"
    killed = go_on(found, crash(LEADER, 40, code=137))
    assert get(restarts(killed.outcome()), "last.exitCode") == 137, "long after, it is another restart"


def test_ready_tells_the_time_the_gpus_and_the_restarts() -> None:
    found = after(both(1), both(3), scene=crashing(limit=9))
    assert found.condition("ServiceReady").message == (
        "Ready: Not ready. Not Ready since 2026-03-01T10:00:00Z, and has 16 GPUs meanwhile. Its pods restarted 2 times "
        "since 2026-03-01T10:01:00Z (restartLimit 9); container main of pod kimi-mn-0 ended with exit code 1 (Error): "
        "RuntimeError: CUDA out of memory"
    )
    assert found.outcome().status["notReadySince"] == SINCE


def test_without_consent_only_the_time_and_the_gpus_are_told() -> None:
    found = after(both(1), both(3), scene=crashing(observe="Never", limit=1))
    outcome = found.outcome()
    assert "restarts" not in outcome.status
    assert found.condition("ServiceReady").message.endswith(
        "Not Ready since 2026-03-01T10:00:00Z, and has 16 GPUs meanwhile. RestartLimit has no effect: "
        "monitoring.observePods of InferenceEnvironment h200-east is Never"
    )
    assert replicas(found) == 1


def test_a_restart_without_a_reported_end_is_told() -> None:
    found = after((shows(LEADER, pod(LEADER, 1, restarts=1)),))
    assert found.condition("ServiceReady").message.endswith("meanwhile. Its pods restarted 1 time")


def test_says_that_the_limit_has_no_effect_on_one_node() -> None:
    one = load_scene(ONE_NODE).edited(report(0), edit_model("serving.0.restartLimit", 1))
    assert "RestartLimit has no effect: restarts of replicas on one node" in one.condition("ServiceReady").message


def test_consent_to_restarts_shows_no_message() -> None:
    found = after(both(1), scene=crashing(observe="Restarts"))
    assert restarts(found.outcome())["last"] == {
        "pod": "kimi-mn-0", "container": "main", "reason": "Error", "exitCode": 1, "finishedAt": "2026-03-01T10:01:00Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ("one\n\ttwo\x1b[31m\x00three", "one two [31m three"),
        ("HF_TOKEN=abc123 failed", "HF_TOKEN=*** failed"),
        ('{"password": "abc def"}', '{"password": *** def"}'),
        ("Authorization: Bearer abcdefghij", "Authorization: Bearer ***"),
        ("https://user:pass@host/x", "https://***@host/x"),
        ("token hf_0123456789abcdefghij refused", "token hf_*** refused"),
        ("max_num_batched_tokens=8192 is too few", "max_num_batched_tokens=8192 is too few"),
        ("x" * 401, "..." + "x" * 400),
        ("", ""),
    ],
)
def test_messages_are_short_and_without_secrets(said: str, want: str) -> None:
    assert clean_message(said) == want


@pytest.mark.parametrize("part", ["token=", "a_", "://", "bearer ", "x@", "hf_", "\n"])
def test_messages_of_any_length_are_cleaned_soon(part: str) -> None:
    assert len(clean_message(part * 500_000)) <= 403


# When a service stops


def test_a_service_at_its_limit_gives_back_its_gpus() -> None:
    reached = after(both(1), both(3), scene=crashing(limit=2))
    assert restarts(reached.outcome())["stopped"] is True
    assert replicas(reached) == 1, "the status says so first"
    ends = go_on(reached)
    assert replicas(ends) == 0
    assert ends.condition("Admitted").reason == "RestartLimitReached"
    assert get(ends.outcome().status, "service.replicas") == 1, "until the cluster has no replicas"
    ended = apply(ends)
    outcome = ended.outcome()
    assert (get(outcome.status, "service.replicas"), outcome.status["phase"]) == (0, "Failed")
    assert ended.condition("Admitted").message == (
        "Its service has reached restartLimit of profile h200-two-nodes and gives its GPUs to others: its pods "
        "restarted 2 times since 2026-03-01T10:01:00Z; container main of pod kimi-mn-0 ended with exit code 1 (Error): "
        "RuntimeError: CUDA out of memory. It starts again with another value of spec.retry of ModelDeployment "
        "kimi-k2, with a higher limit, or with an edit that changes its pods"
    )
    assert (ended.condition("ServiceReady").reason, ended.condition("ServiceReady").message) == (
        "Stopped",
        "Stopped at its restart limit: see Admitted",
    )
    assert not outcome.drops or {drop.key for drop in outcome.drops} <= set(DROPS)
    assert replicas(go_on(ended)) == 0


def unknown(scene: Scene) -> None:
    mapping(scene.observed[service_key(scene)], "status.atProvider.manifest.status.workloads.primary").pop(
        "readyReplicas"
    )


def behind(scene: Scene) -> None:
    set_field(scene.observed[service_key(scene)], "status.atProvider.manifest.metadata.generation", 7)
    set_field(scene.observed[service_key(scene)], "status.atProvider.manifest.status.observedGeneration", 6)


def away(scene: Scene) -> None:
    set_field(
        scene.observed[service_key(scene)],
        "status.conditions",
        [{"type": "Synced", "status": "False", "message": "dial tcp: i/o timeout"}],
    )


@pytest.mark.parametrize("edit", [report(1), unknown, behind, away], ids=["ready", "unknown", "behind", "unreachable"])
def test_stops_nothing_that_may_serve(edit: Edit) -> None:
    reached = after(both(1), (*both(3), edit), scene=crashing(limit=2))
    assert "stopped" not in restarts(reached.outcome())
    assert replicas(go_on(reached)) == 1
    recorded = go_on(after(both(1), both(3), scene=crashing(limit=2)), edit)
    assert replicas(recorded) == 1, "also if the status said so before"


def test_a_replica_that_becomes_ready_is_not_stopped_any_more() -> None:
    found = go_on(go_on(after(both(1), both(3), scene=crashing(limit=2)), report(1)), report(1))
    assert restarts(found.outcome())["count"] == 0
    assert found.condition("Admitted").reason == "Admitted"


def test_a_service_that_was_ready_with_its_spec_is_never_stopped() -> None:
    found = after((report(1),), (report(0),), both(1), both(3), both(5), scene=crashing(limit=2))
    assert (count(found), restarts(found.outcome())["served"]) == (3, True)
    assert replicas(go_on(found)) == 1
    earlier = after(both(1), both(3), scene=crashing(limit=2, new=False))
    assert replicas(go_on(earlier)) == 1, "served before restarts were counted"


def test_readiness_of_the_earlier_spec_does_not_count_for_an_edit() -> None:
    """KServe reports the readiness of the earlier pods for some moments after an edit."""
    served = after((report(1),))
    edited = go_on(served, redigested)
    assert "served" not in restarts(edited.outcome())
    assert "served" not in restarts(go_on(edited, redigested).outcome())
    again = go_on(edited, redigested, report(1, since="2026-03-01T12:00:00Z"))
    assert restarts(again.outcome())["served"] is True


def partly_ready(scene: Scene) -> None:
    """One of several replicas is ready, so KServe does not report Ready."""
    report(0, readyReplicas=1)(scene)


def test_a_replica_that_serves_protects_its_spec_and_the_others_are_counted() -> None:
    found = after((partly_ready,), (*both(1), partly_ready), (*both(3), partly_ready), scene=crashing(limit=2))
    assert (count(found), restarts(found.outcome())["served"]) == (2, True)
    assert replicas(go_on(go_on(found, report(0)))) == 1


def test_a_replica_of_the_earlier_spec_does_not_protect_an_edit() -> None:
    edited = after((partly_ready,), (redigested,), (), scene=crashing(limit=2))
    assert "served" not in restarts(edited.outcome())
    gone = after((report(0),), both(1), both(3), scene=edited)
    assert restarts(gone.outcome())["stopped"] is True


def test_an_edit_starts_a_stopped_service_only_once_it_can_be_composed() -> None:
    """Until then, the service would start again with the spec that crashes."""
    found = go_on(stopped(), edit_model("huggingFace.revision", "another"))
    for _ in range(3):
        found = go_on(found)
    assert replicas(found) == 0
    assert found.condition("Admitted").reason == "RestartLimitReached"


WAYS_BACK: tuple[tuple[str, Callable[[], Edit]], ...] = (
    ("retry", lambda: edit_placement("retry", "again")),
    ("higher limit", lambda: edit_model("serving.0.restartLimit", 5)),
    ("no limit", lambda: edit_model("serving.0.restartLimit", None)),
    ("edit", lambda: edit_model("serving.0.engine.args", ["--max-model-len=1024"])),
)


@pytest.mark.parametrize(("way", "edit"), WAYS_BACK, ids=[way for way, _ in WAYS_BACK])
def test_ways_back(way: str, edit: Callable[[], Edit]) -> None:
    found = go_on(stopped(), edit())
    again = go_on(found)
    assert replicas(again) == 1, way
    assert again.condition("Admitted").reason == "Admitted"
    assert (count(again) == 2) == ("limit" in way)


def test_a_higher_limit_counts_on_and_a_lower_one_stops_at_once() -> None:
    higher = go_on(go_on(stopped(), edit_model("serving.0.restartLimit", 3)))
    counted = go_on(go_on(apply(higher), report(0)), crash(LEADER, 9))
    assert count(counted) == 3
    assert replicas(go_on(counted)) == 0
    lowered = go_on(after(both(1), both(3), scene=crashing(limit=9)), edit_model("serving.0.restartLimit", 1))
    assert replicas(go_on(lowered)) == 0


def test_withdrawn_consent_starts_and_stops_nothing() -> None:
    never = edit_environment("monitoring", {"observePods": "Never"})
    assert replicas(go_on(go_on(stopped(), never))) == 0
    running = go_on(after(both(1), both(3), scene=crashing(limit=9)), never, edit_model("serving.0.restartLimit", 1))
    assert replicas(go_on(running)) == 1


# While a reference does not resolve


def test_a_stopped_service_stays_stopped_without_its_model() -> None:
    found = go_on(stopped(), drop_answer(MODEL))
    outcome = found.outcome()
    assert replicas(found) == 0
    assert restarts(outcome)["stopped"] is True
    assert get(outcome.status, "service.replicas") == 0
    assert found.condition("ServiceReady").reason == "Stopped"


def test_a_running_service_stays_without_its_model() -> None:
    reached = go_on(after(both(1), both(3), scene=crashing(limit=2)), drop_answer(MODEL))
    assert replicas(reached) == 1


def test_retry_counts_again_also_without_the_model() -> None:
    found = go_on(stopped(), drop_answer(MODEL), edit_placement("retry", "again"))
    assert restarts(found.outcome()) | {"pods": []} == {
        "count": 0,
        "digest": restarts(stopped().outcome())["digest"],
        "retry": "again",
        "pods": [],
    }


def test_what_is_gone_from_the_cluster_can_start_again() -> None:
    def lost(scene: Scene) -> None:
        scene.observed.clear()

    found = go_on(stopped(), lost)
    assert "stopped" not in restarts(found.outcome())


def test_a_service_with_a_missing_label_says_so() -> None:
    def unlabelled(scene: Scene) -> None:
        set_field(scene.answers["environment"], "metadata.uid", "uid")
        set_field(scene.answers["environment"], "status.admitted", [])
        set_field(scene.xr, "metadata.labels", {})

    assert go_on(stopped(), unlabelled).condition("Admitted").reason == "LabelMissing"


def test_edits_of_the_limit_restart_nothing() -> None:
    def digest(scene: Scene) -> JSON:
        (service,) = scene.composed().values()
        return mapping(service, "metadata.annotations")["modelplane.ai/spec-digest"]

    assert digest(crashing()) == digest(crashing(limit=3))

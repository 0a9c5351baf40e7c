"""Whether a remote object has come up, by kind and state; statuses are those that the controllers write."""

from dataclasses import dataclass

import pytest

from function.kube.manifests import JSON, Manifest
from function.remote.composed_kinds import assess
from function.remote.health import Level


def _condition(type_: str, status: str, message: str = "") -> Manifest:
    return {"type": type_, "status": status, "reason": "AllGroupsReady", "message": message}


def _of(kind: str, status: Manifest, generation: int = 1) -> Manifest:
    version, _, name = kind.rpartition("/")
    return {"apiVersion": version, "kind": name, "metadata": {"generation": generation}, "status": status}


SERVICE, JOB, CLAIM = "serving.kserve.io/v1alpha2/LLMInferenceService", "batch/v1/Job", "v1/PersistentVolumeClaim"
COMBINED = _condition("PresetsCombined", "True")


@dataclass(frozen=True)
class Case:
    id: str
    reason: str
    manifest: Manifest
    want: Level
    message: str = ""


def _service(*conditions: JSON, observed: int = 1) -> Manifest:
    return _of(SERVICE, {"observedGeneration": observed, "conditions": [*conditions]})


WAITS = "its pod is not running yet; see its events on the cluster"
ROUTE = "gateway.networking.k8s.io/v1/HTTPRoute"


def _route(*conditions: JSON, generation: int = 1) -> Manifest:
    seen: JSON = [{**c, "observedGeneration": 1} for c in conditions if isinstance(c, dict)]
    return _of(ROUTE, {"parents": [{"conditions": seen}]}, generation)


ACCEPTED, RESOLVED = _condition("Accepted", "True"), _condition("ResolvedRefs", "True")
NO_PARENTS = "no Gateway has seen it: its Gateway does not exist, or no controller serves it"
CASES = (
    Case("route", "a route that its gateway has accepted and resolved is up", _route(ACCEPTED, RESOLVED), Level.UP),
    Case("route-alone",
        "a Gateway that does not exist writes no status to the route",
        _of(ROUTE, {}), Level.PROGRESSING, NO_PARENTS),
    Case("route-changed",
        "the conditions are older than the generation of the route",
        _route(ACCEPTED, RESOLVED, generation=2), Level.PROGRESSING,
         "its Gateway has not observed the latest change yet"),
    Case("route-refused",
        "a False condition may lack a message",
        _route(_condition("Accepted", "False"), RESOLVED), Level.FAILED,
         "Accepted is False: AllGroupsReady, without a message"),
    Case("route-lost",
        "a backend of the route is missing",
        _route(ACCEPTED, _condition("ResolvedRefs", "False", "no x")),
         Level.FAILED, "ResolvedRefs is False: AllGroupsReady, no x"),
    Case("route-half", "a route is up only with both conditions", _route(ACCEPTED), Level.FAILED,
         "ResolvedRefs is missing: , without a message"),
    Case("nothing", "an object that does not exist yet may still be created", {}, Level.PROGRESSING, "not created yet"),
    Case("namespace",
        "a namespace is up while its phase is not Terminating",
        _of("v1/Namespace", {"phase": "Active"}), Level.UP),
    Case("namespace-going",
        "nothing can be created in a namespace that is being deleted",
        _of("v1/Namespace", {"phase": "Terminating"}), Level.FAILED,
         "the namespace is being deleted"),
    Case("secret", "a Secret is up as soon as it exists", _of("v1/Secret", {}), Level.UP),
    Case("claim-bound", "", _of(CLAIM, {"phase": "Bound"}), Level.UP),
    Case("claim-pending",
        "a claim may stay Pending until its first pod exists",
        _of(CLAIM, {"phase": "Pending"}), Level.PROGRESSING,
         "the claim is not bound yet"),
    Case("claim-lost", "a claim in phase Lost has lost its volume", _of(CLAIM, {"phase": "Lost"}), Level.FAILED,
         "the claim has lost its volume"),
    Case("job-new", "", _of(JOB, {}), Level.PROGRESSING, "not started yet"),
    Case("job-running", "", _of(JOB, {"active": 1, "ready": 1}), Level.PROGRESSING, "running"),
    Case("job-unsaid",
        "an older cluster does not report the number of ready pods",
        _of(JOB, {"active": 1}), Level.PROGRESSING, "running"),
    Case("job-waits",
        "an active pod that is not ready is unschedulable or waits for its image",
        _of(JOB, {"active": 1, "ready": 0}), Level.PROGRESSING, WAITS),
    Case("job-suspended", "a suspended Job continues only after it is resumed",
         _of(JOB, {"active": 0, "conditions": [_condition("Suspended", "True")]}),
         Level.PROGRESSING, "suspended on the cluster; it continues once it is resumed there"),
    Case("job-resumed",
        "a Suspended condition with status False does not count",
        _of(JOB, {"active": 1, "conditions": [_condition("Suspended", "False")]}),
         Level.PROGRESSING, "running"),
    Case("job-again",
        "a failed attempt of a Job is followed by another one after a backoff",
        _of(JOB, {"active": 1, "failed": 2}), Level.PROGRESSING,
         "failed attempts so far: 2"),
    Case("job-between-completions", "an Indexed Job has no pod for a moment between two completions",
         _of(JOB, {"succeeded": 2}), Level.PROGRESSING, "running"),
    Case("job-failed", "a Job with a Failed condition is not running",
         _of(JOB, {"conditions": [{**_condition("Failed", "True", "Job was active too long"), "reason": "Deadline"}]}),
         Level.FAILED, "Deadline: Job was active too long"),
    Case("job-complete", "", _of(JOB, {"conditions": [_condition("Complete", "True")]}), Level.UP),
    Case("service-ready", "", _service(COMBINED, _condition("Ready", "True")), Level.UP),
    Case("service-of-yesterday",
        "the Ready condition may be about an earlier generation",
        _service(COMBINED, _condition("Ready", "True"),
         observed=0), Level.PROGRESSING, "its controller has not observed the latest change yet"),
    Case("service-of-a-backup", "a status restored from a backup may be about a later generation",
         _service(COMBINED, _condition("Ready", "True"), observed=2), Level.PROGRESSING,
         "its controller has not observed the latest change yet"),
    Case("other-of-a-backup", "a status about a later generation does not count for any kind",
         _of("example.org/v1/Thing", {"observedGeneration": 2, "conditions": [_condition("Ready", "True")]}),
         Level.PROGRESSING, "its controller has not observed the latest change yet"),
    Case("preset-of-a-backup", "a missing preset does not fail a service whose status is about a later generation",
         _service(_condition("PresetsCombined", "False", "config not found"), observed=2), Level.PROGRESSING,
         "PresetsCombined: config not found"),
    Case("no-generation",
        "an observedGeneration without a generation to compare with does not count",
        {**_of("example.org/v1/Thing",
         {"observedGeneration": 2, "conditions": [_condition("Ready", "True")]}), "metadata": {}}, Level.UP),
    Case("service-uncombined",
        "the Ready condition does not count before the presets are combined",
        _service(_condition("Ready", "True")), Level.PROGRESSING,
         "its presets are not combined yet"),
    Case("service-without-preset", "a service whose preset is missing cannot start",
         _service(_condition("PresetsCombined", "False", "config not found")), Level.FAILED,
         "PresetsCombined: config not found"),
    Case("service-starting", "the message of a service that starts is the condition type and message of its workload",
         _service(COMBINED, _condition("Ready", "False", "x"), _condition("WorkerWorkloadReady", "False", "1/2 pods")),
         Level.PROGRESSING, "WorkerWorkloadReady: 1/2 pods"),
    Case("service-unknown",
        "a service with an Unknown condition is starting",
        _service(COMBINED, _condition("Ready", "Unknown",
         "wait")),
         Level.PROGRESSING, "wait"),
    Case("other-ready",
        "a kind without rules of its own is up when its Ready condition is True",
        _of("example.org/v1/Thing",
         {"conditions": [_condition("Ready", "True")]}), Level.UP),
    Case("other-not-ready", "", _of("example.org/v1/Thing", {"conditions": [_condition("Ready", "False", "no")]}),
         Level.PROGRESSING, "no"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_health(case: Case) -> None:
    health = assess(case.manifest)
    assert (health.level, health.message) == (case.want, case.message), case.reason
    assert health.up == (case.want is Level.UP)

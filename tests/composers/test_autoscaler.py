"""Replicas by load: the ScaledObject of a deployment, and what the deployment says of it."""

import copy

import pytest

from function.cli.store import Ref
from function.composers import compose
from function.contract import Call, Condition, Outcome
from function.kube.manifests import JSON, Manifest, get, listing, mapping, text
from function.parts.autoscaler import AUTOSCALER_KEY
from function.reasons import Autoscaled, ConditionType, Status
from tests.support.plane import call, change, fetched, only, plane, said
from tools.control_plane import ControlPlane
from tools.engine import Engine

STORY = "gemma-one-gpu"
SCALING = "spec.scaling"
PROMETHEUS: Manifest = {"prometheus": {"url": "http://prometheus:9090"}}
LOAD: Manifest = {"minReplicas": 1, "maxReplicas": 4, "target": {"waitingRequests": 5}}
WAKES_UP: Manifest = {**PROMETHEUS, "wakeUp": "Traefik"}


def scaled(autoscaling: JSON, replicas: int = 1, *, service: bool = False, **load: JSON) -> ControlPlane:
    """Returns a control plane on which the replicas of a deployment follow the load."""
    control = plane(STORY, None, {"autoscaling": autoscaling} if autoscaling else {})
    deployment = only(control, "ModelDeployment")
    if service:
        change(control, deployment, "spec.service", {})
    change(control, deployment, SCALING, {"signal": "Load", "load": {**LOAD, **load}, "fixed": {"replicas": replicas}})
    control.settle()
    return control


def find_scaled_object(control: ControlPlane) -> Manifest:
    """Returns the ScaledObject of the deployment; empty without one."""
    owned = control.store.owned(only(control, "ModelDeployment"))
    return next((m for m in owned.values() if m["kind"] == "ScaledObject"), {})


def report(control: ControlPlane, *conditions: JSON, autoscaling: JSON = PROMETHEUS) -> tuple[Outcome, Condition]:
    """Returns the outcome, and what it says of the load, once KEDA has reported these conditions."""
    deployment = only(control, "ModelDeployment")
    observed = control.store.owned(deployment)
    observed[AUTOSCALER_KEY] = {**observed[AUTOSCALER_KEY], "status": {"conditions": list(conditions)}}
    first = Call(xr=control.composites[deployment], observed=observed, input={"autoscaling": autoscaling})
    outcome = compose(fetched(first, control.composites.values()))
    (said_of_load,) = (c for c in outcome.conditions if c.type is ConditionType.AUTOSCALED)
    return outcome, said_of_load


def message(control: ControlPlane) -> str:
    conditions = listing(control.composites[only(control, "ModelDeployment")], "status.conditions")
    return next(text(c, "message") for c in conditions if c["type"] == "Autoscaled")


def autoscaled(control: ControlPlane) -> tuple[str, str]:
    return said(control, only(control, "ModelDeployment"), "Autoscaled")


def test_deployment_does_not_wait_for_keda() -> None:
    control = scaled(PROMETHEUS)
    assert autoscaled(control) == ("Unknown", "Preparing")
    assert said(control, only(control, "ModelDeployment"), "Ready")[0] == "True"


READY: Manifest = {"type": "Ready", "status": "True"}
FALLBACK: Manifest = {"type": "Fallback", "status": "True", "reason": "FallbackExists"}
UNKNOWN = "KEDA cannot read the load, and the replicas stay as they are"


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        (
            [READY, {"type": "Fallback", "status": "False"}],
            (Status.TRUE, Autoscaled.FOLLOWS_LOAD, "KEDA keeps between 1 and 4 replicas; 1 requested now"),
        ),
        (
            [{"type": "Ready", "status": "False", "reason": "TriggerError", "message": "no answer"}],
            (Status.FALSE, Autoscaled.LOAD_UNKNOWN, f"{UNKNOWN}: no answer"),
        ),
        ([READY, FALLBACK], (Status.FALSE, Autoscaled.LOAD_UNKNOWN, f"{UNKNOWN}: FallbackExists")),
    ],
)
def test_says_what_keda_reports(conditions: list[JSON], want: tuple[Status, str, str]) -> None:
    outcome, found = report(scaled(PROMETHEUS), *conditions)
    assert (found.status, found.reason, found.message) == want
    assert outcome.composed[AUTOSCALER_KEY].ready, "the deployment does not wait for KEDA"
    assert outcome.drops == ()


def test_without_autoscaling_the_minimum_runs() -> None:
    control = scaled(None, minReplicas=2)
    assert find_scaled_object(control) == {}
    assert autoscaled(control) == ("False", "NotAvailable")
    assert get(control.store[only(control, "ModelPlacement")], "spec.replicas") == 2
    assert said(control, only(control, "ModelDeployment"), "Ready")[0] == "True"


def test_scaled_object_stays_while_the_settings_are_missing() -> None:
    """A setting that is missing for a moment must not reset the autoscaler and its windows."""
    control = scaled(PROMETHEUS)
    before = copy.deepcopy(mapping(find_scaled_object(control), "spec"))
    control.renderer = Engine(call, {})
    control.settle()
    change(control, only(control, "ModelDeployment"), "spec.environments", 1)
    control.settle()
    assert mapping(find_scaled_object(control), "spec") == before
    assert autoscaled(control) == ("False", "NotAvailable")


def test_fixed_replicas_drop_the_scaled_object() -> None:
    control = scaled(PROMETHEUS, 2)
    change(control, only(control, "ModelDeployment"), SCALING, {"signal": "Fixed", "fixed": {"replicas": 2}})
    control.settle()
    assert find_scaled_object(control) == {}
    assert autoscaled(control) == ("Unknown", "Fixed")
    assert get(control.store[only(control, "ModelPlacement")], "spec.replicas") == 2


def test_scaled_object_stays_while_the_model_is_missing() -> None:
    control = scaled(PROMETHEUS)
    before = copy.deepcopy(mapping(find_scaled_object(control), "spec"))
    del control.composites[only(control, "ClusterModel")]
    control.settle()
    assert mapping(find_scaled_object(control), "spec") == before


@pytest.mark.parametrize(
    ("autoscaling", "service", "lacks"),
    [
        (PROMETHEUS, True, "the platform settings have no autoscaling.wakeUp"),
        (WAKES_UP, False, "the deployment has no spec.service, at whose route requests could be counted"),
    ],
)
def test_keeps_one_replica_if_nothing_could_start_the_first(autoscaling: JSON, lacks: str, *, service: bool) -> None:
    control = scaled(autoscaling, 0, service=service, minReplicas=0)
    assert get(find_scaled_object(control), "spec.minReplicaCount") == 1
    assert get(control.store[only(control, "ModelPlacement")], "spec.replicas") == 1
    assert autoscaled(control) == ("False", "CannotWakeUp")
    assert message(control) == (
        f"scaling.load.minReplicas is 0, and nothing would start a replica: {lacks}. At least 1 replica runs"
    )


@pytest.mark.parametrize(
    ("least", "target", "want"),
    [
        (0, {"waitingRequests": 5}, True),
        (0, {"timeToFirstToken": "2s"}, True),
        (0, {"runningRequests": 5}, False),
        (0, {"query": {"promQL": "sum(up)", "value": "1"}}, False),
        (1, {"waitingRequests": 5}, False),
    ],
)
def test_no_pod_stops_while_an_engine_works_on_a_request(least: int, target: Manifest, *, want: bool) -> None:
    """An answer of ten minutes is not waiting, and no new request comes: the deployment must not sleep."""
    control = scaled(WAKES_UP, service=True, minReplicas=least, target=target)
    triggers = {text(each, "name"): each for each in listing(find_scaled_object(control), "spec.triggers")}
    assert ("busy" in triggers) is want
    if want:
        assert "vllm:num_requests_running" in text(triggers["busy"], "metadata.query")
        assert text(triggers["busy"], "metadata.activationThreshold") == "0"


def test_requests_at_the_gateway_wake_a_deployment() -> None:
    control = scaled(WAKES_UP, 0, service=True, minReplicas=0)
    spec = mapping(find_scaled_object(control), "spec")
    assert spec["minReplicaCount"] == 0
    assert get(spec, "fallback.replicas") == 1, "with 0, KEDA scales to 0 while it cannot read the load"
    (wake_up,) = (trigger for trigger in listing(spec, "triggers") if trigger["name"] == "requests")
    namespace = Ref.of(control.composites[only(control, "ModelDeployment")]).namespace
    router = f'{{router=~"httproute-{namespace}-gemma-[0-9a-f]{{8}}-.*"}}'
    series = f"traefik_router_requests_total{router}"
    query = text(wake_up, "metadata.query")
    name = query.partition(f"httproute-{namespace}-")[2].partition("-.*")[0]
    assert name.startswith("gemma-")
    assert query.replace(name, "gemma-[0-9a-f]{8}") == (
        f"sum({series}) - (sum({series} offset 60s) or vector(0)) or vector(0)"
    )
    assert get(control.store[only(control, "ModelPlacement")], "spec.replicas") == 0


@pytest.mark.parametrize(
    ("scheduling", "want"),
    [
        ("Duplicated", 'max(sum by (environment) ({__name__=~"vllm:num_requests_running|sglang:num_running_reqs"'),
        ("Divided", 'sum({__name__=~"vllm:num_requests_running|sglang:num_running_reqs"'),
    ],
)
def test_load_is_that_of_the_busiest_environment_or_the_total(scheduling: str, want: str) -> None:
    control = plane(STORY, None, {"autoscaling": PROMETHEUS})
    load: Manifest = {
        "maxReplicas": 4,
        "target": {"runningRequests": 20, "query": {"promQL": "vector(1)", "value": "2"}},
    }
    change(
        control,
        only(control, "ModelDeployment"),
        SCALING,
        {"signal": "Load", "load": load, "replicaScheduling": scheduling},
    )
    control.settle()
    running, own = listing(find_scaled_object(control), "spec.triggers")
    assert text(running, "metadata.query").startswith(want)
    assert (get(own, "metadata.query"), get(own, "metadata.threshold")) == ("vector(1)", "2")


def test_load_is_unknown_while_one_of_several_environments_reports_nothing() -> None:
    """With one environment, a load without series has no result by itself."""
    control = plane("two-environments", None, {"autoscaling": PROMETHEUS})
    deployment = only(control, "ModelDeployment")
    load: Manifest = {"maxReplicas": 4, "target": {"waitingRequests": 5}}
    scaling: Manifest = {"signal": "Load", "load": load, "replicaScheduling": "Divided", "fixed": {"replicas": 4}}
    selected = 'namespace="search",deployment="llama"'
    waiting = f'sum({{__name__=~"vllm:num_requests_waiting|sglang:num_queue_reqs",{selected}}})'
    running = f'{{__name__=~"vllm:num_requests_running|sglang:num_running_reqs",{selected}}}'
    change(control, deployment, SCALING, scaling)
    control.settle()
    assert len(listing(control.composites[deployment], "status.placements")) == 2
    (trigger,) = listing(find_scaled_object(control), "spec.triggers")
    assert get(trigger, "metadata.query") == f"({waiting}) and count(count by (environment) ({running})) >= 2"
    change(control, deployment, SCALING, {**scaling, "fixed": {"replicas": 1}})
    control.settle()
    assert len(listing(control.composites[deployment], "status.placements")) == 1
    (trigger,) = listing(find_scaled_object(control), "spec.triggers")
    assert get(trigger, "metadata.query") == waiting


def test_deployment_without_replicas_has_no_load_to_read() -> None:
    control = scaled(WAKES_UP, 0, service=True, minReplicas=0)
    _, found = report(control, READY, FALLBACK, autoscaling=WAKES_UP)
    assert (found.status, found.reason) == (Status.TRUE, Autoscaled.FOLLOWS_LOAD)

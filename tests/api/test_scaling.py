"""Parsing replicas by load, and replicas that are divided over environments."""

from dataclasses import dataclass
from decimal import Decimal

import pytest

from function.api.model_deployment import parse_deployment
from function.api.settings import parse_settings
from function.domain.model import Problem
from function.domain.placement import Deployment
from function.domain.scaling import Autoscaling, LoadScaling, ScheduledReplicas, Target, WakeUp
from function.kube.manifests import JSON, Manifest
from tests.api import manifests


def parsed(**scaling: JSON) -> Deployment:
    deployment = parse_deployment(manifests.deployment(scaling=scaling)).value
    assert deployment
    return deployment


def test_parses_every_field_of_load() -> None:
    load: Manifest = {
        "minReplicas": 0,
        "maxReplicas": 8,
        "target": {
            "waitingRequests": 5,
            "runningRequests": 20,
            "timeToFirstToken": "1m30s",
            "query": {"promQL": "sum(up)", "value": "0.5"},
        },
        "stabilization": {"up": "30s", "down": "10m"},
        "schedule": [{"start": "0 8 * * *", "end": "0 9 * * *", "replicas": 2}],
    }
    assert parsed(signal="Load", load=load).load == LoadScaling(
        minimum=0,
        maximum=8,
        target=Target(
            waiting_requests=5, running_requests=20, time_to_first_token=Decimal(90), query=("sum(up)", "0.5")
        ),
        up_seconds=30,
        down_seconds=600,
        schedule=(ScheduledReplicas(start="0 8 * * *", end="0 9 * * *", timezone="Etc/UTC", replicas=2),),
    )


def test_load_has_defaults() -> None:
    """A growth is immediate, and a service shrinks after the 300 s that Kubernetes has as its default, too."""
    load = parsed(signal="Load", load={"maxReplicas": 3, "target": {"waitingRequests": 1}}).load
    assert load == LoadScaling(minimum=1, maximum=3, target=Target(waiting_requests=1), up_seconds=0, down_seconds=300)


@pytest.mark.parametrize(("fixed", "want"), [(1, 2), (3, 3), (9, 4)])
def test_replicas_stay_within_the_bounds(fixed: int, want: int) -> None:
    load: Manifest = {"minReplicas": 2, "maxReplicas": 4, "target": {"waitingRequests": 1}}
    assert parsed(signal="Load", load=load, fixed={"replicas": fixed}).replicas == want


def test_load_does_not_count_with_fixed_replicas() -> None:
    deployment = parsed(load={"maxReplicas": 4, "minReplicas": 9}, fixed={"replicas": 7})
    assert (deployment.load, deployment.replicas) == (None, 7)


@pytest.mark.parametrize(
    ("scheduling", "environments", "want"),
    [
        (None, None, (False, 1)),
        ("Duplicated", 3, (False, 3)),
        ("Divided", None, (True, 100)),
        ("Divided", 3, (True, 3)),
    ],
)
def test_divided_replicas_may_use_every_environment(
    scheduling: str | None, environments: int | None, want: tuple[bool, int]
) -> None:
    fields: Manifest = {"scaling": {"replicaScheduling": scheduling} if scheduling else {}}
    fields |= {"environments": environments} if environments else {}
    deployment = parse_deployment(manifests.deployment(**fields)).value
    assert deployment
    assert (deployment.divides_replicas, deployment.environments) == want


@pytest.mark.parametrize("start", ["0 8 * * 1-5", "*/15 8-10/2 1,15 jan-MAR mon,3", "? ? ? ? ?", "5/10 0 31 12 6"])
def test_accepts_cron_expressions(start: str) -> None:
    assert parsed(signal="Load", load=schedule(start)).load


@dataclass(frozen=True, slots=True)
class Fault:
    id: str
    load: JSON
    want: Problem


def schedule(start: str) -> Manifest:
    return {"maxReplicas": 3, "schedule": [{"start": start, "end": "0 9 * * *", "replicas": 2}]}


AT = "spec.scaling.load"
CRON = (
    "is not allowed; must be a cron expression of minute (0-59), hour (0-23), day (1-31), month (1-12) and day of the "
    "week (0-6)"
)
DURATION = "must be a duration like 30s, 10m or 1h30m"
FAULTS = (
    Fault(
        "missing",
        None,
        Problem(AT, "is required for signal Load, such as load: {maxReplicas: 8, target: {waitingRequests: 5}}"),
    ),
    Fault(
        "nothing-to-follow",
        {"maxReplicas": 3, "target": {}},
        Problem(AT, "needs a target, such as target: {waitingRequests: 5}, or an entry of schedule"),
    ),
    Fault(
        "bounds",
        {"minReplicas": 4, "maxReplicas": 3, "target": {"waitingRequests": 1}},
        Problem(f"{AT}.minReplicas", "4 is not allowed; must be at most maxReplicas (3)"),
    ),
    Fault(
        "no-time",
        {"maxReplicas": 3, "target": {"timeToFirstToken": "0s"}},
        Problem(f"{AT}.target.timeToFirstToken", '"0s" is not allowed; must be more than 0s'),
    ),
    Fault(
        "not-a-time",
        {"maxReplicas": 3, "target": {"timeToFirstToken": "2"}},
        Problem(f"{AT}.target.timeToFirstToken", f'"2" is not allowed; {DURATION}'),
    ),
    Fault(
        "no-value",
        {"maxReplicas": 3, "target": {"query": {"promQL": "up", "value": "0"}}},
        Problem(f"{AT}.target.query.value", '"0" is not allowed; must be more than 0'),
    ),
    Fault(
        "value-without-quotes",
        {"maxReplicas": 3, "target": {"query": {"promQL": "up", "value": 5}}},
        Problem(f"{AT}.target.query.value", "5 is not allowed; must be text, in quotes"),
    ),
    Fault(
        "maximum-of-another-type",
        {"maxReplicas": 3.5, "target": {"waitingRequests": 1}},
        Problem(f"{AT}.maxReplicas", "3.5 is not allowed; must be a whole number"),
    ),
    Fault("no-such-minute", schedule("60 8 * * *"), Problem(f"{AT}.schedule[0].start", f'"60 8 * * *" {CRON}')),
    Fault("no-such-hour", schedule("0 24 * * *"), Problem(f"{AT}.schedule[0].start", f'"0 24 * * *" {CRON}')),
    Fault("sunday-is-0", schedule("0 8 * * 7"), Problem(f"{AT}.schedule[0].start", f'"0 8 * * 7" {CRON}')),
    Fault("backwards", schedule("0 8 * * fri-mon"), Problem(f"{AT}.schedule[0].start", f'"0 8 * * fri-mon" {CRON}')),
    Fault("no-step", schedule("*/0 8 * * *"), Problem(f"{AT}.schedule[0].start", f'"*/0 8 * * *" {CRON}')),
    Fault("a-zone", schedule("TZ=X 8 * * *"), Problem(f"{AT}.schedule[0].start", f'"TZ=X 8 * * *" {CRON}')),
    Fault(
        "no-time-between",
        schedule("0 9 * * *"),
        Problem(f"{AT}.schedule[0].end", '"0 9 * * *" is not allowed; must be another time than start'),
    ),
    Fault(
        "more-than-the-maximum",
        {"maxReplicas": 3, "schedule": [{"start": "0 8 * * *", "end": "0 9 * * *", "replicas": 4}]},
        Problem(f"{AT}.schedule[0].replicas", "4 is not allowed; must be at most maxReplicas (3)"),
    ),
    Fault(
        "long-window",
        {"maxReplicas": 3, "target": {"waitingRequests": 1}, "stabilization": {"down": "61m"}},
        Problem(f"{AT}.stabilization.down", '"61m" is not allowed; must be at most 1h'),
    ),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_reports_a_problem_of_load(fault: Fault) -> None:
    scaling: Manifest = {"signal": "Load"} if fault.load is None else {"signal": "Load", "load": fault.load}
    found = parse_deployment(manifests.deployment(scaling=scaling))
    assert (found.value, found.problems) == (None, (fault.want,))


def test_parses_what_the_platform_has() -> None:
    given: Manifest = {
        "autoscaling": {
            "prometheus": {
                "url": "http://prometheus:9090/tenant",
                "authModes": "bearer",
                "authenticationRef": {"kind": "TriggerAuthentication", "name": "prometheus"},
            },
            "wakeUp": "Traefik",
        }
    }
    weaker: Manifest = {"autoscaling": {"prometheus": {"url": "http://other:9090"}}}
    context: Manifest = {"apiextensions.crossplane.io/environment": {"modelplane": given}}
    assert parse_settings(weaker, context).value.autoscaling == Autoscaling(
        prometheus_url="http://prometheus:9090/tenant",
        auth_modes="bearer",
        authentication=("TriggerAuthentication", "prometheus"),
        wake_up=WakeUp.TRAEFIK,
    )
    assert parse_settings(weaker, {}).value.autoscaling == Autoscaling(prometheus_url="http://other:9090")


def test_authentication_is_one_of_the_cluster_by_default() -> None:
    given: Manifest = {
        "autoscaling": {"prometheus": {"url": "http://prometheus:9090", "authenticationRef": {"name": "a"}}}
    }
    found = parse_settings(given, {}).value.autoscaling
    assert found
    assert found.authentication == ("ClusterTriggerAuthentication", "a")


@pytest.mark.parametrize(
    ("target", "want"),
    [
        (Target(waiting_requests=1), True),
        (Target(running_requests=1), True),
        (Target(time_to_first_token=Decimal(2)), True),
        (Target(query=("up", "1")), False),
        (Target(), False),
    ],
)
def test_a_query_of_ones_own_needs_no_metrics_of_engines(target: Target, *, want: bool) -> None:
    assert target.needs_metrics_of_engines is want

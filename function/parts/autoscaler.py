"""Replicas by load: the ScaledObject by which KEDA writes the scale subresource of a ModelDeployment.

KEDA's operator asks Prometheus, and a HorizontalPodAutoscaler computes the replicas. No pod of a deployment exists on
the control plane, so only metrics of type External with AverageValue are possible. Whatever fails, the replicas stay as
they are: an unknown load is not a load of 0.
"""

from collections.abc import Iterator
from dataclasses import replace

from function.contract import Call, Composed, Condition, Desired, Drop
from function.domain.placement import Deployment
from function.domain.scaling import Autoscaling, LoadScaling
from function.kube import names
from function.kube.manifests import JSON, Manifest, condition, prune, text
from function.parts.part import PartOutcome
from function.reasons import Autoscaled, ConditionType, Status
from function.remote.composed_kinds import KEDA_VERSION, ResourceKind
from function.remote.object_writer import reapply_observed
from function.traffic.routes import name_route

AUTOSCALER_KEY = "autoscaler"  # composition-resource-name of the ScaledObject
SCALED_OBJECT: ResourceKind = (KEDA_VERSION, "ScaledObject")
_POLLING_SECONDS = 15
_FAILED_QUERIES = 3  # in a row, after which KEDA keeps the replicas instead of asking the autoscaler
_WAKE_SECONDS = 60  # for which a request to a deployment without replicas counts
# Never reached: requests at the gateway and in the engines keep a replica, and the targets decide on more replicas.
_NEVER = 1_000_000_000
_WAITING = "vllm:num_requests_waiting|sglang:num_queue_reqs"
_RUNNING = "vllm:num_requests_running|sglang:num_running_reqs"
_TIME_TO_FIRST = "vllm:time_to_first_token_seconds_bucket|sglang:time_to_first_token_seconds_bucket"
# Each increases with each token. SGLang's generation_tokens_total increases only when a request ends.
_TOKENS = "vllm:generation_tokens_total|sglang:inter_token_latency_seconds_count"
_WINDOW = "2m"


def compose_autoscaler(
    call: Call, deployment: Deployment, autoscaling: Autoscaling | None, *, serving: int
) -> PartOutcome[None]:
    """Composes the ScaledObject of a deployment whose replicas follow the load, and reports how KEDA gets on.

    `serving`: the number of environments on which engines serve, which must all report for the load to be known.
    Without what the platform must have, nothing is composed: a resource that Crossplane may not apply would cost the
    deployment its whole status.
    """
    load = deployment.load
    observed = call.observed.get(AUTOSCALER_KEY)
    if load is None:
        dropped = [Drop(AUTOSCALER_KEY, "scaling.signal is not Load")] if observed else []
        return PartOutcome(decision=None, desired=Desired(drops=tuple(dropped)), conditions=tuple(_report_fixed(call)))
    if autoscaling is None:
        message = (
            "The platform settings have no autoscaling, so the replicas do not follow the load; "
            f"{deployment.replicas} requested"
        )
        kept = {AUTOSCALER_KEY: reapply_observed(observed)} if observed else {}
        return PartOutcome(
            decision=None, desired=Desired(kept), conditions=(_report(Status.FALSE, Autoscaled.NOT_AVAILABLE, message),)
        )
    manifest = build_scaled_object(deployment, load, autoscaling, serving)
    return PartOutcome(
        decision=None,
        # The deployment is Ready whether or not its load is known.
        desired=Desired({AUTOSCALER_KEY: Composed(manifest=manifest, ready=True)}),
        conditions=(_report_scaled_object(deployment, load, autoscaling, observed),),
    )


def limit_replicas(deployment: Deployment, autoscaling: Autoscaling | None) -> Deployment:
    """Returns a deployment with at least one replica if nothing could start the first one."""
    load = deployment.load
    if load is None or deployment.replicas or (autoscaling and _may_sleep(deployment, load, autoscaling)):
        return deployment
    return replace(deployment, replicas=1)


def build_scaled_object(deployment: Deployment, load: LoadScaling, autoscaling: Autoscaling, serving: int) -> Manifest:
    """Returns KEDA's ScaledObject for a deployment."""
    may_sleep = _may_sleep(deployment, load, autoscaling)
    minimum = load.minimum if may_sleep else max(1, load.minimum)
    windows: Manifest = {
        "scaleDown": {"stabilizationWindowSeconds": load.down_seconds},
        "scaleUp": {"stabilizationWindowSeconds": load.up_seconds},
    }
    triggers = [*_build_load_triggers(deployment, load, autoscaling, serving), *_build_schedule(load)]
    if may_sleep and not load.minimum:
        triggers.append(_build_wake_up(deployment, autoscaling))
        if load.target.running_requests is None and load.target.query is None:
            # A long answer must end before the pods stop, although nothing waits and nothing new comes.
            busy = _require_all(deployment, _sum_up(deployment, _RUNNING), serving)
            triggers.append(_build_query("busy", busy, str(_NEVER), autoscaling))
    return {
        "apiVersion": KEDA_VERSION,
        "kind": "ScaledObject",
        "metadata": {
            "name": deployment.name,
            "namespace": deployment.namespace,
            "labels": {**names.MANAGED_BY, names.LABEL_DEPLOYMENT: names.label_value(deployment.name)},
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": names.VERSION, "kind": "ModelDeployment", "name": deployment.name},
            "minReplicaCount": minimum,
            "maxReplicaCount": load.maximum,
            "pollingInterval": _POLLING_SECONDS,
            "cooldownPeriod": load.down_seconds,
            # With a number of 0, KEDA would scale a deployment with minReplicas 0 to 0 while Prometheus is down.
            "fallback": {
                "failureThreshold": _FAILED_QUERIES,
                "behavior": "currentReplicas",
                "replicas": max(1, minimum),
            },
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": windows}},
            "triggers": triggers,
        },
    }


def _may_sleep(deployment: Deployment, load: LoadScaling, autoscaling: Autoscaling) -> bool:
    """Tells whether the bounds can be kept: something outside the pods must wake a deployment without replicas."""
    return bool(load.minimum) or (autoscaling.wake_up is not None and deployment.composes_model_service)


def _build_load_triggers(
    deployment: Deployment, load: LoadScaling, autoscaling: Autoscaling, serving: int
) -> Iterator[JSON]:
    target = load.target
    for name, measure, value in (
        ("waiting", _WAITING, target.waiting_requests),
        ("running", _RUNNING, target.running_requests),
    ):
        if value is not None:
            query = _require_all(deployment, _sum_up(deployment, measure), serving)
            yield _build_query(name, query, str(value), autoscaling)
    if target.time_to_first_token is not None:
        query = _require_all(deployment, _measure_first_token(deployment), serving)
        yield _build_query("first-token", query, f"{target.time_to_first_token:f}", autoscaling)
    if target.query is not None:
        yield _build_query("query", *target.query, autoscaling)


def _build_query(name: str, query: str, threshold: str, autoscaling: Autoscaling) -> JSON:
    reference = autoscaling.authentication
    return prune(
        {
            "type": "prometheus",
            "name": name,
            "metricType": "AverageValue",
            "metadata": prune(
                {
                    "serverAddress": autoscaling.prometheus_url,
                    "query": query,
                    "threshold": threshold,
                    "activationThreshold": "0",
                    "ignoreNullValues": "false",  # a load that is unknown is not 0
                    "authModes": autoscaling.auth_modes or None,
                }
            ),
            "authenticationRef": {"kind": reference[0], "name": reference[1]} if reference else None,
        }
    )


def _build_schedule(load: LoadScaling) -> Iterator[JSON]:
    for number, entry in enumerate(load.schedule):
        metadata: Manifest = {
            "timezone": entry.timezone,
            "start": entry.start,
            "end": entry.end,
            "desiredReplicas": str(entry.replicas),
        }
        yield {"type": "cron", "name": f"schedule-{number}", "metadata": metadata}


def _build_wake_up(deployment: Deployment, autoscaling: Autoscaling) -> JSON:
    """Returns the trigger that is active for a minute after each request at the gateway of the control plane.

    `increase()` would not see the first request of a new series.
    """
    router = f"httproute-{deployment.namespace}-{name_route(deployment.name)}-.*"
    series = f'traefik_router_requests_total{{router=~"{router}"}}'
    earlier = f"(sum({series} offset {_WAKE_SECONDS}s) or vector(0))"
    return _build_query("requests", f"sum({series}) - {earlier} or vector(0)", str(_NEVER), autoscaling)


def _select(deployment: Deployment, measure: str) -> str:
    return f'{{__name__=~"{measure}",namespace="{deployment.namespace}",deployment="{deployment.name}"}}'


def _sum_up(deployment: Deployment, measure: str) -> str:
    """Returns the query for the load of all replicas, or of those on the busiest environment if each has its own."""
    if deployment.divides_replicas:
        return f"sum({_select(deployment, measure)})"
    return f"max(sum by (environment) ({_select(deployment, measure)}))"


def _require_all(deployment: Deployment, query: str, serving: int) -> str:
    """Returns a query without a result while an environment that serves reports nothing.

    Otherwise the load would fall, and the deployment shrink, when the metrics of one of several clusters are lost.
    """
    if serving <= 1:
        return query
    return f"({query}) and count(count by (environment) ({_select(deployment, _RUNNING)})) >= {serving}"


def _measure_first_token(deployment: Deployment) -> str:
    """Returns the query for the time to first token, times the replicas, because KEDA divides by the replicas.

    Without requests there is no time, which counts as 0 as long as the engines report at all. There is no result if
    the engines of an environment hang: they had requests for the whole window, and generated no token.
    """
    group = [] if deployment.divides_replicas else ["environment"]
    by, by_pod, by_bucket = (_group(*group, *more) for more in ((), ("pod",), ("le",)))
    running, waiting, tokens, times = (
        f"{_select(deployment, measure)}[{_WINDOW}]" for measure in (_RUNNING, _WAITING, _TOKENS, _TIME_TO_FIRST)
    )
    time = f"histogram_quantile(0.95, sum{by_bucket} (rate({times}))) >= 0"
    replicas = f"count{by} (count{by_pod} ({_select(deployment, _RUNNING)}))"
    query = f"(({time}) or 0 * {replicas}) * {replicas}"
    has_requests = f"sum{by} (min_over_time({running})) + sum{by} (min_over_time({waiting})) > 0"
    hangs = f"(({has_requests}) unless (sum{by} (rate({tokens})) > 0) unless ({time}))"
    return f"max({query}) unless count({hangs})" if by else f"{query} unless {hangs}"


def _group(*labels: str) -> str:
    return f" by ({', '.join(labels)})" if labels else ""


def _report(status: Status, reason: Autoscaled, message: str) -> Condition:
    return Condition(ConditionType.AUTOSCALED, status, reason, message)


def _report_fixed(call: Call) -> Iterator[Condition]:
    if condition(call.xr, ConditionType.AUTOSCALED):
        yield _report(Status.UNKNOWN, Autoscaled.FIXED, "The number of replicas does not follow the load")


def _report_scaled_object(
    deployment: Deployment, load: LoadScaling, autoscaling: Autoscaling, observed: Manifest | None
) -> Condition:
    if not _may_sleep(deployment, load, autoscaling):
        lacks = "the platform settings have no autoscaling.wakeUp"
        if autoscaling.wake_up is not None:
            lacks = "the deployment has no spec.service, at whose route requests could be counted"
        message = f"scaling.load.minReplicas is 0, and nothing would start a replica: {lacks}. At least 1 replica runs"
        return _report(Status.FALSE, Autoscaled.CANNOT_WAKE_UP, message)
    ready = condition(observed, "Ready")
    # Without replicas, there are no engines whose load could be read.
    fallback = condition(observed, "Fallback") if deployment.replicas else {}
    if not ready:
        return _report(Status.UNKNOWN, Autoscaled.PREPARING, f"KEDA has not reported on ScaledObject {deployment.name}")
    if ready.get("status") != Status.TRUE or fallback.get("status") == Status.TRUE:
        problem = ready if ready.get("status") != Status.TRUE else fallback
        why = text(problem, "message") or text(problem, "reason")
        message = f"KEDA cannot read the load, and the replicas stay as they are: {why}"
        return _report(Status.FALSE, Autoscaled.LOAD_UNKNOWN, message)
    bounds = f"between {load.minimum} and {load.maximum} replicas"
    return _report(Status.TRUE, Autoscaled.FOLLOWS_LOAD, f"KEDA keeps {bounds}; {deployment.replicas} requested now")

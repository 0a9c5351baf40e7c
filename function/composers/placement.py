"""ModelPlacement: carry out one decision on one cluster.

Namespace, token, claim and Job come from the plan for the weights; the LLMInferenceService is composed first when the
plan's gate is open and is always emitted after that: on the bytes that it serves, until other bytes are verified. A
change of its group is a new object; the old one stays until the new one may be composed. Whatever reference does not
resolve, everything stays as observed.
"""

from dataclasses import replace

from function.composers import requirements, service
from function.composers.finish import finish, hold, unready
from function.composers.remote import NAMESPACE, Site, namespace
from function.composers.service import SERVICE
from function.composers.task import Task, gather
from function.composers.weights import Weights, weigh
from function.domain.cache import NamedCache
from function.domain.placement import Placement
from function.domain.settings import Settings
from function.exchange import Call, Composed, Condition, Outcome, Requirement
from function.kube.manifests import Manifest
from function.kube.names import MANAGED_BY, VERSION, named
from function.parse.placements import placement_problems, read_placement
from function.reasons import ConditionType, Status
from function.report import placements as report
from function.report import references, services
from function.report.sync import read
from function.storage.order import NamedCacheFacts, Order

USAGE = "cache-usage"


def compose(call: Call, settings: Settings) -> Outcome:
    """Return the remote objects of a ModelPlacement, with what is so and what to do."""
    placement = read_placement(call.xr)
    if isinstance(placement, tuple):
        return hold(call, settings, {}, [references.invalid_placement(placement)])
    asked = _requirements(placement)
    faults = placement_problems(call.xr)
    task = references.invalid_placement(faults) if faults else gather(call, placement, settings)
    if isinstance(task, Condition):
        return _hold(call, settings, asked, task, placement)
    site = Site(
        owner=placement.name,
        namespace=placement.namespace,
        provider_config=task.environment.provider_config,
        watch=bool(settings.object_watch),
        observed=call.observed,
    )
    return _answer(call, task, asked, site, weigh(_order(task), site, task.environment.name, task.entry))


def _requirements(placement: Placement) -> dict[str, Requirement]:
    asked = {
        requirements.MODEL: requirements.model(placement.model, placement.namespace),
        requirements.ENVIRONMENT: requirements.environment(placement.environment),
    }
    if isinstance(placement.cache, NamedCache):
        asked[requirements.CACHE] = requirements.cache(placement.cache.name, placement.namespace)
    return asked


def _order(task: Task) -> Order:
    memory = task.pool.memory_per_gpu
    entry = task.entry
    return Order(
        model=task.model,
        choice=task.placement.cache,
        environment=task.environment.storage,
        download=task.environment.storage.download.or_else(task.settings.download),
        default_class=task.settings.storage_class,
        namespace=task.namespace,
        owner=task.placement.name,
        shape_nodes=task.shape.nodes,
        replicas=task.placement.replicas,
        gpu_memory=None if memory is None else memory * task.shape.gpus,
        named=NamedCacheFacts(claim=entry.claim, path=entry.path) if entry else None,
    )


def _answer(call: Call, task: Task, asked: dict[str, Requirement], site: Site, stored: Weights) -> Outcome:
    key = SERVICE + task.service
    remote = site.read(key)
    written = service.write(task, site, stored, key)
    composed = {
        NAMESPACE: namespace(task.namespace, site),
        **stored.composed,
        **_usage(task),
        **written.composed,
    }
    if not service.moved(remote, stored, written, key):
        composed |= stored.stale
    serving = services.serving(remote, task.placement.replicas, served=task.placement.served)
    conditions = (
        references.resolved(ConditionType.REFERENCES_RESOLVED, "Model, environment and pool are known"),
        report.storage_ready(stored.said),
        written.refusal or services.accepted(remote, gate_open=stored.open),
        serving,
    )
    return finish(
        call,
        task.settings,
        requirements=asked,
        composed=composed,
        status={
            **report.status(task.placement, remote, task.service, task.namespace, stored.plan),
            **report.progress(call.xr, conditions, stored.said, remote),
        },
        conditions=conditions,
        settled=all(c.status is Status.TRUE for c in conditions),
        ready=unready(composed, works=serving.status is Status.TRUE),
    )


def _hold(
    call: Call, settings: Settings, asked: dict[str, Requirement], missing: Condition, placement: Placement
) -> Outcome:
    """Keep everything as observed, and still say how the service is: that depends on nothing that is missing."""
    keys = [key for key in sorted(call.observed) if key.startswith(SERVICE)]
    remote = read(call.observed.get(keys[0]) if keys else None)
    conditions = (missing, services.serving(remote, placement.replicas, served=placement.served))
    held = hold(call, settings, asked, conditions)
    return replace(held, status={**held.status, **report.progress(call.xr, held.conditions, None, remote)})


def _usage(task: Task) -> dict[str, Composed]:
    """Return what protects the ModelCache for as long as this placement reads it."""
    if task.cache is None:
        return {}
    placement = task.placement
    spec: Manifest = {
        "of": {"apiVersion": VERSION, "kind": "ModelCache", "resourceRef": {"name": task.cache.name}},
        "by": {"apiVersion": VERSION, "kind": "ModelPlacement", "resourceRef": {"name": placement.name}},
        "reason": f"ModelPlacement {placement.name} serves from it",
    }
    manifest: Manifest = {
        "apiVersion": "protection.crossplane.io/v1beta1",
        "kind": "Usage",
        "metadata": {
            "name": named(placement.name, placement.name, task.cache.name),
            "namespace": placement.namespace,
            "labels": {**MANAGED_BY},
        },
        "spec": spec,
    }
    # Where Usages are not enforced their controller never makes them Ready; a model that serves is not held up by it.
    return {USAGE: Composed(manifest=manifest, ready=True)}

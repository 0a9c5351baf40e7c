"""One LLMInferenceService: the recorded decision in the words of KServe.

`template` and, over several nodes, `worker` are pods; the size of a group follows from `parallelism` and
equals the shape's nodes. KServe refuses to change that size, hence `identity`: a service of another identity
is another object. Pipeline mode names our own preset in `baseRefs`, without which a service created before
the preset stays stuck.

What contradicts the recorded shape is refused here a second time, because a placement may be older than its
profile or written by hand, and because the GPU memory of a pool may have decided the shape.
"""

from dataclasses import replace

from function.domain.engine_faults import model_faults, shape_faults, tls_faults
from function.domain.environment import Pool
from function.domain.model import EngineName, Profile, Shape, single_file
from function.domain.problem import Problem
from function.domain.settled_flags import PORT, without_settled
from function.kube.manifests import Manifest, prune
from function.kube.names import ANNOTATION_SPEC_DIGEST, LABEL_SERVICE
from function.serving import probes
from function.serving.digest import compute_spec_digest
from function.serving.engines import Launch, Mode, Run, mode_of, start
from function.serving.platform import conflicts
from function.serving.pods import pod
from function.serving.presets import API_VERSION, pipeline_preset_name
from function.serving.request import ServingRequest
from function.serving.runtime import completed

# KServe routes by model name only where this says that the engine answers to both names; its presets do.
_ROUTED_BY_NAME = "serving.kserve.io/model-based-routing-enabled"


def identity(shape: Shape) -> tuple[str, str]:
    """Return what of a shape no living service can change: its mode and the size of its group."""
    return mode_of(shape).value, str(shape.nodes)


def build(request: ServingRequest) -> Manifest | tuple[Problem, ...]:
    """Return the service, or every reason why it cannot be written."""
    problems = _problems(request) or unservable(request.profile, request.shape, request.pool)
    if problems:
        return problems
    engine, mode = request.profile.engine, mode_of(request.shape)
    args = without_settled(engine.name, engine.args, request.model.source)
    run = Run(
        engine=replace(engine, args=args),
        shape=request.shape,
        names=_served_names(request),
        file=single_file(request.model.source),
        tls=request.kserve.tls,
    )
    group = start(run)
    leader, worker = pod(request, group.leader, _listening(request, group.leader)), None
    if group.worker:
        worker = completed(pod(request, group.worker, {}), request, run, leads=False)
    given = request.pool.given(request.shape.nodes)
    spec = prune(
        {
            "baseRefs": [{"name": pipeline_preset_name(request.kserve)}] if mode is Mode.PIPELINE else None,
            "model": {"uri": request.uri, "name": request.model.served_name},
            "replicas": request.replicas,
            "parallelism": _parallelism(request.shape) or None,
            "labels": {**dict(given.labels), **request.labels, LABEL_SERVICE: request.name},
            "annotations": {**dict(given.annotations), **_annotations(request)} or None,
            "template": completed(leader, request, run, leads=True),
            "worker": worker,
            "router": {"gateway": {}, "route": {}} if request.kserve.gateway else None,
        }
    )
    return {
        "apiVersion": API_VERSION,
        "kind": "LLMInferenceService",
        "metadata": {
            "name": request.name,
            "namespace": request.namespace,
            "labels": {**request.labels},
            # KServe hands none of these on to pods: they may change under a running service (docs/facts.md, KServe).
            "annotations": {ANNOTATION_SPEC_DIGEST: compute_spec_digest(request)},
        },
        "spec": spec,
    }


def unservable(profile: Profile, shape: Shape, pool: Pool) -> tuple[Problem, ...]:
    """Return why a profile cannot run in this shape on what the pool gives its pods."""
    between = pool.between(shape.nodes)
    if between is None:
        return ()
    group = start(Run(engine=profile.engine, shape=shape, names=(profile.name,)))
    return conflicts(profile, between, pool.name, own_command=bool(group.leader.command))


def _problems(request: ServingRequest) -> tuple[Problem, ...]:
    engine, path = request.profile.engine, f"spec.serving[{request.profile.name}]"
    found = [
        *model_faults(engine, request.model.source, request.model.served_name, f"{path}.engine"),
        *shape_faults(engine, request.shape, f"{path}.engine.args"),
        *(tls_faults(engine, f"{path}.engine") if request.kserve.tls else ()),
    ]
    if engine.name is EngineName.SGLANG and mode_of(request.shape) is Mode.DATA:
        found.append(
            Problem(
                f"{path}.replicaTopology.parallelism.data", "must be left out, as SGLang spans nodes by pipeline only"
            )
        )
    return tuple(sorted(found))


def _served_names(request: ServingRequest) -> tuple[str, ...]:
    name = request.model.served_name
    return name, f"publishers/{request.namespace}/models/{name}"


def _annotations(request: ServingRequest) -> Manifest:
    return {_ROUTED_BY_NAME: "true"} if mode_of(request.shape) is Mode.PIPELINE else {}


def _listening(request: ServingRequest, leader: Launch) -> Manifest:
    if leader.command:
        return probes.serving(request, PORT)
    return probes.patience(request)


def _parallelism(shape: Shape) -> Manifest:
    split, mode = shape.parallelism, mode_of(shape)
    return prune(
        {
            "tensor": None if mode is Mode.SINGLE and split.tensor == 1 else split.tensor,
            # KServe counts pods by it, also where tensor parallelism spans them: the command has the stages.
            "pipeline": shape.nodes if mode is Mode.PIPELINE else None,
            "data": split.data if mode is Mode.DATA else None,
            "dataLocal": split.data_local if mode is Mode.DATA else None,
            "expert": True if split.expert else None,
        }
    )

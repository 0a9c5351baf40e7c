"""One LLMInferenceService: the recorded decision in the words of KServe.

`template` and, over several nodes, `worker` are pods; the size of a group follows from `parallelism` and
equals the shape's nodes. KServe refuses to change that size, hence `identity`: a service of another identity
is another object. Pipeline mode names our own preset in `baseRefs`, without which a service created before
the preset stays stuck.

What contradicts the recorded shape is refused here a second time, because a placement may be older than its
profile or written by hand, and because the GPU memory of a pool may have decided the shape.
"""

from dataclasses import replace

from function.domain.engine_args import disagreements
from function.domain.environment import Pool
from function.domain.model import EngineName, Profile, Shape
from function.domain.problem import Problem
from function.kube.manifests import Manifest, prune
from function.kube.names import ANNOTATION_WISH, LABEL_SERVICE
from function.serving import probes
from function.serving.arguments import foreign_weights, last_value, without_weights
from function.serving.engines import PORT, SERVED_NAME, Launch, Mode, Run, mode_of, start
from function.serving.platform import conflicts
from function.serving.pods import pod
from function.serving.presets import API_VERSION, pipeline_preset_name
from function.serving.request import ServingRequest
from function.serving.wish import wish

# KServe routes by model name only where this says that the engine answers to both names; its presets do.
_ROUTED_BY_NAME = "serving.kserve.io/model-based-routing-enabled"


def identity(shape: Shape) -> tuple[str, str]:
    """Return what of a shape no living service can change: its mode and the size of its group."""
    return mode_of(shape).value, str(shape.nodes)


def build(request: ServingRequest) -> Manifest | tuple[Problem, ...]:
    """Return the service, or every reason why it cannot be written."""
    problems = _problems(request)
    if problems:
        return problems
    engine, mode = request.profile.engine, mode_of(request.shape)
    args = without_weights(engine.name, request.model.source, engine.args)
    group = start(Run(engine=replace(engine, args=args), shape=request.shape, names=_served_names(request)))
    problems = unservable(request.profile, request.shape, request.pool)
    if problems:
        return problems
    given = request.pool.given(request.shape.nodes)
    spec = prune(
        {
            "baseRefs": [{"name": pipeline_preset_name(request.kserve)}] if mode is Mode.PIPELINE else None,
            "model": {"uri": request.uri, "name": request.model.served_name},
            "replicas": request.replicas,
            "parallelism": _parallelism(request.shape) or None,
            "labels": {**dict(given.labels), **request.labels, LABEL_SERVICE: request.name},
            "annotations": {**dict(given.annotations), **_annotations(request)} or None,
            "template": pod(request, group.leader, _listening(request, group.leader)),
            "worker": pod(request, group.worker, {}) if group.worker else None,
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
            "annotations": {ANNOTATION_WISH: wish(request)},
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
    args_path = f"{path}.engine.args"
    found = [
        *foreign_weights(engine.name, request.model.source, engine.args, args_path),
        *disagreements(engine.name, engine.args, request.shape, args_path),
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
    engine = request.profile.engine
    if mode_of(request.shape) is not Mode.PIPELINE:
        return {}
    named_by_author = engine.name is EngineName.VLLM and last_value(engine.args, SERVED_NAME)
    return {} if named_by_author else {_ROUTED_BY_NAME: "true"}


def _listening(request: ServingRequest, leader: Launch) -> Manifest:
    if leader.command:
        return probes.serving(PORT, request.weights, request.shape.nodes)
    return probes.patience(request.weights, request.shape.nodes)


def _parallelism(shape: Shape) -> Manifest:
    split, mode = shape.parallelism, mode_of(shape)
    return prune(
        {
            "tensor": None if mode is Mode.SINGLE and split.tensor == 1 else split.tensor,
            "pipeline": split.pipeline if mode is Mode.PIPELINE else None,
            "data": split.data if mode is Mode.DATA else None,
            "dataLocal": split.data_local if mode is Mode.DATA else None,
            "expert": True if split.expert else None,
        }
    )

"""One LLMInferenceService, in the form that KServe v0.20 and later read: the recorded decision of a placement.

KServe refuses to change the size of a group, so a service of another size is another object
(`name_inference_service`). In pipeline mode, the service names our own preset in `baseRefs`: without this, a service
that was created before the preset would stay stuck.

An engine that contradicts the recorded shape is refused here a second time, because a placement may be older than its
profile or written by hand, and because the GPU memory of a pool may have decided the shape.
"""

from function.domain.engines import ENGINES, find_model_faults, find_shape_faults, find_tls_faults
from function.domain.environment import Pool
from function.domain.model import Mode, Problem, Profile, Shape
from function.domain.settings import Kserve
from function.kube.manifests import Manifest, prune, strings, text
from function.kube.names import ANNOTATION_ADAPTERS, ANNOTATION_SPEC_DIGEST, MANAGED_BY
from function.remote.composed_kinds import SERVING_VERSION
from function.serving.digest import ServingRequest, compute_spec_digest
from function.serving.engine import is_started_by_preset, start_group
from function.serving.labels import collect_labels
from function.serving.picker import build_router
from function.serving.pod import build_pod

# KServe routes by model name only if this annotation says that the engine answers to both names; its presets do.
_ROUTED_BY_NAME = "serving.kserve.io/model-based-routing-enabled"


_SEPARATOR = ","  # which no name of an adapter contains


def find_service_problems(request: ServingRequest) -> tuple[Problem, ...]:
    engine = request.profile.engine
    path = f"spec.serving[{request.profile.name}]"
    problems = [
        *find_model_faults(engine, request.model.source, request.model.served_name, f"{path}.engine"),
        *find_shape_faults(engine, request.shape, f"{path}.engine.args"),
        *(find_tls_faults(engine, f"{path}.engine") if request.kserve.tls else ()),
    ]
    if request.shape.mode is Mode.DATA and not ENGINES[engine.name].data_spans_nodes:
        why = f"must be left out, as {engine.name} spans nodes by tensor or pipeline only"
        problems.append(Problem(f"{path}.replicaTopology.parallelism.data", why))
    pool = request.pool
    if pool.needs_several_parts(request.shape.gpus_per_node):
        why = f"must be 1, as pool {pool.name} has gpuResource {pool.gpu_resource}, of which a pod can use 1"
        problems.append(Problem(f"{path}.replicaTopology.gpusPerNode", why))
    return tuple(sorted(problems)) or find_pool_problems(request.profile, request.shape, pool)


def find_pool_problems(profile: Profile, shape: Shape, pool: Pool) -> tuple[Problem, ...]:
    """Returns why a profile cannot run in this shape with the network preset of a pool."""
    inter_node = pool.inter_node_settings(shape.nodes)
    if inter_node is None:
        return ()
    path = f"spec.serving[{profile.name}]"
    preset = f"preset {inter_node.preset} of pool {pool.name}"
    problems = [
        Problem(f"{path}.engine.env[{index}]", f"{text(entry, 'name')} must be left out, {preset} sets it")
        for index, entry in enumerate(profile.engine.env)
        if text(entry, "name") in inter_node.preset_env
    ]
    if inter_node.start and is_started_by_preset(profile.engine, shape):
        why = f"as KServe's own command cannot begin with what {preset} needs"
        problems.append(Problem(f"{path}.replicaTopology.parallelism.data", f"must be left out, {why}"))
    return tuple(problems)


def build_service(request: ServingRequest) -> Manifest:
    """Returns the service of a request without problems."""
    group = start_group(request)
    additions = request.pool.pod_overrides(request.shape.nodes)
    in_pipeline = request.shape.mode is Mode.PIPELINE
    digest = compute_spec_digest(request)
    annotations: Manifest = {**dict(additions.annotations), **({_ROUTED_BY_NAME: "true"} if in_pipeline else {})}
    if request.shape.nodes == 1:
        annotations[ANNOTATION_SPEC_DIGEST] = digest  # KServe hands it on to pods: see `find_update`
    return {
        "apiVersion": SERVING_VERSION,
        "kind": "LLMInferenceService",
        "metadata": {
            "name": request.name,
            "namespace": request.namespace,
            "labels": {**request.labels},
            # KServe does not hand these on to pods, so they may change while a service runs (docs/facts.md, KServe).
            "annotations": {ANNOTATION_SPEC_DIGEST: digest, **_name_adapters(request)},
        },
        "spec": prune(
            {
                "baseRefs": [{"name": pipeline_preset_name(request.kserve)}] if in_pipeline else None,
                "model": {"uri": request.uri, "name": request.model.served_name},
                "replicas": request.replicas,
                "parallelism": _build_parallelism(request.shape) or None,
                "labels": {**collect_labels(request)},
                "annotations": annotations or None,
                "template": build_pod(request, group.leader, is_leader=True),
                "worker": build_pod(request, group.worker, is_leader=False) if group.worker else None,
                "router": build_router(request) if request.kserve.gateway else None,
            }
        ),
    }


def _name_adapters(request: ServingRequest) -> dict[str, str]:
    loaded = _SEPARATOR.join(adapter.name for adapter in request.adapters)
    return {ANNOTATION_ADAPTERS: loaded} if loaded else {}


def list_loaded_adapters(service: Manifest) -> list[str]:
    """Returns the names of the adapters that the engines of a service load."""
    names = strings(service, "metadata.annotations").get(ANNOTATION_ADAPTERS, "")
    return names.split(_SEPARATOR) if names else []


def _build_parallelism(shape: Shape) -> Manifest:
    mode = shape.mode
    split = shape.parallelism
    return prune(
        {
            "tensor": None if mode is Mode.SINGLE and split.tensor == 1 else split.tensor,
            # KServe counts pods by this size, also if tensor parallelism spans the pods: the command has the stages.
            "pipeline": shape.nodes if mode is Mode.PIPELINE else None,
            "data": split.data if mode is Mode.DATA else None,
            "dataLocal": split.data_local if mode is Mode.DATA else None,
            "expert": True if split.expert else None,
        }
    )


def pipeline_preset_name(kserve: Kserve) -> str:
    """Returns the name that KServe's controller looks up, and that a service lists in `baseRefs`."""
    return f"{kserve.config_prefix}config-llm-worker-pipeline-parallel"


def build_pipeline_preset(kserve: Kserve) -> Manifest:
    """Returns the preset that KServe looks up for pipeline parallelism, but that no KServe release ships.

    The preset is empty on purpose: the service itself has everything that it needs. So a release of this function
    cannot restart a running service by changing the preset.
    """
    return {
        "apiVersion": SERVING_VERSION,
        "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": pipeline_preset_name(kserve), "namespace": kserve.namespace, "labels": {**MANAGED_BY}},
        "spec": {},
    }

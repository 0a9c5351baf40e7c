"""What somebody asked of a service's pods, as one short digest that the service carries with it.

A service is written anew when its wish changes, and stays as it is while only something else does: numbers that we
derive, what is built in, what another release of this function would write. So a wish holds the bytes and what people
said themselves, nothing that is computed, and nothing that is left at its default: a field that the API gains later
changes no wish of those who do not use it. What the pods of a mode never see is left out as well.

The form is for ever: another spelling here is another wish for every service there is, and restarts them all.
"""

import json
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from function.domain.environment import GPU_RESOURCE, Pool
from function.domain.model import CPU, MEMORY, Engine, HuggingFaceSource, Parallelism, Profile, Shape, Spread
from function.domain.pods import InterNode, PodAdditions
from function.domain.pull_secrets import PullSecret
from function.domain.settings import BUILT_IN
from function.domain.taints import own_taints
from function.kube.manifests import Manifest
from function.kube.names import digest
from function.serving.engines import Mode, mode_of
from function.serving.request import ServingRequest

_Told: TypeAlias = Mapping[str, object]


def compute_spec_digest(request: ServingRequest) -> str:
    """Return 16 hex digits: the same for the same wish, in whichever order it was written."""
    source = request.model.source
    told = _told(
        uri=request.uri,
        # Of two files in one directory; the name in an address is part of its key already.
        file=source.file if isinstance(source, HuggingFaceSource) else None,
        name=request.model.served_name,
        engine=_engine(request.profile.engine),
        spread=_spread(request.profile, request.shape),
        shape=_shape(request.shape),
        requests=_told(cpu=_unless(request.model.cpu, CPU), memory=_unless(request.model.memory, MEMORY)),
        pool=_pool(request.pool, request.shape.nodes),
        kserve=_kserve(request),
        initializer=request.initializer.named if request.initializer else None,
        imagePullSecrets=_pull_secrets(request.pull_secrets),
    )
    return digest(json.dumps(told, sort_keys=True, separators=(",", ":")))


def _told(**entries: object) -> _Told:
    """Return the entries that say anything. False counts, as nothing that is said by default is passed on."""
    return {key: value for key, value in entries.items() if value is False or value}


def _unless(value: str, default: str) -> str | None:
    return None if value == default else value


def _engine(engine: Engine) -> _Told:
    asked = engine.resources
    return _told(
        name=engine.name,
        image=engine.image,
        args=engine.args,
        env=engine.env,
        version=engine.version,
        resources=_told(cpu=asked.cpu, memory=asked.memory, ephemeralStorage=asked.ephemeral_storage, shm=asked.shm),
        imagePullSecrets=sorted(f"{secret.namespace}/{secret.name}" for secret in engine.pull_secrets),
    )


def _spread(profile: Profile, shape: Shape) -> _Told:
    pods, replicas = profile.pods_across_nodes, profile.replicas_across_nodes
    return _told(pods=pods if shape.nodes > 1 else None, replicas=_unless(replicas, Spread.NONE))


def _shape(shape: Shape) -> _Told:
    return _told(nodes=shape.nodes, gpusPerNode=shape.gpus_per_node, parallelism=_parallelism(shape.parallelism))


def _parallelism(split: Parallelism) -> _Told:
    return _told(
        tensor=split.tensor,
        pipeline=split.pipeline,
        data=split.data,
        dataLocal=split.data_local,
        expert=split.expert or None,
    )


def _pool(pool: Pool, nodes: int) -> _Told:
    taints = [{key: taint[key] for key in ("key", "value", "effect") if taint.get(key)} for taint in own_taints(pool)]
    return _told(
        labels=dict(pool.labels),
        # Their order means nothing to a node, nor to a pod that tolerates them.
        taints=_sorted(taints),
        gpuResource=_unless(pool.gpu_resource, GPU_RESOURCE),
        pod=_additions(pool.pod),
        interNode=_inter_node(pool.between(nodes)),
    )


def _additions(pod: PodAdditions) -> _Told:
    return _told(
        resources=dict(pod.resources),
        # A variable may name an earlier one; the rest has no order.
        env=pod.env,
        annotations=dict(pod.annotations),
        labels=dict(pod.labels),
        volumes=_sorted(pod.volumes),
        volumeMounts=_sorted(pod.volume_mounts),
        hostNetwork=pod.host_network,
        priorityClassName=pod.priority_class,
        schedulerName=pod.scheduler,
        runtimeClassName=pod.runtime_class,
        serviceAccountName=pod.service_account,
        imagePullSecrets=pod.pull_secrets,
        securityContext=pod.security,
        resourceClaims=_sorted(pod.resource_claims),
    )


def _pull_secrets(secrets: Iterable[PullSecret]) -> list[str]:
    said = ((secret.source, secret.name) for secret in secrets)
    return sorted(f"{source.namespace}/{source.name}" if source else name for source, name in said)


def _inter_node(between: InterNode | None) -> _Told:
    """Return what somebody said of it; what a preset makes of that is a release's."""
    if between is None:
        return {}
    inputs = between.inputs
    told = _told(
        instanceType=inputs.instance_type,
        resourceName=inputs.resource,
        count=inputs.count,
        networks=inputs.networks,
        ncclNet=inputs.nccl_net,
    )
    closed = None if between.fail_closed else False
    return _told(preset=between.preset, failClosed=closed, pod=_additions(between.pod), **{"with": told})


def _sorted(entries: Iterable[Manifest]) -> list[Manifest]:
    return sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))


def _kserve(request: ServingRequest) -> _Told:
    kserve, built_in = request.kserve, BUILT_IN.kserve
    named = mode_of(request.shape) is Mode.PIPELINE and kserve.config_prefix != built_in.config_prefix
    # An empty prefix is one, too.
    return {
        **_told(gateway=None if kserve.gateway == built_in.gateway else kserve.gateway, tls=kserve.tls or None),
        **({"configPrefix": kserve.config_prefix} if named else {}),
    }

"""The block `pod` of a pool, and of what lies over it for replicas of several nodes.

Everything passes through to the pods save for what is somebody else's: GPUs, cpu and memory are the replica's and the
model's, some labels are KServe's, some paths are mounted already.
"""

from collections.abc import Sequence

from function.api.block import Block, Faults
from function.api.downloads import check_env
from function.api.problems import join, shown
from function.domain.pods import PodAdditions
from function.domain.problem import Problem
from function.kube.manifests import Manifest, text

_SOURCES = ("hostPath", "emptyDir", "configMap", "secret", "persistentVolumeClaim", "projected", "csi")
_HUGE_PAGES = "hugepages-"
# Selectors and anti-affinity go by labels of these groups; KServe's router by its own.
_OWN_GROUPS = ("modelplane.ai", "app.kubernetes.io", "kserve.io", "llm-d.ai", "leaderworkerset.sigs.k8s.io")
# Volumes of KServe's presets, which a volume of the same name would replace.
_OWN_VOLUMES = ("dshm", "home", "tmp-dir", "model-cache", "tls-certs", "engine-cache", "initializer-certificates")
_OWN_MOUNTS = {
    "/mnt/models": "the model's weights",
    "/dev/shm": "shared memory",  # noqa: S108  # a mount
    "/var/cache/engine": "what the engine compiles",
    "/var/run/kserve/tls": "KServe's certificates",
}


def read_pod(block: Block, gpus: str) -> PodAdditions:
    """Return what every pod of a pool gets besides."""
    pod = read_additions(block, gpus)
    check_mounts(block.faults, pod, ((block.at("volumeMounts"), pod),))
    return pod


def read_additions(block: Block, gpus: str) -> PodAdditions:
    """Return what pods get besides, nothing where it has faults, as then nothing can be laid together.

    `gpus` is the resource that the pool's nodes offer their GPUs under.
    """
    if not block.fields:
        return PodAdditions()
    _check_resources(block.block("resources"), gpus)
    _check_keys(block, "labels")
    _check_keys(block, "annotations")
    _check_volumes(block)
    _check_claims(block)
    check_env(block)
    if block.problems():
        return PodAdditions()
    flag = block.fields.get("hostNetwork")
    resources = block.block("resources").fields.items()
    return PodAdditions(
        resources=tuple(sorted((name, str(amount)) for name, amount in resources)),
        env=block.maps("env"),
        annotations=block.strings("annotations"),
        labels=block.strings("labels"),
        volumes=block.maps("volumes"),
        volume_mounts=block.maps("volumeMounts"),
        host_network=flag if isinstance(flag, bool) else None,
        priority_class=block.text("priorityClassName"),
        scheduler=block.text("schedulerName"),
        runtime_class=block.text("runtimeClassName"),
        service_account=block.text("serviceAccountName"),
        pull_secrets=tuple(sorted(item.text("name") for item in block.blocks("imagePullSecrets"))),
        security=block.block("securityContext").fields,
        resource_claims=block.maps("resourceClaims"),
    )


def check_mounts(faults: Faults, given: PodAdditions, parts: Sequence[tuple[str, PodAdditions]]) -> None:
    """Note mounts of `given` that share a path, or have no volume.

    `parts`: what it was laid together from, each after the path of its `volumeMounts`, or what else it is called.
    """
    volumes = {text(volume, "name") for volume in given.volumes}
    taken = dict(_OWN_MOUNTS)
    for mount in given.volume_mounts:
        name, path = text(mount, "name"), text(mount, "mountPath").rstrip("/") or "/"
        where = next(place for place in (_place(mount, *part) for part in reversed(parts)) if place)
        if path in taken:
            allowed = f"another path than that of {taken[path]}"
            faults.add(Problem(where, f"volume {name} at {shown(path)} is not allowed; must be at {allowed}"))
        elif name not in volumes:
            faults.add(
                Problem(where, f"{shown(name)} is no volume; must be one of {', '.join(sorted(volumes)) or 'none'}")
            )
        taken[path] = f"volume {name} ({where})"


def _place(mount: Manifest, path: str, part: PodAdditions) -> str:
    if mount not in part.volume_mounts:
        return ""
    return join(path, part.volume_mounts.index(mount)) if path.startswith("spec.") else path


def _check_resources(resources: Block, gpus: str) -> None:
    for name in resources.fields:
        resources.quantity(name, "")
        extended = "/" in name and not name.startswith("kubernetes.io/")
        if not resources.problems(name) and not (extended or name.startswith(_HUGE_PAGES)):
            resources.deny(
                name, "under a name like vpc.amazonaws.com/efa or hugepages-2Mi; the model says cpu and memory"
            )
        elif not resources.problems(name) and name == gpus:
            resources.deny(name, f"left out, as the replica's shape says how many {gpus} a pod gets")


def _check_keys(block: Block, field: str) -> None:
    entries = block.block(field)
    for key in entries.fields:
        group, slash, _ = key.partition("/")
        whose = next((own for own in _OWN_GROUPS if slash and (group == own or group.endswith(f".{own}"))), "")
        if whose and not entries.problems(key):
            entries.deny(key, f"left out, as keys of {whose} are not the platform's")


def _check_volumes(block: Block) -> None:
    for volume in block.blocks("volumes"):
        sources = [name for name in _SOURCES if volume.has(name)]
        if volume.text("name") in _OWN_VOLUMES:
            volume.deny("name", f"none of {', '.join(_OWN_VOLUMES)}, which pods have already")
        if len(sources) > 1:
            volume.deny(sources[1], f"left out together with {sources[0]}")
        elif not sources and volume.fields:
            volume.demand("hostPath", f"or another of {', '.join(_SOURCES)}")


def _check_claims(block: Block) -> None:
    for claim in block.blocks("resourceClaims"):
        if claim.has("resourceClaimName") and claim.has("resourceClaimTemplateName"):
            claim.deny("resourceClaimTemplateName", "left out together with resourceClaimName")
        elif claim.fields and not (claim.has("resourceClaimName") or claim.has("resourceClaimTemplateName")):
            claim.demand("resourceClaimTemplateName", "or resourceClaimName")

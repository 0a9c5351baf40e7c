"""Parses the block `pod` of pools, and loads the presets for RDMA.

A `pod` block passes through to the pods except for what belongs to others: GPUs, CPU and memory to the replica and the
model, some labels to KServe, and some paths are mounted already.

Each file of `function/presets` is one way of a provider to RDMA, with its sources and the date they were read. `pod` is
as on a pool. The other fields: `resource` and `count` of the devices (`devices: false`: pods request none),
`instanceTypes` and what depends on them, `wholeNode: true` where one pod takes all devices of its node, `networks` and
how they are requested, `ncclNet`, without which NCCL should fail. The platform sets what a file leaves out in `with`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from function.api.block import Block, Faults, check_env
from function.api.problems import format_value, join_path
from function.domain.model import Problem
from function.domain.pods import PodAdditions, PresetInputs
from function.kube.manifests import Manifest, flag, integer, listing, mapping, text

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


def parse_pod(block: Block, gpus: str) -> PodAdditions:
    """Return what every pod of a pool gets besides."""
    pod = parse_additions(block, gpus)
    check_mounts(block.faults, pod, ((block.at("volumeMounts"), pod),))
    return pod


def parse_additions(block: Block, gpus: str) -> PodAdditions:
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
            faults.add(Problem(where, f"volume {name} at {format_value(path)} is not allowed; must be at {allowed}"))
        elif name not in volumes:
            faults.add(
                Problem(
                    where, f"{format_value(name)} is no volume; must be one of {', '.join(sorted(volumes)) or 'none'}"
                )
            )
        taken[path] = f"volume {name} ({where})"


def _place(mount: Manifest, path: str, part: PodAdditions) -> str:
    if mount not in part.volume_mounts:
        return ""
    return join_path(path, part.volume_mounts.index(mount)) if path.startswith("spec.") else path


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


_COMMON = "common"
_MULTUS = "k8s.v1.cni.cncf.io/networks"
_GKE_INTERFACES, _GKE_DEFAULT = "networking.gke.io/interfaces", "networking.gke.io/default-interface"
# eth0 is the pods' own network and eth1 another of the node's.
_GKE_FIRST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One way to RDMA. Empty, or None, where `with` must say it."""

    name: str
    source: tuple[str, ...]
    date: str
    devices: bool
    resource: str
    count: int | None
    instance_types: Mapping[str, Manifest]
    style: str
    networks: tuple[str, ...]
    per_device: bool
    nccl_net: str
    start: str
    whole_node: bool
    pod: PodAdditions

    @property
    def takes(self) -> dict[str, bool]:
        """Return the inputs that it takes, and whether each must be said; NCCL_NET only where it shall fail closed."""
        counted = self.count is not None or any("count" in each for each in self.instance_types.values())
        takes = {
            "instanceType": bool(self.instance_types),
            "resourceName": not self.resource,
            "count": not counted,
            "networks": not self.networks,
            "ncclNet": not self.nccl_net,
        }
        absent = {
            *(() if self.devices else ("resourceName", "count")),
            *(() if self.instance_types else ("instanceType",)),
            *(() if self.style else ("networks",)),
        }
        return {name: needed for name, needed in takes.items() if name not in absent}

    @property
    def only_counts(self) -> bool:
        """Whether nothing but the number of devices depends on the instance type."""
        return all(each.keys() == {"count"} for each in self.instance_types.values())

    def additions(self, inputs: PresetInputs, *, fail_closed: bool) -> PodAdditions:
        """Return what pods get, of inputs that are complete."""
        kind = self.instance_types.get(inputs.instance_type, {})
        count = inputs.count or integer(kind, "count") or self.count or 1
        env = listing(kind, "env")
        if fail_closed:
            env.append({"name": "NCCL_NET", "value": inputs.nccl_net or self.nccl_net})
        resource = inputs.resource or self.resource
        own = PodAdditions(
            resources=((resource, str(count)),) if self.devices else (),
            env=tuple(env),
            annotations=tuple(sorted(self._annotations(inputs.networks or self.networks, count).items())),
        )
        return own.over(self.pod.over(get_common_preset().pod))

    def _annotations(self, networks: tuple[str, ...], count: int) -> dict[str, str]:
        if self.style == "multus":
            every = networks * count if self.per_device and len(networks) == 1 else networks
            return {_MULTUS: ",".join(every)}
        if self.style == "gke":
            interfaces = [("eth0", "default"), *((f"eth{_GKE_FIRST + i}", name) for i, name in enumerate(networks))]
            wanted = [{"interfaceName": interface, "network": network} for interface, network in interfaces]
            return {_GKE_INTERFACES: json.dumps(wanted, separators=(",", ":")), _GKE_DEFAULT: "eth0"}
        return {}


def _load(name: str, read: Manifest) -> Preset:
    block = Block(read, name, Faults(()))
    networks = block.block("networks")
    return Preset(
        name=name,
        source=block.texts("source"),
        date=text(read, "date"),
        devices=block.flag("devices", default=True),
        resource=text(read, "resource"),
        count=block.integer("count"),
        instance_types={k: v for k, v in mapping(read, "instanceTypes").items() if isinstance(v, dict)},
        style=networks.text("style"),
        networks=networks.texts("names"),
        per_device=flag(networks.fields, "perDevice"),
        nccl_net=text(read, "ncclNet"),
        start=text(read, "start"),
        whole_node=flag(read, "wholeNode"),
        pod=parse_additions(block.block("pod"), ""),
    )


@cache
def list_presets() -> tuple[str, ...]:
    """Return the names of all presets."""
    files = (file.name for file in resources.files("function").joinpath("presets").iterdir())
    found = sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))
    return tuple(name for name in found if name != _COMMON)


def get_preset(name: str) -> Preset:
    """Return a preset, read when it is first asked for: most fleets need one or none.

    Raises:
        KeyError: There is none of that name.
    """
    if name not in list_presets():
        raise KeyError(name)
    return _read(name)


def get_common_preset() -> Preset:
    """Return what all presets share."""
    return _read(_COMMON)


@cache
def _read(name: str) -> Preset:
    import yaml  # noqa: PLC0415  # a tenth of the server's start, and only for who names a preset

    return _load(name, yaml.safe_load(resources.files("function").joinpath("presets", f"{name}.yaml").read_text()))

"""Parses the block `pod` of pools, and loads the presets for RDMA.

The fields of a `pod` block pass through to the pods, except for what belongs to others: GPUs, CPU and memory belong to
the replica and the model, some labels belong to KServe, and some paths are mounted already.

Each file of `function/presets` describes how pods get RDMA on one provider, with its sources and the date at which they
were read. Its fields are those of `Preset`. The platform sets in `with` what a file leaves out.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from pydantic.alias_generators import to_snake

from function import schemas
from function.api.problems import Problems, format_value, join_path
from function.api.values import check_alternatives, check_env, dump, dump_all, parse_quantity, sort_entries
from function.domain.model import Problem
from function.domain.pods import PodAdditions, PresetInputs
from function.kube.manifests import Manifest, flag, integer, list_texts, listing, text

_VOLUME_SOURCES = ("hostPath", "emptyDir", "configMap", "secret", "persistentVolumeClaim", "projected", "csi")
_HUGE_PAGES = "hugepages-"
# Groups whose labels selectors, anti-affinity and KServe's router use.
_RESERVED_GROUPS = ("modelplane.ai", "app.kubernetes.io", "kserve.io", "llm-d.ai", "leaderworkerset.sigs.k8s.io")
# Volumes of KServe's presets, which a volume of the same name would replace.
_RESERVED_VOLUMES = ("dshm", "home", "tmp-dir", "model-cache", "tls-certs", "engine-cache", "initializer-certificates")
_ADAPTER_VOLUME = re.compile("lora-[0-9]+")
_RESERVED_MOUNTS = {
    "/mnt/models": "the model's weights",
    "/mnt/lora": "LoRA adapters",
    "/dev/shm": "shared memory",  # noqa: S108  # a mount
    "/var/cache/engine": "what the engine compiles",
    "/var/run/kserve/tls": "KServe's certificates",
}
_COMMON = "common"
_MULTUS = "k8s.v1.cni.cncf.io/networks"
_GKE_INTERFACES = "networking.gke.io/interfaces"
_GKE_DEFAULT = "networking.gke.io/default-interface"
_GKE_FIRST_INTERFACE = 2  # eth0 is the network of the pod, eth1 another network of the node


def parse_additions(pod: schemas.Pod | None, gpu_resource: str, problems: Problems) -> PodAdditions:
    """Returns additions to pods; empty if they have problems, because then they cannot be merged.

    `gpu_resource` is the extended resource name of the GPUs of the pool.
    """
    if pod is None:
        return PodAdditions()
    _check_resources(pod.resources or {}, gpu_resource, problems["resources"])
    _check_keys(pod.labels or {}, problems["labels"])
    _check_keys(pod.annotations or {}, problems["annotations"])
    for index, volume in enumerate(pod.volumes or ()):
        at = problems["volumes"][index]
        if _ADAPTER_VOLUME.fullmatch(volume.name):
            at["name"].add_invalid(volume.name, "no lora-0, lora-1 and so on, which adapters have")
        if volume.name in _RESERVED_VOLUMES:
            at["name"].add_invalid(volume.name, f"none of {', '.join(_RESERVED_VOLUMES)}, which pods have already")
        check_alternatives(volume, _VOLUME_SOURCES, at, required=True)
    for index, claim in enumerate(pod.resource_claims or ()):
        names = ("resourceClaimName", "resourceClaimTemplateName")
        check_alternatives(claim, names, problems["resourceClaims"][index], required=True)
    check_env(pod.env, problems["env"])
    if problems.list():
        return PodAdditions()
    return PodAdditions(
        resources=tuple(sorted((name, str(amount)) for name, amount in (pod.resources or {}).items())),
        env=dump_all(pod.env),
        annotations=sort_entries(pod.annotations),
        labels=sort_entries(pod.labels),
        volumes=dump_all(pod.volumes),
        volume_mounts=dump_all(pod.volume_mounts),
        host_network=pod.host_network,
        priority_class=pod.priority_class_name or "",
        scheduler=pod.scheduler_name or "",
        runtime_class=pod.runtime_class_name or "",
        service_account=pod.service_account_name or "",
        pull_secrets=tuple(sorted(secret.name for secret in pod.image_pull_secrets or ())),
        security=dump(pod.security_context),
        resource_claims=dump_all(pod.resource_claims),
    )


def check_mounts(merged: PodAdditions, parts: Sequence[tuple[str, PodAdditions]], problems: Problems) -> None:
    """Adds a problem for each mount that shares its path with another, or has no volume.

    `parts` are the additions that were merged, each with the path of its `volumeMounts`, or with another name of its
    origin.
    """
    volumes = {text(volume, "name") for volume in merged.volumes}
    used = dict(_RESERVED_MOUNTS)
    for mount in merged.volume_mounts:
        name = text(mount, "name")
        path = text(mount, "mountPath").rstrip("/") or "/"
        origin, part = next((origin, part) for origin, part in reversed(parts) if mount in part.volume_mounts)
        at = join_path(origin, part.volume_mounts.index(mount)) if origin.startswith("spec.") else origin
        place = f"volume {name} at {format_value(path)}"
        if path in used:
            message = f"{place} is not allowed; must be at another path than that of {used[path]}"
            problems.update([Problem(at, message)])
        elif name not in volumes:
            allowed = ", ".join(sorted(volumes)) or "none"
            problems.update([Problem(at, f"{format_value(name)} is not a volume; must be one of {allowed}")])
        used[path] = f"volume {name} ({at})"


def _check_resources(amounts: Mapping[str, int | str], gpu_resource: str, problems: Problems) -> None:
    for name, amount in amounts.items():
        at = problems[name]
        parse_quantity(amount, at)
        extended = "/" in name and not name.startswith("kubernetes.io/")
        if at.list():
            continue
        if not (extended or name.startswith(_HUGE_PAGES)):
            allowed = "under a name like vpc.amazonaws.com/efa or hugepages-2Mi; the model sets cpu and memory"
            at.add_invalid(amount, allowed)
        elif name == gpu_resource:
            at.add_invalid(amount, f"left out, as the shape of the replica sets the number of {gpu_resource} of a pod")


def _check_keys(entries: Mapping[str, str], problems: Problems) -> None:
    for key, value in entries.items():
        group, slash, _ = key.partition("/")
        reserved = next((own for own in _RESERVED_GROUPS if slash and (group == own or group.endswith(f".{own}"))), "")
        if reserved:
            problems[key].add_invalid(value, f"left out, as keys of {reserved} are reserved")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One way to RDMA, with the fields of its file. Empty or None: the platform sets it in `with`."""

    name: str
    devices: bool = True  # whether pods request devices
    resource: str = ""
    count: int | None = None
    # What depends on the instance type: `count` and `env`.
    instance_types: Mapping[str, Manifest] = field(default_factory=dict)
    # `style` of the annotations (multus or gke), `names`, and `perDevice`: one network is joined once for each device.
    networks: Manifest = field(default_factory=dict)
    nccl_net: str = ""
    start: str = ""  # shell line before the start of the engine
    whole_node: bool = False  # one pod uses all devices of its node
    pod: PodAdditions

    @property
    def inputs(self) -> dict[str, bool]:
        """The inputs that the preset takes, and whether each is required; ncclNet only if NCCL fails closed."""
        counted = self.count is not None or any("count" in row for row in self.instance_types.values())
        inputs = {}
        if self.instance_types:
            inputs["instanceType"] = True
        if self.devices:
            inputs |= {"resourceName": not self.resource, "count": not counted}
        if self.networks:
            inputs["networks"] = not list_texts(self.networks, "names")
        inputs["ncclNet"] = not self.nccl_net
        return inputs

    def build_additions(self, inputs: PresetInputs, *, fail_closed: bool) -> PodAdditions:
        """Returns the additions to pods for complete inputs."""
        instance = self.instance_types.get(inputs.instance_type, {})
        count = inputs.count or integer(instance, "count") or self.count or 1
        env = listing(instance, "env")
        if fail_closed:
            env.append({"name": "NCCL_NET", "value": inputs.nccl_net or self.nccl_net})
        own = PodAdditions(
            resources=((inputs.resource or self.resource, str(count)),) if self.devices else (),
            env=tuple(env),
            annotations=sort_entries(self._annotate_networks(inputs.networks, count)),
        )
        return own.merge_over(self.pod.merge_over(get_preset(_COMMON).pod))

    def _annotate_networks(self, names: tuple[str, ...], count: int) -> dict[str, str]:
        style = text(self.networks, "style")
        networks = names or list_texts(self.networks, "names")
        if style == "multus":
            repeated = networks * count if flag(self.networks, "perDevice") and len(networks) == 1 else networks
            return {_MULTUS: ",".join(repeated)}
        if style == "gke":
            numbered = [(f"eth{_GKE_FIRST_INTERFACE + i}", name) for i, name in enumerate(networks)]
            interfaces = [{"interfaceName": name, "network": net} for name, net in [("eth0", "default"), *numbered]]
            return {_GKE_INTERFACES: json.dumps(interfaces, separators=(",", ":")), _GKE_DEFAULT: "eth0"}
        return {}


@cache
def get_preset(name: str) -> Preset:
    """Returns a preset, loaded at its first use; `common` has what all others share."""
    import yaml  # noqa: PLC0415  # a tenth of the server's start, and only needed with presets

    fields = yaml.safe_load(resources.files("function").joinpath("presets", f"{name}.yaml").read_text())
    block = schemas.Pod.model_validate(fields.pop("pod", {}))
    own = {to_snake(key): value for key, value in fields.items() if key not in ("source", "date")}
    return Preset(name=name, pod=parse_additions(block, "", Problems(f"{name}.pod")), **own)

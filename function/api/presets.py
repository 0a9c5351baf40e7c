"""What providers ask of pods that shall reach each other by RDMA: one file of `function/presets` for each way.

A file says where it was read, and when. What it gives pods stands in it as on a pool (`pod`), the rest says what else
has to be known: `resource` and `count` of the devices (`devices: false` where pods ask for none), `instanceTypes` with
what depends on them, `wholeNode: true` where one pod takes all devices of its node, `networks` with how they are asked
for, `ncclNet`, without which NCCL shall fail. What is left out there is the platform's to say, under the same name in
`with`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from function.api.block import Block, Faults
from function.api.pods import read_additions
from function.domain.pods import Inputs, PodAdditions
from function.kube.manifests import Manifest, flag, integer, listing, mapping, text

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

    def additions(self, inputs: Inputs, *, fail_closed: bool) -> PodAdditions:
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
        return own.over(self.pod.over(common().pod))

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
        pod=read_additions(block.block("pod"), ""),
    )


@cache
def names() -> tuple[str, ...]:
    """Return the names of all presets."""
    files = (file.name for file in resources.files("function").joinpath("presets").iterdir())
    found = sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))
    return tuple(name for name in found if name != _COMMON)


def named(name: str) -> Preset:
    """Return a preset, read when it is first asked for: most fleets need one or none.

    Raises:
        KeyError: There is none of that name.
    """
    if name not in names():
        raise KeyError(name)
    return _read(name)


def common() -> Preset:
    """Return what all presets share."""
    return _read(_COMMON)


@cache
def _read(name: str) -> Preset:
    import yaml  # noqa: PLC0415  # a tenth of the server's start, and only for who names a preset

    return _load(name, yaml.safe_load(resources.files("function").joinpath("presets", f"{name}.yaml").read_text()))

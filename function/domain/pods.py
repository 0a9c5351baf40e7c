"""What a platform adds to the pods of a pool, and the Secrets with which images are pulled.

Two blocks of additions are merged by name, the stronger one takes precedence: variables and volumes by their names,
mounts by the names of their volumes, maps by their keys. Capabilities and pull secrets add up.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from function.domain.model import SecretKey
from function.kube.manifests import JSON, Manifest, get, mapping, text
from function.kube.names import build_name
from function.kube.quantity import round_up

# Who joins these networks is given their devices by a webhook, or gets them with the network.
_NETWORKS = ("k8s.v1.cni.cncf.io/networks", "networking.gke.io/interfaces")
_INFINIBAND = "/dev/infiniband"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAdditions:
    """What pods get besides. Resources as quantities; empty, or None, where nothing is said."""

    resources: tuple[tuple[str, str], ...] = ()
    env: tuple[Manifest, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    volumes: tuple[Manifest, ...] = ()
    volume_mounts: tuple[Manifest, ...] = ()
    host_network: bool | None = None
    priority_class: str = ""
    scheduler: str = ""
    runtime_class: str = ""
    service_account: str = ""
    pull_secrets: tuple[str, ...] = ()
    security: Manifest = field(default_factory=dict)
    resource_claims: tuple[Manifest, ...] = ()

    def over(self, weaker: "PodAdditions") -> "PodAdditions":
        """Return these additions laid over weaker ones."""
        return PodAdditions(
            resources=_entries(weaker.resources, self.resources),
            env=merge_by_name(weaker.env, self.env),
            annotations=_entries(weaker.annotations, self.annotations),
            labels=_entries(weaker.labels, self.labels),
            volumes=merge_by_name(weaker.volumes, self.volumes),
            volume_mounts=merge_by_name(weaker.volume_mounts, self.volume_mounts),
            host_network=weaker.host_network if self.host_network is None else self.host_network,
            priority_class=self.priority_class or weaker.priority_class,
            scheduler=self.scheduler or weaker.scheduler,
            runtime_class=self.runtime_class or weaker.runtime_class,
            service_account=self.service_account or weaker.service_account,
            pull_secrets=tuple(sorted({*weaker.pull_secrets, *self.pull_secrets})),
            security=_security(weaker.security, self.security),
            resource_claims=merge_by_name(weaker.resource_claims, self.resource_claims),
        )

    @property
    def limits(self) -> tuple[tuple[str, str], ...]:
        """The resources without those of which there shall be none."""
        return tuple((name, amount) for name, amount in self.resources if round_up(amount))

    @property
    def reaches_devices(self) -> bool:
        """Whether pods come to network devices at all: by a resource, a claim, a network, or the node's own."""
        return bool(
            any("/" in name for name, _ in self.limits)
            or self.resource_claims
            or self.host_network
            or any(key in _NETWORKS for key, _ in self.annotations)
            or any(text(volume, "hostPath.path").startswith(_INFINIBAND) for volume in self.volumes)
            or self.security.get("privileged") is True
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetInputs:
    """What a preset cannot know. Empty, or None, where it is not said."""

    instance_type: str = ""
    resource: str = ""
    count: int | None = None
    networks: tuple[str, ...] = ()
    nccl_net: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterNode:
    """How the pods of a replica of several nodes reach each other.

    `preset`, `inputs`, `fail_closed` and `pod` are what somebody wrote. `given` is what comes of it: all that such pods
    get, the pool's own included. `preset_env`: the variables that the preset sets; `start`: a line that a shell reads
    before the engine starts; `whole_node`: one such pod takes the devices of a whole node.
    """

    preset: str = ""
    inputs: PresetInputs = PresetInputs()
    fail_closed: bool = True
    pod: PodAdditions = PodAdditions()
    merged: PodAdditions = PodAdditions()
    preset_env: frozenset[str] = frozenset()
    start: str = ""
    whole_node: bool = False


def merge_by_name(weaker: Iterable[Manifest], stronger: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """Return the weaker entries whose name no stronger one has, then the stronger ones."""
    said = tuple(stronger)
    names = {get(entry, "name") for entry in said}
    return (*(entry for entry in weaker if get(entry, "name") not in names), *said)


def _entries(weaker: Iterable[tuple[str, str]], stronger: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({**dict(weaker), **dict(stronger)}.items()))


def _security(weaker: Mapping[str, JSON], stronger: Mapping[str, JSON]) -> Manifest:
    merged: Manifest = {**weaker, **stronger}
    lists = {side: _both(side, weaker, stronger) for side in ("add", "drop")}
    capabilities: Manifest = {side: names for side, names in lists.items() if names}
    return merged | {"capabilities": capabilities} if capabilities else merged


def _both(side: str, *levels: Mapping[str, JSON]) -> list[JSON]:
    found = (mapping(dict(level), "capabilities").get(side) for level in levels)
    names = {name for entries in found if isinstance(entries, list) for name in entries if isinstance(name, str)}
    return [*sorted(names)]


TYPE = "kubernetes.io/dockerconfigjson"
KEY = ".dockerconfigjson"  # the one that this type has


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSecret:
    """A Secret `name` of the remote cluster; where there is a `source`, a copy of that one."""

    name: str = ""
    source: SecretKey | None = None

    def within(self, stem: str, *identity: str) -> "PullSecret":
        """Return it under the name that its copy has beside what `stem` and identity name; others keep theirs."""
        if self.source is None:
            return self
        origin = self.source.namespace, self.source.name
        return PullSecret(name=build_name(stem, *identity, stem, "pull", *origin), source=self.source)


def build_copied_secret(name: str, namespace: str) -> PullSecret:
    """Return a Secret of the control plane, not yet copied to anywhere."""
    return PullSecret(source=SecretKey(name=name, namespace=namespace, key=KEY))


def name_pull_secrets(secrets: Iterable[PullSecret], stem: str, *identity: str) -> tuple[PullSecret, ...]:
    """Return each Secret once, as it is named on the remote cluster."""
    return tuple(dict.fromkeys(secret.within(stem, *identity) for secret in secrets))

"""What a platform adds to the pods of a pool, and the Secrets with which images are pulled.

Two blocks of additions are merged by name, and the stronger block takes precedence: variables and volumes by their
names, mounts by the names of their volumes, maps by their keys. Capabilities and pull secrets add up.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from function.domain.model import SecretKey
from function.kube.manifests import Manifest, get, list_texts, text
from function.kube.names import build_name
from function.kube.quantity import round_up

# Annotations that attach a pod to networks; devices come with the network or from a webhook.
_NETWORKS = ("k8s.v1.cni.cncf.io/networks", "networking.gke.io/interfaces")
_INFINIBAND = "/dev/infiniband"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"  # names the LocalQueue by which Kueue admits pods


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAdditions:
    """Additions to pods; empty or None: not set."""

    resources: tuple[tuple[str, str], ...] = ()  # quantities by resource name
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

    def merge_over(self, weaker: "PodAdditions") -> "PodAdditions":
        return PodAdditions(
            resources=_merge_maps(weaker.resources, self.resources),
            env=merge_by_name(weaker.env, self.env),
            annotations=_merge_maps(weaker.annotations, self.annotations),
            labels=_merge_maps(weaker.labels, self.labels),
            volumes=merge_by_name(weaker.volumes, self.volumes),
            volume_mounts=merge_by_name(weaker.volume_mounts, self.volume_mounts),
            host_network=weaker.host_network if self.host_network is None else self.host_network,
            priority_class=self.priority_class or weaker.priority_class,
            scheduler=self.scheduler or weaker.scheduler,
            runtime_class=self.runtime_class or weaker.runtime_class,
            service_account=self.service_account or weaker.service_account,
            pull_secrets=tuple(sorted({*weaker.pull_secrets, *self.pull_secrets})),
            security=_merge_security(weaker.security, self.security),
            resource_claims=merge_by_name(weaker.resource_claims, self.resource_claims),
        )

    @property
    def queue(self) -> str:
        """The LocalQueue by which Kueue admits the pods; empty: none."""
        return dict(self.labels).get(QUEUE_LABEL, "")

    @property
    def limits(self) -> tuple[tuple[str, str], ...]:
        """The resources without those set to 0."""
        return tuple((name, amount) for name, amount in self.resources if round_up(amount))

    @property
    def reaches_devices(self) -> bool:
        """Tells whether pods get network devices: by a resource, a claim, a network, or those of the node."""
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
    """Inputs of a preset that the platform sets; empty or None: not set."""

    instance_type: str = ""
    resource: str = ""
    count: int | None = None
    networks: tuple[str, ...] = ()
    nccl_net: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterNode:
    """Settings of a pool for replicas over several nodes. The last four fields are computed from the others."""

    preset: str = ""
    inputs: PresetInputs = PresetInputs()
    fail_closed: bool = True
    pod: PodAdditions = PodAdditions()
    merged: PodAdditions = PodAdditions()  # all additions to such pods: the pool's, the preset's and `pod`
    preset_env: frozenset[str] = frozenset()  # names of variables that the preset sets
    start: str = ""  # shell line before the start of the engine
    whole_node: bool = False  # one such pod uses the devices of a complete node


def merge_by_name(weaker: Iterable[Manifest], stronger: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """Returns the weaker entries whose names no stronger entry has, then the stronger entries."""
    overrides = tuple(stronger)
    names = {get(entry, "name") for entry in overrides}
    return (*(entry for entry in weaker if get(entry, "name") not in names), *overrides)


def add_variables(env: Iterable[Manifest], defaults: Mapping[str, str]) -> list[Manifest]:
    """Returns the variables of a container, then the defaults whose names no variable has."""
    variables = [*env]
    names = {text(entry, "name") for entry in variables}
    missing: list[Manifest] = [{"name": name, "value": defaults[name]} for name in defaults if name not in names]
    return variables + missing


def _merge_maps(weaker: Iterable[tuple[str, str]], stronger: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({**dict(weaker), **dict(stronger)}.items()))


def _merge_security(weaker: Manifest, stronger: Manifest) -> Manifest:
    merged: Manifest = {**weaker, **stronger}
    capabilities: Manifest = {}
    for side in ("add", "drop"):
        names = {name for level in (weaker, stronger) for name in list_texts(level, f"capabilities.{side}")}
        if names:
            capabilities[side] = [*sorted(names)]
    return merged | {"capabilities": capabilities} if capabilities else merged


DOCKER_CONFIG_TYPE = "kubernetes.io/dockerconfigjson"
KEY = ".dockerconfigjson"  # the only key of this type


@dataclass(frozen=True, slots=True, kw_only=True)
class PullSecret:
    """A Secret of the remote cluster to pull images with; with `source`, a copy of that Secret of the control plane."""

    name: str = ""
    source: SecretKey | None = None


def build_copied_secret(name: str, namespace: str) -> PullSecret:
    """Returns a copy of a Secret of the control plane, without a name on the remote cluster yet."""
    return PullSecret(source=SecretKey(name=name, namespace=namespace, key=KEY))


def name_pull_secrets(secrets: Iterable[PullSecret], stem: str, *identity: str) -> tuple[PullSecret, ...]:
    """Returns each Secret once, copies with their names on the remote cluster.

    The name of a copy is a hash that includes its origin, so that it never is the name of a Secret that a user created.
    """
    named: dict[PullSecret, None] = {}
    for secret in secrets:
        name = secret.name
        if secret.source:
            name = build_name(stem, *identity, stem, "pull", secret.source.namespace, secret.source.name)
        named[PullSecret(name=name, source=secret.source)] = None
    return tuple(named)

"""Parses InferenceEnvironments: access to the cluster, its pools, its storage, and what was observed of it.

A pool with problems is left out and named, the other pools still count. A problem anywhere else makes the environment
broken: nothing new is decided there and workloads keep running, because a storage class that cannot be read is not
an absent one. A pool without GPUs is left out silently.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from function.api.block import Block
from function.api.common import is_current, is_ready, parse_selector, parse_share
from function.api.node_pool import parse_pool
from function.api.parse_cache import KeyedParseCache
from function.api.problems import Parsed
from function.api.settings import parse_download, parse_kserve
from function.domain.allocation import Free, Grant, Share
from function.domain.environment import (
    Drift,
    Drifted,
    Environment,
    EnvironmentStorage,
    Hardware,
    Observe,
    Pool,
    PoolFacts,
    StorageMode,
    Unfit,
    Unusable,
    find_pools,
)
from function.domain.model import Problem, SecretKey
from function.domain.pods import PullSecret, build_copied_secret
from function.domain.settings import Settings
from function.kube import names, quantity
from function.kube.manifests import Manifest, condition, get, integer, listing, mapping, strings, text
from function.schemas import EnvironmentSpec

_PAUSED = "crossplane.io/paused"
_SOURCES = {"Existing": "existing", "GKE": "gke"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The Secrets with which a cluster is reached; the type of identity in provider-kubernetes' words."""

    kubeconfig: SecretKey
    identity: SecretKey | None = None
    identity_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedEnvironment(Parsed[Environment]):
    """An environment as decisions see it, how to reach its cluster, and every fault of its manifest."""

    access: ClusterAccess | None
    pool_problems: tuple[Problem, ...]

    @property
    def other_problems(self) -> tuple[Problem, ...]:
        """The faults outside the pools, which make the environment broken."""
        return tuple(problem for problem in self.problems if problem not in self.pool_problems)


def name_provider_config(environment: str) -> str:
    """Return the name of the ClusterProviderConfig of an environment's cluster."""
    return names.build_name(environment, "environment", environment)


def parse_environment(manifest: Manifest, settings: Settings) -> ParsedEnvironment:
    """Return the environment with what the platform's settings add where it says nothing."""
    name = text(manifest, "metadata.name")
    spec = Block.checked(EnvironmentSpec, manifest.get("spec"), "spec")
    access = _access(spec.block("cluster"), name, settings.secret_namespace)
    pools, broken_pools, pool_problems = _pools(spec)
    storage = _storage(spec.block("storage"), settings)
    kserve = parse_kserve(spec.block("kserve"), settings.kserve)
    hardware = parse_hardware(spec.block("hardware"))
    pull_secrets = tuple(_pull_secret(item, settings.secret_namespace) for item in spec.blocks("imagePullSecrets"))
    problems = spec.problems()
    published = {text(pool, "name"): pool for pool in listing(manifest, "status.pools")}
    moved = _moved(published, pools, broken_pools)
    ready, ready_message = _readiness(manifest)
    environment = Environment(
        name=name,
        uid=text(manifest, "metadata.uid"),
        labels=tuple(sorted(strings(manifest, "metadata.labels").items())),
        pools=tuple(_observed(pool, published.get(pool.name, {})) for pool in pools),
        broken_pools=broken_pools,
        broken=any(problem not in pool_problems for problem in problems),
        storage=storage,
        hardware=hardware,
        pull_secrets=pull_secrets,
        kserve=kserve,
        provider_config=text(manifest, "status.providerConfigRef.name") or name_provider_config(name),
        ready=ready,
        ready_message=ready_message,
        deleting=get(manifest, "metadata.deletionTimestamp") is not None,
        free={name: _free(pool) for name, pool in published.items() if "free" in pool and name not in moved},
        admitted=_admitted(map(_grant, listing(manifest, "status.admitted")), moved),
        rejected=frozenset((text(row, "uid"), text(row, "pool")) for row in listing(manifest, "status.rejected")),
    )
    return ParsedEnvironment(environment, problems, access=access, pool_problems=pool_problems)


def _value(manifest: Manifest, settings: Settings) -> Environment:
    return parse_environment(manifest, settings).value


# Of all environments, whichever composer is sent them.
ENVIRONMENTS: KeyedParseCache[Settings, Environment] = KeyedParseCache(_value)


def _access(cluster: Block, environment: str, namespace: str) -> ClusterAccess | None:
    """Return the access to the cluster; None where it has faults.

    A Secret that names no namespace is in the platform's. GKE's kubeconfig has a name by default, under which
    whatever made the cluster writes it.
    """
    source = cluster.text("source")
    for name, field in _SOURCES.items():
        if source and name != source and cluster.has(field):
            cluster.deny(field, f"left out, as source is {source}")
        if name == source and not cluster.has(field):
            cluster.demand(field, f"as source is {source}")
    block = cluster.block(_SOURCES.get(source, ""))
    if not block.fields or block.problems("secretRef") or block.problems("identitySecretRef"):
        return None
    kubeconfig = _cluster_secret(block.block("secretRef"), f"{environment}-kubeconfig", "kubeconfig", namespace)
    reference = block.block("identitySecretRef")
    if not reference.fields:
        return ClusterAccess(kubeconfig=kubeconfig)
    return ClusterAccess(
        kubeconfig=kubeconfig,
        identity=_cluster_secret(reference, "", "private_key", namespace),
        identity_type=reference.text("type", "GoogleApplicationCredentials"),
    )


def _cluster_secret(block: Block, name: str, key: str, namespace: str) -> SecretKey:
    return SecretKey(
        name=block.text("name", name), namespace=block.text("namespace", namespace), key=block.text("key", key)
    )


def _pull_secret(block: Block, namespace: str) -> PullSecret:
    """Return a Secret to pull images with: of the cluster, or of the control plane, there by default the platform's."""
    reference = block.block("secretRef")
    if block.has("name") and reference.fields:
        block.deny("secretRef", "left out together with name")
    elif block.fields and not block.has("name") and not reference.fields:
        block.demand("name", "or secretRef")
    if block.has("name"):
        return PullSecret(name=block.text("name"))
    return build_copied_secret(reference.text("name"), reference.text("namespace", namespace))


def _pools(spec: Block) -> tuple[tuple[Pool, ...], tuple[str, ...], tuple[Problem, ...]]:
    """Return the valid pools, the names of the others, and what is wrong with those."""
    cluster = spec.block("cluster")
    places = [b for b in (spec, cluster.block("existing"), cluster.block("gke")) if b.has("nodePools")]
    for place in places[1:]:
        place.deny("nodePools", f"left out together with {places[0].at('nodePools')}")
    pools: list[Pool] = []
    broken: list[str] = []
    problems: list[Problem] = []
    seen: dict[str, str] = {}
    for item in (item for place in places for item in place.blocks("nodePools")):
        pool = parse_pool(item)
        if pool.name and seen.setdefault(pool.name, item.path) != item.path:
            item.deny("name", f"unique, and {seen[pool.name]} has it already")
        faults = item.problems()
        problems += faults
        if faults:
            broken.append(pool.name)
        elif pool.gpus_per_node > 0:
            pools.append(pool)
    return tuple(pools), tuple(broken), tuple(problems)


def _storage(block: Block, settings: Settings) -> EnvironmentStorage:
    claim = block.block("sharedClaim")
    size, bandwidth = claim.amount("size"), block.number("readBandwidth")
    ours = EnvironmentStorage()
    return EnvironmentStorage(
        class_name=block.optional_text("storageClassName", settings.storage_class),
        access_mode=block.text("accessMode", ours.access_mode),
        mode=StorageMode.SHARED if block.text("mode") == StorageMode.SHARED else StorageMode.PER_MODEL,
        shared_claim=claim.text("name", ours.shared_claim),
        shared_size=ours.shared_size if size is None else size,
        size_enforced=block.flag("sizeEnforced", ours.size_enforced),
        read_bandwidth=None if bandwidth is None else int(bandwidth * 10**9),
        download=parse_download(block.block("download"), settings.download),
    )


def _observed(pool: Pool, published: Manifest) -> Pool:
    facts = parse_facts(published)
    return replace(pool, facts=facts) if facts else pool


def _free(pool: Manifest) -> Free:
    nodes = tuple((integer(level, "gpus"), integer(level, "nodes")) for level in listing(pool, "free"))
    return Free(placements=integer(pool, "placements"), nodes=nodes)


def _moved(
    published: Mapping[str, Manifest], pools: Sequence[Pool], broken_pools: Collection[str]
) -> dict[str, frozenset[str]]:
    """Returns the published pools whose name stands for other nodes now, with the pools that select their nodes.

    Until the environment publishes its ledger for the new labels, what it says of such a pool is about other nodes.
    """
    labels = {pool.name: dict(pool.labels) for pool in pools}
    moved: dict[str, frozenset[str]] = {}
    for name, row in published.items():
        selector = strings(row, "nodeSelector")
        recorded = isinstance(get(row, "nodeSelector"), dict) and name not in broken_pools
        if recorded and labels.get(name) != selector:
            nodes = Share(pool=name, nodes=0, gpus_per_node=0, replicas=0, labels=tuple(selector.items()))
            moved[name] = find_pools(nodes, pools)
    return moved


def _admitted(grants: Iterable[Grant], moved: Mapping[str, frozenset[str]]) -> tuple[Grant, ...]:
    """Returns the published grants, each for the pools that select now the nodes for which it was given."""
    if not moved:
        return tuple(grants)
    found: dict[tuple[str, str, int, int], Grant] = {}
    for grant in grants:
        for name in sorted(moved.get(grant.share.pool, {grant.share.pool})):
            share = replace(grant.share, pool=name)
            key = grant.uid, name, share.nodes, share.gpus_per_node
            if key not in found or found[key].share.replicas < share.replicas:
                found[key] = replace(grant, share=share)
    return tuple(found.values())


def _grant(row: Manifest) -> Grant:
    return Grant(uid=text(row, "uid"), namespace=text(row, "namespace"), name=text(row, "name"), share=parse_share(row))


def _readiness(manifest: Manifest) -> tuple[bool, str]:
    if strings(manifest, "metadata.annotations").get(_PAUSED) == "true":
        return False, f"is paused by its annotation {_PAUSED}"
    if is_ready(manifest):
        return True, ""
    if not is_current(manifest):
        return False, "has not reported Ready for its latest change yet"
    observed = condition(manifest, "Ready")
    words = (text(observed, "reason"), text(observed, "message"))
    return False, ": ".join(word for word in words if word) or "has not reported Ready yet"


def parse_hardware(block: Block) -> Hardware:
    """Return whether nodes are looked at; a selector that would admit every node is a fault."""
    chosen = block.block("selector")
    if block.has("selector") and not parse_selector(chosen).requirements and not block.problems("selector"):
        block.deny("selector", "at least one of matchLabels and matchExpressions, with something in it")
    given = chosen.fields if block.sound("selector") else None
    observe = block.text("observe")
    return Hardware(observe=Observe(observe) if observe in set(Observe) else Observe.AUTO, selector=given)


def parse_facts(pool: Manifest) -> PoolFacts | None:
    """Return what a pool of an environment's status was observed to be; words that are not known are left out."""
    found = mapping(pool, "observed")
    if not found:
        return None
    return PoolFacts(
        nodes=integer(found, "nodes"),
        usable=integer(found, "usable"),
        unusable=tuple(_unusable(row) for row in listing(found, "unusable") if text(row, "reason") in set(Unfit)),
        gpus_per_node=integer(found, "gpusPerNode") or None,
        product=text(found, "product"),
        memory_per_gpu=_amount(text(found, "memoryPerGpu")),
        drift=tuple(_drift(row) for row in listing(found, "drift") if text(row, "field") in set(Drifted)),
    )


def _unusable(row: Manifest) -> Unusable:
    return Unusable(
        reason=Unfit(text(row, "reason")), detail=text(row, "detail"), count=integer(row, "count"), nodes=_names(row)
    )


def _drift(row: Manifest) -> Drift:
    return Drift(
        field=Drifted(text(row, "field")),
        declared=text(row, "declared"),
        observed=text(row, "observed"),
        nodes=_names(row),
    )


def _names(row: Manifest) -> tuple[str, ...]:
    found = get(row, "nodes")
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()


def _amount(said: str) -> int | None:
    try:
        return quantity.parse_observed(said) if said else None
    except ValueError:
        return None

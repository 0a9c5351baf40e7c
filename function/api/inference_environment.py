"""Parses InferenceEnvironments: access to the cluster, its pools, its storage, and what was observed of it.

A pool with problems is left out and named, and the other pools still count. A price with problems counts as no price. A
problem anywhere else makes the environment broken: nothing new is placed there, and workloads keep running, because a
storage class that cannot be read is not the same as no storage class. A pool without GPUs is left out silently.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from function import schemas
from function.api.node_pool import parse_pool
from function.api.parse_cache import ParseCache
from function.api.problems import Parsed, Problems, validate
from function.api.settings import parse_download, parse_kserve
from function.api.values import (
    check_alternatives,
    check_unique,
    choose_block,
    dump,
    dump_all,
    parse_amount,
    parse_selector,
    parse_url,
    sort_entries,
)
from function.domain.allocation import Free, Grant, Share
from function.domain.environment import (
    Drift,
    DriftField,
    Environment,
    EnvironmentStorage,
    Observe,
    Pool,
    PoolFacts,
    Unusable,
    UnusableReason,
    find_pools,
)
from function.domain.model import BrokenEntry, Problem, SecretKey
from function.domain.model_service import GatewayAccess
from function.domain.pods import PullSecret, build_copied_secret
from function.domain.records.shares import parse_recorded_labels, parse_share
from function.domain.settings import Settings
from function.kube import names, quantity
from function.kube.manifests import (
    Manifest,
    condition,
    integer,
    is_condition_current,
    is_deleting,
    is_ready,
    list_texts,
    listing,
    mapping,
    strings,
    text,
)
from function.kube.messages import to_one_line
from function.kube.selectors import Taint
from function.kube.urls import is_hostname

# The path of a price, and of its fields.
_PRICE = re.compile(r"spec\.(cluster\.(existing|gke)\.)?nodePools\[\d+\]\.price(\.|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    kubeconfig: SecretKey
    identity: SecretKey | None = None
    identity_type: str = ""  # as in the ProviderConfig of provider-kubernetes


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedEnvironment(Parsed[Environment]):
    access: ClusterAccess | None
    invalid_pools: tuple[BrokenEntry, ...]

    @property
    def pool_problems(self) -> tuple[Problem, ...]:
        """The problems of all pools that are left out, and of the prices of pools that still count."""
        invalid = {problem for pool in self.invalid_pools for problem in pool.problems}
        return tuple(problem for problem in self.problems if problem in invalid or _PRICE.match(problem.path))

    @property
    def other_problems(self) -> tuple[Problem, ...]:
        """The problems outside the pools, which make the environment broken."""
        return tuple(problem for problem in self.problems if problem not in self.pool_problems)


def name_provider_config(environment: str) -> str:
    return names.build_name(environment, "environment", environment)


def parse_environment(manifest: Manifest, settings: Settings) -> ParsedEnvironment:
    """Returns the environment, completed by the platform's settings."""
    name = text(manifest, "metadata.name")
    spec, problems = validate(schemas.EnvironmentSpec, manifest.get("spec"), "spec")
    access = _parse_access(spec.cluster, name, settings.secret_namespace, problems["cluster"])
    published = {text(pool, "name"): pool for pool in listing(manifest, "status.pools")}
    pools, invalid_pools = _parse_pools(spec, published, problems)
    broken_pools = tuple(pool.name for pool in invalid_pools)
    moved = _find_moved_pools(published, pools, broken_pools)
    unready = _describe_unreadiness(manifest)
    environment = Environment(
        name=name,
        uid=text(manifest, "metadata.uid"),
        labels=sort_entries(strings(manifest, "metadata.labels")),
        taints=tuple(
            Taint(key=taint.key, value=taint.value or "", effect=taint.effect, reason=to_one_line(taint.reason or ""))
            for taint in spec.taints or ()
        ),
        pools=pools,
        broken_pools=broken_pools,
        storage=_parse_storage(spec.storage or schemas.Storage(), manifest, settings, problems["storage"]),
        observe=Observe(spec.hardware.observe if spec.hardware else Observe.AUTO),
        node_selector=_parse_node_selector(spec.hardware, problems["hardware.selector"]),
        pull_secrets=tuple(
            _parse_pull_secret(secret, settings.secret_namespace, problems["imagePullSecrets"][index])
            for index, secret in enumerate(spec.image_pull_secrets or ())
        ),
        kserve=parse_kserve(spec.kserve, settings.kserve, problems["kserve"]),
        gateway=_parse_gateway(spec.gateway, problems["gateway"]),
        provider_config=text(manifest, "status.providerConfigRef.name") or name_provider_config(name),
        ready=not unready,
        ready_message=unready,
        paused=_is_paused(manifest),
        deleting=is_deleting(manifest),
        free={name: _parse_free(pool) for name, pool in published.items() if "free" in pool and name not in moved},
        admitted=_parse_grants(listing(manifest, "status.admitted"), moved),
        rejected=frozenset((text(row, "uid"), text(row, "pool")) for row in listing(manifest, "status.rejected")),
    )
    parsed = ParsedEnvironment(environment, problems.list(), access=access, invalid_pools=invalid_pools)
    return replace(parsed, value=replace(environment, broken=True)) if parsed.other_problems else parsed


ENVIRONMENT_CACHE: ParseCache[Environment] = ParseCache(lambda item, settings: parse_environment(item, settings).value)


def _parse_access(
    cluster: schemas.Cluster, environment: str, namespace: str, problems: Problems
) -> ClusterAccess | None:
    """Returns the access to the cluster; None if it has problems.

    A Secret without a namespace is in the platform's secret namespace. The kubeconfig of a GKE cluster has a default
    name, under which the creator of the cluster writes it.
    """
    blocks: dict[str, tuple[str, schemas.Existing | schemas.Gke | None]] = {
        "Existing": ("existing", cluster.existing),
        "GKE": ("gke", cluster.gke),
    }
    at, block = choose_block(cluster.source, blocks, problems)
    if block is None or at["secretRef"].list() or at["identitySecretRef"].list():
        return None
    secret = block.secret_ref or schemas.GkeSecretRef()
    identity = block.identity_secret_ref
    secret_name = secret.name or f"{environment}-kubeconfig"
    kubeconfig = SecretKey(name=secret_name, namespace=secret.namespace or namespace, key=secret.key)
    if identity is None:
        return ClusterAccess(kubeconfig=kubeconfig)
    identity_key = SecretKey(name=identity.name, namespace=identity.namespace or namespace, key=identity.key)
    return ClusterAccess(kubeconfig=kubeconfig, identity=identity_key, identity_type=identity.type)


def _parse_pull_secret(block: schemas.EnvironmentImagePullSecret, namespace: str, problems: Problems) -> PullSecret:
    """Returns a Secret to pull images with: of the remote cluster, or to be copied from the control plane."""
    check_alternatives(block, ("name", "secretRef"), problems, required=True)
    if block.name or block.secret_ref is None:
        return PullSecret(name=block.name or "")
    return build_copied_secret(block.secret_ref.name, block.secret_ref.namespace or namespace)


def _parse_pools(
    spec: schemas.EnvironmentSpec, published: Mapping[str, Manifest], problems: Problems
) -> tuple[tuple[Pool, ...], tuple[BrokenEntry, ...]]:
    """Returns the valid pools with the published facts of their nodes, and the invalid pools with their problems."""
    existing, gke = spec.cluster.existing, spec.cluster.gke
    lists = {
        "nodePools": spec.node_pools,
        "cluster.existing.nodePools": existing.node_pools if existing else None,
        "cluster.gke.nodePools": gke.node_pools if gke else None,
    }
    declared = [(problems[key], blocks) for key, blocks in lists.items() if blocks is not None]
    for at, blocks in declared[1:]:
        at.add_invalid(dump_all(blocks), f"left out together with {declared[0][0].path}")
    pools: list[Pool] = []
    invalid: list[BrokenEntry] = []
    entries = [(at[index], block) for at, blocks in declared for index, block in enumerate(blocks)]
    check_unique((at, block.name) for at, block in entries)
    for at, block in entries:
        pool = parse_pool(block, _parse_facts(published.get(block.name, {})), at)
        twins = (p for p in pools if pool.labels and p.may_start_on(pool) and pool.may_start_on(p))
        if twin := next(twins, None):
            at["labels"].add(f"pool {twin.name} has the same; its nodes would be counted twice")
        problems_of_pool = at.list()
        if not all(_PRICE.match(problem.path) for problem in problems_of_pool):
            invalid.append(BrokenEntry(name=pool.name or at.path, problems=problems_of_pool))
        elif pool.gpus_per_node > 0:
            pools.append(pool)
    return tuple(pools), tuple(invalid)


def _parse_storage(
    block: schemas.Storage, manifest: Manifest, settings: Settings, problems: Problems
) -> EnvironmentStorage:
    claim = block.shared_claim or schemas.SharedClaim()
    bandwidth = block.read_bandwidth
    published = mapping(manifest, "status.storage")
    size = parse_amount(claim.size, problems["sharedClaim.size"])
    return EnvironmentStorage(
        class_name=settings.storage_class if block.storage_class_name is None else block.storage_class_name,
        missing_class=text(published, "storageClassName") if published.get("found") is False else "",
        access_mode=block.access_mode,
        is_shared=block.mode == "Shared",
        shared_claim=claim.name,
        shared_size=EnvironmentStorage().shared_size if size is None else size,
        size_enforced=block.size_enforced,
        read_bandwidth=None if bandwidth is None else int(Decimal(str(bandwidth)) * 10**9),
        download=parse_download(block.download, settings.download, problems["download"]),
    )


def _parse_node_selector(block: schemas.Hardware | None, problems: Problems) -> Manifest | None:
    """Returns the LabelSelector of the observed nodes; None if there is none, or if it has problems."""
    if block is None or block.selector is None:
        return None
    selector = parse_selector(block.selector, problems)
    if not selector.requirements and not problems.list():
        problems.add_invalid(dump(block.selector), "a selector with matchLabels or matchExpressions")
    return None if problems.list() else dump(block.selector)


def _parse_gateway(block: schemas.Gateway | None, problems: Problems) -> GatewayAccess:
    """Returns how the gateway is reached; the host name in its certificate must be a name."""
    if block is None:
        return GatewayAccess()
    tls = block.tls or schemas.Tls()
    if tls.hostname and not is_hostname(tls.hostname):
        problems["tls.hostname"].add_invalid(tls.hostname, "a host name such as gateway.example.com")
    return GatewayAccess(
        origin=parse_url(block.url, problems["url"]),
        tls_hostname=tls.hostname or "",
        ca_config_map=tls.ca_config_map_name or "",
    )


def _find_moved_pools(
    published: Mapping[str, Manifest], pools: Sequence[Pool], broken_pools: Collection[str]
) -> dict[str, frozenset[str]]:
    """Returns the published pools whose labels have changed, with the pools that select their nodes now.

    Until the environment publishes its ledger for the new labels, the published row of such a pool is about other
    nodes.
    """
    labels = {pool.name: pool.labels for pool in pools}
    moved: dict[str, frozenset[str]] = {}
    for name, row in published.items():
        selector = parse_recorded_labels(row)
        if selector is not None and name not in broken_pools and labels.get(name) != selector:
            moved[name] = find_pools(Share(pool=name, nodes=0, gpus_per_node=0, replicas=0, labels=selector), pools)
    return moved


def _parse_grants(rows: Iterable[Manifest], moved: Mapping[str, frozenset[str]]) -> tuple[Grant, ...]:
    """Returns the published grants; each grant is for the pools that select its nodes now."""
    largest: dict[tuple[str, str, int, int], Grant] = {}
    for row in rows:
        uid = text(row, "uid")
        share = parse_share(row)
        requested = text(row, "requestedPool") or share.pool
        for name in sorted(moved.get(share.pool, {share.pool})):
            key = uid, name, share.nodes, share.gpus_per_node
            if key not in largest or largest[key].share.replicas < share.replicas:
                largest[key] = Grant(
                    uid=uid,
                    namespace=text(row, "namespace"),
                    name=text(row, "name"),
                    share=replace(share, pool=name),
                    requested_pool=requested if requested != name else "",
                    generation=integer(row, "generation"),
                    revoked=text(row, "revoked"),
                )
    return tuple(largest.values())


def _parse_free(row: Manifest) -> Free:
    nodes = tuple((integer(level, "gpus"), integer(level, "nodes")) for level in listing(row, "free"))
    return Free(placements=integer(row, "placements"), nodes=nodes)


def _is_paused(manifest: Manifest) -> bool:
    return strings(manifest, "metadata.annotations").get(names.PAUSED) == "true"


def _describe_unreadiness(manifest: Manifest) -> str:
    """Returns why the environment is not Ready; empty if it is."""
    if _is_paused(manifest):
        return f"paused by its annotation {names.PAUSED}"
    if is_ready(manifest):
        return ""
    if not is_condition_current(manifest):
        return "has not reported Ready for its latest change yet"
    ready = condition(manifest, "Ready")
    words = (text(ready, "reason"), text(ready, "message"))
    return to_one_line(": ".join(word for word in words if word)) or "has not reported Ready yet"


def _parse_facts(pool: Manifest) -> PoolFacts | None:
    """Returns the observed nodes of a pool in status, without reasons and fields that are unknown."""
    observed = mapping(pool, "observed")
    if not observed:
        return None
    return PoolFacts(
        nodes=integer(observed, "nodes"),
        usable=integer(observed, "usable"),
        unusable=tuple(
            Unusable(
                reason=UnusableReason(text(row, "reason")),
                detail=text(row, "detail"),
                count=integer(row, "count"),
                nodes=list_texts(row, "nodes"),
            )
            for row in listing(observed, "unusable")
            if text(row, "reason") in set(UnusableReason)
        ),
        gpus_per_node=integer(observed, "gpusPerNode") or None,
        product=text(observed, "product"),
        memory_per_gpu=quantity.parse_or_none(text(observed, "memoryPerGpu")),
        drift=tuple(
            Drift(
                field=DriftField(text(row, "field")),
                declared=text(row, "declared"),
                observed=text(row, "observed"),
                nodes=list_texts(row, "nodes"),
            )
            for row in listing(observed, "drift")
            if text(row, "field") in set(DriftField)
        ),
    )

"""Parses InferenceEnvironments: access to the cluster, its pools, its storage, and what was observed of it.

A pool with problems is left out and named, and the other pools still count. A price with problems counts as no price. A
problem anywhere else makes the environment broken: nothing new is placed there, and workloads keep running, because a
storage class that cannot be read is not the same as no storage class. A pool without GPUs is left out silently.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from function import schemas
from function.api.node_pool import parse_pool
from function.api.parse_cache import ParseCache
from function.api.pools_in_use import Conflict, find_changed, find_conflict, parse_pools_in_use
from function.api.problems import Parsed, Problems, validate
from function.api.provision import check_provision, parse_cluster_plan, parse_node_pool_plan
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
from function.domain.allocation import Free, Grant, Yield
from function.domain.environment import Environment, EnvironmentStorage, Observe, PodObservation, Pool
from function.domain.model import BrokenEntry, Problem, SecretKey
from function.domain.model_service import GatewayAccess
from function.domain.pods import PullSecret, build_copied_secret
from function.domain.provision import ClusterPlan, NodePoolPlan
from function.domain.records.shares import parse_share
from function.domain.settings import Settings
from function.kube import names
from function.kube.manifests import (
    Manifest,
    condition,
    integer,
    is_condition_current,
    is_deleting,
    is_ready,
    listing,
    mapping,
    parse_time,
    strings,
    text,
)
from function.kube.messages import to_one_line
from function.kube.selectors import Taint
from function.kube.urls import is_hostname
from function.reasons import ClusterReady, ConditionType, Status

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
    pools: "ParsedPools"
    plan: ClusterPlan | None  # of the cluster to create; None: it exists already

    @property
    def pool_problems(self) -> tuple[Problem, ...]:
        """The problems of all pools that are left out, and of the prices of pools that still count."""
        invalid = {problem for pool in self.pools.invalid for problem in pool.problems}
        return tuple(problem for problem in self.problems if problem in invalid or _PRICE.match(problem.path))

    @property
    def other_problems(self) -> tuple[Problem, ...]:
        """The problems outside the pools, which make the environment broken."""
        return tuple(problem for problem in self.problems if problem not in self.pool_problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedPools:
    valid: tuple[Pool, ...]
    invalid: tuple[BrokenEntry, ...]
    conflicts: frozenset[Problem]  # with pools in use; the pools are among the invalid ones
    relabelled: frozenset[str]  # pools in use with other labels than were published
    plans: tuple[NodePoolPlan, ...] = ()  # of the valid pools that are created, also those without GPUs
    declared: tuple[str, ...] = ()  # names


def name_provider_config(environment: str) -> str:
    return names.build_name(environment, "environment", environment)


def parse_environment(manifest: Manifest, settings: Settings, movable: Collection[str] = ()) -> ParsedEnvironment:
    """Returns the environment, completed by the platform's settings.

    `movable`: the pools in use whose labels may change, because nothing serves on them.
    """
    name = text(manifest, "metadata.name")
    spec, problems = validate(schemas.EnvironmentSpec, manifest.get("spec"), "spec")
    access = _parse_access(spec.cluster, name, settings.secret_namespace, problems["cluster"])
    pools = _parse_pools(spec, mapping(manifest, "status"), problems, movable)
    unready = _describe_unreadiness(manifest)
    environment = Environment(
        name=name,
        uid=text(manifest, "metadata.uid"),
        labels=sort_entries(strings(manifest, "metadata.labels")),
        taints=tuple(
            Taint(key=taint.key, value=taint.value or "", effect=taint.effect, reason=to_one_line(taint.reason or ""))
            for taint in spec.taints or ()
        ),
        pools=pools.valid,
        broken_pools=tuple(pool.name for pool in pools.invalid),
        refused_pools=tuple(pool.name for pool in pools.invalid if set(pool.problems) <= pools.conflicts),
        storage=_parse_storage(spec.storage or schemas.Storage(), manifest, settings, problems["storage"]),
        pod_monitors=spec.monitoring is not None and spec.monitoring.pod_monitors,
        pod_observation=PodObservation(spec.monitoring.observe_pods if spec.monitoring else PodObservation.NEVER),
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
        is_starting=_is_starting(manifest, unready),
        paused=_is_paused(manifest),
        deleting=is_deleting(manifest),
        free=_parse_free_nodes(listing(manifest, "status.pools"), pools.valid),
        lends=any("reclaimable" in row for row in listing(manifest, "status.pools")),
        admitted=tuple(_parse_grant(row) for row in listing(manifest, "status.admitted")),
        rejected=frozenset((text(row, "uid"), text(row, "pool")) for row in listing(manifest, "status.rejected")),
    )
    plan = parse_cluster_plan(spec.cluster, name, settings.secret_namespace, pools.plans, pools.declared)
    parsed = ParsedEnvironment(environment, problems.list(), access=access, pools=pools, plan=plan)
    return replace(parsed, value=replace(environment, broken=True)) if parsed.other_problems else parsed


ENVIRONMENT_CACHE: ParseCache[Environment] = ParseCache(lambda item, settings: parse_environment(item, settings).value)


def _parse_access(
    cluster: schemas.Cluster, environment: str, namespace: str, problems: Problems
) -> ClusterAccess | None:
    """Returns the access to the cluster; None if it has problems.

    A Secret without a namespace is in the platform's secret namespace. The kubeconfig of a GKE cluster has a default
    name, under which the creator of the cluster writes it.
    """
    blocks: dict[str, tuple[str, schemas.Existing | schemas.ClusterGke | None]] = {
        "Existing": ("existing", cluster.existing),
        "GKE": ("gke", cluster.gke),
    }
    hint = f": a cluster that exists already, with its kubeconfig in Secret {namespace}/{environment}-kubeconfig"
    at, block = choose_block(cluster.source, blocks, problems, {"GKE": hint})
    check_provision(cluster, at)
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
    spec: schemas.EnvironmentSpec, status: Manifest, problems: Problems, movable: Collection[str]
) -> ParsedPools:
    """Returns the valid pools with the published facts of their nodes, and the invalid pools with their problems.

    A pool in use that is not declared any more counts as invalid while another pool would have its nodes.
    """
    existing, gke = spec.cluster.existing, spec.cluster.gke
    lists = {
        "nodePools": spec.node_pools,
        "cluster.existing.nodePools": existing.node_pools if existing else None,
        "cluster.gke.nodePools": gke.node_pools if gke else None,
    }
    declared = [(problems[key], blocks) for key, blocks in lists.items() if blocks is not None]
    for at, blocks in declared[1:]:
        at.add_invalid(dump_all(blocks), f"left out together with {declared[0][0].path}")
    entries = [(at[index], block) for at, blocks in declared for index, block in enumerate(blocks)]
    check_unique((at, block.name) for at, block in entries)
    rows = {text(row, "name"): row for row in listing(status, "pools")}
    parsed = [(at, parse_pool(block, rows.get(block.name, {}), at)) for at, block in entries]
    location = gke.region if gke is not None and gke.provision is not None else None
    plans = [(at, parse_node_pool_plan(block, at, location=location)) for at, block in entries]
    conflicts = _check_nodes(parsed, status, movable)
    pools = tuple(pool for at, pool in parsed if pool.gpus_per_node > 0 and _is_valid(at))
    invalid = [BrokenEntry(name=p.name or at.path, problems=at.list()) for at, p in parsed if not _is_valid(at)]
    names = {pool.name for _, pool in parsed if pool.gpus_per_node > 0}
    missing = {c.pool: problem for problem, c in conflicts.items() if c.pool not in names}
    invalid += [BrokenEntry(name=pool, problems=(problem,)) for pool, problem in sorted(missing.items())]
    relabelled = frozenset(conflict.pool for conflict in conflicts.values() if conflict.is_relabelled)
    return ParsedPools(
        valid=pools,
        invalid=tuple(invalid),
        conflicts=frozenset(conflicts),
        relabelled=relabelled,
        plans=tuple(plan for at, plan in plans if plan is not None and _is_valid(at)),
        declared=tuple(block.name for _, block in entries),
    )


def _is_valid(problems: Problems) -> bool:
    """Tells whether a pool counts; a price with problems counts as no price."""
    return all(_PRICE.match(problem.path) for problem in problems.list())


def _check_nodes(
    parsed: Sequence[tuple[Problems, Pool]], status: Manifest, movable: Collection[str]
) -> dict[Problem, Conflict]:
    """Adds a problem for each pool with the nodes of another pool.

    Returns the conflicts with pools in use. Of two pools with the same nodes, the one in use counts, else the first.
    """
    valid = {pool.name: pool for at, pool in parsed if pool.gpus_per_node > 0 and _is_valid(at)}
    in_use = parse_pools_in_use(status)
    changed = find_changed(valid.values(), status)
    keeping = {used.name for used in in_use if used.is_declared_as(valid.get(used.name))}
    counted: list[Pool] = []
    conflicts: dict[Problem, Conflict] = {}
    for at, pool in sorted(parsed, key=lambda entry: entry[1].name not in keeping):
        if not _is_valid(at) or pool.gpus_per_node == 0:
            continue
        labels = at["labels"]
        twins = (p for p in counted if pool.labels and p.may_start_on(pool) and pool.may_start_on(p))
        if conflict := find_conflict(pool, in_use, valid, changed, movable):
            labels.add(conflict.message)
            conflicts[Problem(labels.path, conflict.message)] = conflict
        elif twin := next(twins, None):
            labels.add(f"pool {twin.name} has the same; its nodes would be counted twice")
        else:
            counted.append(pool)
    return conflicts


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


def _parse_grant(row: Manifest) -> Grant:
    return Grant(
        uid=text(row, "uid"),
        namespace=text(row, "namespace"),
        name=text(row, "name"),
        share=parse_share(row),
        generation=integer(row, "generation"),
        revoked=text(row, "revoked"),
        yields=_parse_yield(mapping(row, "yields")) if "yields" in row else None,
    )


def _parse_yield(block: Manifest) -> Yield:
    return Yield(
        keep=integer(block, "keep"),
        uid=text(block, "uid"),
        namespace=text(block, "namespace"),
        name=text(block, "name"),
        priority=integer(block, "priority"),
        gpus=integer(block, "gpus"),
        since=parse_time(text(block, "since")),
    )


def _parse_free_nodes(rows: Iterable[Manifest], pools: Iterable[Pool]) -> dict[str, Free]:
    """Returns the published free nodes by pool. If the labels of a pool have changed, its row is about other nodes."""
    labels = {pool.name: dict(pool.labels) for pool in pools}
    current = {text(row, "name"): row for row in rows if "free" in row}
    return {
        name: _parse_free(row)
        for name, row in current.items()
        if row.get("nodeSelector", labels.get(name)) == labels.get(name)
    }


def _parse_free(row: Manifest) -> Free:
    free = Free(placements=integer(row, "placements"), nodes=_parse_levels(row))
    if "reclaimable" not in row:
        return free
    reclaimable = ((integer(each, "priority"), _parse_levels(each)) for each in listing(row, "reclaimable"))
    return replace(free, reclaimable=tuple(sorted(reclaimable)))


def _parse_levels(row: Manifest) -> tuple[tuple[int, int], ...]:
    return tuple((integer(level, "gpus"), integer(level, "nodes")) for level in listing(row, "free"))


def _is_paused(manifest: Manifest) -> bool:
    return strings(manifest, "metadata.annotations").get(names.PAUSED) == "true"


def _is_starting(manifest: Manifest, unready: str) -> bool:
    """Tells whether an environment is not Ready although nothing is wrong with its connection, as far as is known."""
    if not unready or _is_paused(manifest):
        return False
    connection = condition(manifest, ConditionType.CLUSTER_READY)
    answers_well = text(connection, "status") == Status.TRUE
    return answers_well or text(connection, "reason") in ("", ClusterReady.CONNECTING, ClusterReady.PROVISIONING)


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

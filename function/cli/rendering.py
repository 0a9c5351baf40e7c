"""All manifests that would finally exist, each with the cluster that it is on.

Both levels in one go: what a deployment composes is a composite itself. Statuses are left out, since they would be
made up; so is what lasts only while weights are downloaded, such as the copy of a token.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from function.cli.composing import compose_up, reconcile
from function.cli.gathered import KINDS, World
from function.cli.planning import plan_deployments
from function.cli.store import Ref, Store, environments
from function.exchange import Outcome
from function.kube.manifests import Manifest, get, mapping, text
from function.lifecycle.carry_over import carried
from function.reasons import ConditionType, Status

HERE = "control plane"
# Whether a cluster answers is nothing that files know, and one without shared storage serves single nodes.
_HARMLESS = {
    ("InferenceEnvironment", ConditionType.CLUSTER_READY),
    ("InferenceEnvironment", ConditionType.STORAGE_READY),
}


class Level(StrEnum):
    """Where a manifest exists."""

    CONTROL_PLANE = "control-plane"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where and what, in the order in which manifests are written. `environment` empty: the control plane."""

    environment: str
    ref: Ref

    @property
    def level(self) -> Level:
        """The level."""
        return Level.REMOTE if self.environment else Level.CONTROL_PLANE

    @property
    def cluster(self) -> str:
        """The environment, or that it is the control plane."""
        return self.environment or HERE

    def __str__(self) -> str:
        return f"{self.cluster}: {self.ref}"


def compose_given(world: World) -> dict[Ref, Outcome]:
    """Decide all deployments, then compose everything that was given once with all of it up.

    Returns the outcomes of the composites whose manifests are meant: those given, and the placements that they compose.
    """
    plan_deployments(world, ())
    outcomes: dict[Ref, Outcome] = {}
    for ref in [ref for ref in world.store.refs(*KINDS) if ref in world.given and world.in_scope(ref)]:
        outcomes |= compose_deployment(world.store, ref) if ref.kind == "ModelDeployment" else {}
        if ref not in outcomes:
            outcomes[ref] = compose_up(world.store, ref)
    return outcomes


def compose_deployment(store: Store, ref: Ref) -> dict[Ref, Outcome]:
    """Compose the placements of a deployment that was decided, and the deployment once more with all of them up."""
    outcomes = {placement: compose_up(store, placement) for placement in map(Ref.of, store.owned(ref).values())}
    return outcomes | {ref: reconcile(store, store[ref])[1]}


def composed(store: Store, refs: Iterable[Ref]) -> Iterator[tuple[Place, Manifest]]:
    """Return what composites composed, and what of that exists on remote clusters."""
    clusters = {environment.provider_config: environment.name for environment in environments(store)}
    for ref in refs:
        for observed in store.owned(ref).values():
            # Without status, without what Crossplane adds, and never with the data of a Secret.
            manifest = carried(observed).manifest
            yield Place("", Ref.of(manifest)), manifest
            if text(manifest, "kind") != "Object" or get(manifest, "spec.managementPolicies") == ["Observe"]:
                continue
            remote = mapping(manifest, "spec.forProvider.manifest")
            config = text(manifest, "spec.providerConfigRef.name")
            yield Place(clusters.get(config, config), Ref.of(remote)), remote


def refusals(outcomes: dict[Ref, Outcome]) -> list[str]:
    """Return what would not come up, a line each."""
    return [
        f"{ref}: {condition.type} is False, {condition.reason}: {condition.message}"
        for ref, outcome in sorted(outcomes.items())
        for condition in outcome.conditions
        if condition.status is Status.FALSE and (ref.kind, condition.type) not in _HARMLESS
    ]

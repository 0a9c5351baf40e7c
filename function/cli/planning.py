"""Decides deployments with the composer that the controller runs, from the same inputs.

All deployments are decided once, in the order of their creation, whichever are shown: each sees the placements of those
before it, and on a control plane what the environments have published.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from function.cli.candidates import Row, candidates, unusable
from function.cli.changes import Change, changes
from function.cli.composing import apply_placements, compose_up, publish_ledger, reconcile
from function.cli.gathered import World
from function.cli.invalid_pools import invalid_pools
from function.cli.remarks import preferred, remarks
from function.cli.restarts import Services, services
from function.cli.store import Ref, Store
from function.composers.deployment import Considered, consider
from function.exchange import Call, Condition, Outcome
from function.kube.manifests import Manifest, text
from function.parse.settings import read_settings
from function.reasons import ConditionType, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would become of one deployment, with what its services ask for.

    `considered` None: something that it needs is missing or invalid.
    """

    ref: Ref
    outcome: Outcome
    rows: tuple[Row, ...]
    changes: tuple[Change, ...]
    services: Services
    considered: Considered | None = None

    @property
    def decision(self) -> Condition:
        """Scheduled, or what stands in its way."""
        by_type = {condition.type: condition for condition in self.outcome.conditions}
        resolved = by_type[ConditionType.MODEL_RESOLVED]
        scheduled = by_type[ConditionType.SCHEDULED]
        return resolved if scheduled.status is Status.UNKNOWN and resolved.status is not Status.TRUE else scheduled

    @property
    def remarks(self) -> list[str]:
        """What is worth knowing of the places that it would take."""
        return [*remarks(self.considered), *preferred(self.rows)] if self.considered else []

    @property
    def placements(self) -> list[Manifest]:
        """The placements that would exist."""
        return [item.manifest for _, item in sorted(self.outcome.composed.items())]


def plan_deployments(world: World, refs: Iterable[Ref]) -> list[Plan]:
    """Decide all deployments and return the plans of some; the store then holds the placements of all.

    A ModelCache from a file that has no status counts as it would report once its downloads are complete.
    """
    store, plans = world.store, dict[Ref, Plan]()
    for ref in sorted(world.edited):
        publish_ledger(store, ref)
    for ref in store.refs("ModelCache"):
        if ref in world.given and not store[ref].get("status"):
            compose_up(store, ref)
    wanted = list(refs)
    for ref in store.by_creation("ModelDeployment"):
        call, outcome = reconcile(store, store[ref])
        if ref in wanted:
            plans[ref] = _plan(store, ref, call, outcome)
        apply_placements(store, ref, outcome.composed)
    return [plans[ref] for ref in wanted]


def _plan(store: Store, ref: Ref, call: Call, outcome: Outcome) -> Plan:
    before = store.owned(ref)
    considered = consider(call, read_settings(call.input, call.context).value)
    rows: tuple[Row, ...] = ()
    if isinstance(considered, Considered):
        names = {text(manifest, "metadata.name") for manifest in before.values()}
        invalid = invalid_pools(store, (e for e in considered.environments if not e.deleting))
        rows = (*candidates(considered, names), *map(unusable, invalid))
    return Plan(
        ref=ref,
        outcome=outcome,
        rows=rows,
        changes=changes(before, outcome.composed),
        services=services(store, outcome),
        considered=considered if isinstance(considered, Considered) else None,
    )

"""What would become of deployments, from the composer that the controller runs.

All deployments that there are are decided in turn until none changes any more, whichever are asked for: they see each
other's placements, and a part of a plan is what it is in the whole.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from function.cli.candidates import Row, candidates, unusable
from function.cli.changes import Change, changes
from function.cli.control_plane import answered, in_turn, simulate
from function.cli.gathered import World
from function.cli.invalid_pools import invalid_pools
from function.cli.remarks import preferred, remarks
from function.cli.restarts import Services, services
from function.cli.store import Ref, Store
from function.composers.deployment import Considered, consider
from function.exchange import Condition, Outcome
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


def make(world: World, refs: Iterable[Ref]) -> list[Plan]:
    """Decide all deployments until they stand, and return some; caches without a status are taken as they would be."""
    store, wanted = world.store, list(refs)
    before = {ref: store.owned(ref) for ref in wanted}
    fresh = [ref for ref in store.refs("ModelCache") if not (store.get(ref) or {}).get("status") and ref in world.given]
    outcomes = simulate(store, in_turn(fresh, "ModelDeployment"))
    return [_plan(store, ref, before[ref], outcomes[ref]) for ref in wanted]


def _plan(store: Store, ref: Ref, before: dict[str, Manifest], outcome: Outcome) -> Plan:
    considered, names = look(store, ref), {text(manifest, "metadata.name") for manifest in before.values()}
    rows: tuple[Row, ...] = ()
    if considered:
        invalid = invalid_pools(store, (e for e in considered.environments if not e.deleting))
        rows = (*candidates(considered, names), *map(unusable, invalid))
    return Plan(
        ref=ref,
        outcome=outcome,
        rows=rows,
        changes=changes(before, outcome.composed),
        services=services(store, outcome),
        considered=considered,
    )


def look(store: Store, ref: Ref) -> Considered | None:
    """Return the decision about a deployment with all that it was made from; None where there can be none."""
    xr = store.get(ref)
    assert xr is not None
    call, _ = answered(store, xr)
    settings = read_settings(call.input, call.context).value
    considered = consider(call, settings)
    return considered if isinstance(considered, Considered) else None

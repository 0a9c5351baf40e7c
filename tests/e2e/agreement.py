"""What the command line would plan against what the controller decided, over everything that is on the hub."""

from collections.abc import Iterable

from function.cli.inputs import KINDS
from function.cli.inputs import Inventory as Read
from function.cli.planning import plan_deployments
from function.cli.store import Store
from function.kube.manifests import JSON, Manifest, condition, mapping, text
from tests.e2e.world import World
from tools.stack.waiting import until

_SETTINGS = ("Composition",)
_DECIDED = ("inferenceEnvironmentRef", "profile", "pool", "topology", "replicas")


def wait_for_agreement(world: World) -> None:
    """Wait until every deployment stands as it would be planned: its reason, its message and its placements.

    Raises:
        TimeoutError: They disagree for longer than the controller takes to see what there is.
    """
    until("plan and the controller to agree", lambda: _agree(world))


def _agree(world: World) -> bool:
    found = [manifest for kind in (*KINDS, *_SETTINGS) for manifest in world.stack.hub.find(kind)]
    read = Read(Store(found), "")
    refs = read.store.refs("ModelDeployment")
    decided = {str(ref): _decided(read.store.get(ref) or {}, read.store.owned(ref).values()) for ref in refs}
    planned = {
        str(plan.ref): (plan.condition.reason, plan.condition.message, _where(plan.placements))
        for plan in plan_deployments(read, refs).values()
    }
    differ = {name: (decided[name], planned[name]) for name in planned if planned[name] != decided[name]}
    if differ:
        raise LookupError(f"decided and planned: {differ}")
    return True


def _decided(deployment: Manifest, placements: Iterable[Manifest]) -> tuple[str, str, JSON]:
    scheduled = condition(deployment, "Scheduled")
    if scheduled.get("status") == "Unknown":
        scheduled = condition(deployment, "ModelResolved")
    return text(scheduled, "reason"), text(scheduled, "message"), _where(placements)


def _where(placements: Iterable[Manifest]) -> JSON:
    """Return what was decided of placements, by name."""
    where: dict[str, JSON] = {}
    for placement in placements:
        if text(placement, "kind") != "ModelPlacement":
            continue  # a ModelService of the deployment's own
        spec = mapping(placement, "spec")
        where[text(placement, "metadata.name")] = {key: spec[key] for key in _DECIDED if key in spec}
    return where

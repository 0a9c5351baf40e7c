"""The ledger of an environment: which placements have GPUs of its pools, and what is free.

It is published whatever else is wrong with the environment.
"""

import math
from collections.abc import Collection
from dataclasses import replace

from function.api.inference_environment import ParsedEnvironment, parse_environment
from function.capacity.ledger import admit_placements, find_serving_pools
from function.contract import Call
from function.domain.allocation import Grant
from function.domain.environment import Environment
from function.domain.placement import Placement
from function.domain.settings import Settings
from function.kube.manifests import Manifest, mapping
from function.parts.environment import EnvironmentContext
from function.parts.outcome import observed_status
from function.parts.part import Decisions, Part, PartOutcome
from function.parts.provision import PROVISION_PART
from function.status import inference_environment as report


def _publish_ledger(context: EnvironmentContext, decisions: Decisions) -> PartOutcome[None]:
    pending = decisions.of(PROVISION_PART).pools.explain_pending()
    environment = context.environment
    # What was published may be over; copies cost time, so none is made where nothing changed.
    if any(pool.not_created != pending.get(pool.name, "") for pool in environment.pools):
        pools = tuple(replace(pool, not_created=pending.get(pool.name, "")) for pool in environment.pools)
        environment = replace(environment, pools=pools)
    return PartOutcome(decision=None, status=compute_ledger(context.call, environment, context.placements))


LEDGER_PART = Part(run=_publish_ledger)


def compute_ledger(call: Call, environment: Environment, placements: Collection[Placement] | None) -> Manifest:
    """Returns the ledger to publish: the published one while the placements are not known."""
    if placements is None:
        return {key: value for key, value in observed_status(call.xr).items() if key in report.LEDGER_FIELDS}
    ledger = admit_placements(environment, placements)
    grants = tuple(_date_yield(grant, math.ceil(call.now)) for grant in ledger.grants)
    ledger = replace(ledger, grants=grants)
    return report.build_ledger(environment, ledger, mapping(call.xr, "status"))


def _date_yield(grant: Grant, now: int) -> Grant:
    if grant.yields is None or grant.yields.since is not None:
        return grant
    return replace(grant, yields=replace(grant.yields, since=now))


def accept_labels(
    manifest: Manifest, parsed: ParsedEnvironment, placements: Collection[Placement] | None, settings: Settings
) -> ParsedEnvironment:
    """Accepts other labels of pools in use on which nothing serves, as soon as their placements are known."""
    relabelled = parsed.pools.relabelled
    if not relabelled or placements is None:
        return parsed
    movable = relabelled - find_serving_pools(parsed.value, placements)
    return parse_environment(manifest, settings, movable) if movable else parsed

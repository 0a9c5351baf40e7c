"""Reports why a deployment is not placed or not ready, and why an endpoint of a ModelService gets no requests.

On a live control plane this is what the controller wrote into the status of the deployment and its placements. From
files the deployment is decided. In both cases the ways out tell what to do about each refusal.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from function.cli.advice import explain_preference, note_unused_pools
from function.cli.composing import list_conditions
from function.cli.options import is_quiet
from function.cli.planning import Plan
from function.cli.references import note_unknown_priority
from function.cli.store import Ref, Store, is_ours, read_conditions
from function.kube.manifests import Manifest, condition, get, listing, text
from function.reasons import Outlook, Refused, ScaledAsRequested, Scheduled, Status
from function.scheduling.ways_out import WayOut

_ENVIRONMENT = re.compile(r"\bInferenceEnvironment ([a-z0-9.-]*[a-z0-9])")
_RANKS = {str(reason): reason.rank for reason in Refused}  # nearest last; a later release may have other reasons
_OUTLOOKS = {Outlook.NEVER: "unschedulable", Outlook.CAN_WAIT: "waiting"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """The reason why one environment or placement does not serve."""

    subject: str  # the deployment, an environment with its profile, or a placement
    reason: str  # a reason of the API
    outlook: str = ""  # whether waiting can help; of a placement its phase
    faults: tuple[str, ...]
    remedies: tuple[str, ...] = ()  # alternative changes that each clear the reason, the cheapest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    ref: Ref
    conditions: tuple[Manifest, ...]
    refusals: tuple[Reason, ...]  # by environments, nearest first
    unready: tuple[Reason, ...]  # the deployment itself where it has a fault; placements and endpoints not ready
    notes: tuple[str, ...] = ()

    @property
    def is_placed(self) -> bool:
        """Tells whether the deployment has all placements that it requests, or every endpoint may get requests."""
        statuses = {c["type"]: c["status"] for c in self.conditions}
        types = ("Scheduled",) if self.ref.kind == "ModelDeployment" else ("EndpointsReady", "RouteReady")
        return all(statuses.get(type_) == Status.TRUE for type_ in types)

    @property
    def verdict(self) -> str:
        if any(c["reason"] in {Scheduled.PARTIALLY_PLACED, ScaledAsRequested.LIMITED} for c in self.conditions):
            return "partially placed"
        words = "placed" if self.ref.kind == "ModelDeployment" else "serving on all endpoints"
        return words if self.is_placed else f"not {words}"


def read_service_report(service: Manifest) -> Report:
    """Reads what the controller wrote into the status of a ModelService: a reason for each endpoint and placement."""
    unready = []
    for row in listing(service, "status.endpoints"):
        rows = [row] if not get(row, "weight") else listing(row, "backends")
        unready += [
            Reason(
                subject=" on ".join(filter(None, (text(each, "placement"), text(row, "environment")))),
                reason=text(row, "state"),
                faults=(text(each, "reason"),),
            )
            for each in rows
            if text(each, "reason")
        ]
    return Report(ref=Ref.of(service), conditions=read_conditions(service), refusals=(), unready=tuple(unready))


def read_deployment_report(store: Store, ref: Ref) -> Report:
    """Reads what the controller wrote into the status of a deployment and its placements."""
    conditions = read_conditions(store[ref])
    refusals = [
        Reason(
            subject=text(row, "environment"),
            reason=text(row, "reason"),
            outlook=_OUTLOOKS[Refused(text(row, "reason")).outlook] if text(row, "reason") in _RANKS else "",
            faults=(text(row, "message"),),
        )
        for row in listing(store[ref], "status.unplaced")
    ]
    environments = {refusal.subject for refusal in refusals}
    scheduled = text(condition(store[ref], "Scheduled"), "message").splitlines()[1:]
    notes = [line for line in scheduled if line.partition(":")[0] not in environments]
    advice = {line: match[1] for line in notes if (match := _ENVIRONMENT.search(line)) and match[1] in environments}
    refusals = [
        replace(refusal, remedies=tuple(line for line, environment in advice.items() if environment == refusal.subject))
        for refusal in refusals
    ]
    notes = [line for line in notes if line not in advice]
    if not conditions:
        notes = ["the controller has not reported anything yet: check that Crossplane and the function run"]
    return Report(
        ref=ref,
        conditions=conditions,
        refusals=tuple(sorted(refusals, key=lambda each: (-_RANKS.get(each.reason, -1), each.subject))),
        unready=tuple(_find_unready(store, ref)),
        notes=tuple(notes),
    )


def add_ways_out(report: Report, ways_out: Sequence[WayOut], plan: Plan) -> Report:
    """Returns the report of a refused deployment with the ways out under their environments, and with unused pools."""
    refusals = tuple(
        replace(refusal, remedies=_select_remedies(ways_out, refusal.subject) or refusal.remedies)
        for refusal in report.refusals
    )
    unused = () if is_quiet() else (f"note: {remark}" for remark in note_unused_pools(plan))
    return replace(report, refusals=refusals, notes=(*report.notes, *_note_cheapest(ways_out, refusals), *unused))


def _select_remedies(ways_out: Iterable[WayOut], environment: str) -> tuple[str, ...]:
    return tuple(way.message for way in ways_out if way.refusal.environment == environment)


def _note_cheapest(ways_out: Sequence[WayOut], refusals: Iterable[Reason]) -> list[str]:
    """Returns the cheapest way out, if the nearest environment that has one has only others."""
    first = next((remedy for refusal in refusals for remedy in refusal.remedies), "")
    return [f"cheapest: {ways_out[0].message}"] if ways_out and ways_out[0].message != first else []


def build_plan_report(plan: Plan, ways_out: Sequence[WayOut]) -> Report:
    """Returns every refusal of a plan with its ways out, and which placements are not ready."""
    ref = plan.ref
    decision = plan.decision
    refusals = tuple(
        Reason(
            subject=", profile ".join(filter(None, (infeasible.environment, infeasible.refusals[0].profile))),
            reason=infeasible.reason,
            faults=tuple(refusal.message for refusal in infeasible.refusals),
            # The ways out of the refusal, else what to do about it.
            remedies=_select_remedies(ways_out, infeasible.environment) or tuple(filter(None, [infeasible.remedy])),
            outlook=_OUTLOOKS[infeasible.outlook],
        )
        for infeasible in decision.unresolved
    )
    refusal = decision.general_refusal
    faults = [Reason(subject=str(ref), reason=refusal.reason, faults=(refusal.message,))] if refusal else []
    return Report(
        ref=ref,
        conditions=tuple(list_conditions(plan.outcome)),
        refusals=refusals,
        unready=(*faults, *_find_unready(plan.store, ref)),
        notes=(
            *_note_cheapest(ways_out, refusals),
            *note_unknown_priority(plan.store, plan.call.xr),
            *(() if is_quiet() else (f"note: {r}" for r in (*note_unused_pools(plan), *explain_preference(plan.rows)))),
        ),
    )


def _find_unready(store: Store, ref: Ref) -> Iterator[Reason]:
    """Returns what a deployment composed with the conditions that are not True; planned placements have none yet."""
    for manifest in filter(is_ours, store.owned(ref).values()):
        owned = Ref.of(manifest)
        environment = text(manifest, "spec.inferenceEnvironmentRef.name")
        faults = [c for c in read_conditions(manifest) if c["status"] != Status.TRUE]
        if faults:
            yield Reason(
                subject=f"{owned.name} on {environment}" if environment else str(owned),
                reason=text(faults[0], "reason"),
                faults=tuple(f"{c['type']} is {c['status']}: {c['message']}" for c in faults),
                outlook=text(manifest, "status.phase"),
            )

"""Changes between two plans: placements that come, go or get another spec, and services that restart."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from function.api.problems import validate
from function.api.settings import parse_settings
from function.cli.composing import reconcile
from function.cli.planning import Plan
from function.cli.store import Ref
from function.cli.tables import BAD, GOOD, WAIT, paint
from function.composers.model_placement import compute_service_identity
from function.kube.manifests import Manifest, flag, list_texts, text
from function.kube.messages import format_count
from function.reasons import Scheduled
from function.scheduling.turns import sort_by_turn, sort_turns
from function.schemas import PlacementSpec

COLOURS = {"+": GOOD, "-": BAD, "~": WAIT}


def list_changes(plan_: Plan) -> Iterator[str]:
    """Returns a line for each placement that is created, deleted or gets another spec."""
    before, after = plan_.before, {key: item.manifest for key, item in plan_.outcome.composed.items()}
    for key in sorted(before.keys() | after.keys()):
        if key not in before:
            yield f"+ {_describe_placement(after[key])}"
        elif key not in after:
            yield f"- {_describe_placement(before[key])}"
        else:
            old, new = (_complete_spec(m[key]) for m in (before, after))
            for field in sorted(old.keys() | new.keys()):
                if old.get(field) != new.get(field):
                    values = (json.dumps(spec[field]) if field in spec else "unset" for spec in (old, new))
                    yield f"~ {_describe_placement(after[key])} spec.{field}: {' -> '.join(values)}"


def _complete_spec(placement: Manifest) -> Manifest:
    """Returns the spec of a placement with the defaults that the API server adds."""
    spec, _ = validate(PlacementSpec, placement.get("spec"), "spec")
    return spec.model_dump(by_alias=True, exclude_none=True, warnings=False)


def describe_restarts(plan_: Plan, restarts: Mapping[str, str]) -> Iterator[str]:
    """Returns a line for each service that restarts, by its environment, and the order if they change one by one."""
    rollout = plan_.considered.request.deployment.rollout if plan_.considered else None
    if plan_.considered is None or rollout is None:
        yield from (f"~ {_format_restart(*restart)}" for restart in sorted(restarts.items()))
        return
    request, assignments = plan_.considered.request, plan_.considered.decision.assignments
    placements = [request.to_placement(assignment) for assignment in assignments]
    turns = sort_turns(rollout, placements)
    changing = restarts or {p.environment for p in (*turns.changing, *turns.waiting)}
    order = [p.environment for p in sort_by_turn(rollout, placements) if p.environment in changing]
    yield from (f"~ {_format_restart(name, restarts[name])}" for name in order if name in restarts)
    if order:
        gate = rollout.gate if len(order) > 1 else None
        condition = f"; after the first, {gate.kind} {gate.name} must have {gate.condition}=True" if gate else ""
        yield f"~ one environment after the other: {', '.join(order)}{condition}{'; paused' if rollout.paused else ''}"


def _format_restart(environment: str, service: str) -> str:
    return f"LLMInferenceService {service} on {environment} restarts: pod template changes"


def _describe_placement(manifest: Manifest) -> str:
    environment = text(manifest, "spec.inferenceEnvironmentRef.name")
    profile, pool = text(manifest, "spec.profile"), text(manifest, "spec.pool")
    return f"{Ref.of(manifest)} on {environment} (profile {profile}, pool {pool})"


def list_restarts(before: Plan, after: Plan) -> dict[str, str]:
    """Returns the services that are in both plans and have another spec digest, by environment."""

    def compute_digests(plan_: Plan) -> Iterator[tuple[tuple[str, str], str]]:
        for manifest in plan_.placements:
            call, _ = reconcile(plan_.store, manifest)
            if service := compute_service_identity(call, parse_settings(call.input, call.context).value):
                name, digest = service
                yield (text(manifest, "spec.inferenceEnvironmentRef.name"), name), digest

    old, new = dict(compute_digests(before)), dict(compute_digests(after))
    return dict(service for service, digest in sorted(new.items()) if old.get(service, digest) != digest)


def compare_plans(before: Iterable[Plan], after: Iterable[Plan]) -> list[Manifest]:
    """Returns the deployments for which another decision is made, or whose services restart."""
    changes: list[Manifest] = []
    for old, new in zip(before, after, strict=True):
        was, now = ((p.decision.reason, [manifest["spec"] for manifest in p.placements]) for p in (old, new))
        change: Manifest = {"namespace": new.ref.namespace, "name": new.ref.name, "rescheduled": was != now}
        for name, p in (("before", old), ("after", new)):
            change[name] = {"reason": str(p.decision.reason), "message": p.decision.message}
        change["restarts"] = [f"{name} on {environment}" for environment, name in list_restarts(old, new).items()]
        if was != now or change["restarts"]:
            changes.append(change)
    return changes


def format_changes(changes: Sequence[Manifest]) -> str:
    """Returns the changes in lines: `+` for what is placed only now, `-` for what is no longer placed."""
    if not changes:
        return "nothing changes"
    lines = []
    for change in changes:
        was_placed, is_placed = (text(change, f"{when}.reason") == Scheduled.PLACED for when in ("before", "after"))
        sign = "~" if was_placed == is_placed else "+" if is_placed else "-"
        ref = Ref("ModelDeployment", text(change, "namespace"), text(change, "name"))
        lines.append(paint(f"{sign} {ref}", COLOURS[sign]))
        for start, when in (("    ", "before"), (" -> ", "after")) if change["rescheduled"] else ():
            reason, message = text(change, f"{when}.reason"), text(change, f"{when}.message")
            lines.append(f"{start}{reason}: {message.partition(chr(10))[0]}")
        lines += [f"    restarts {service}: pod template changes" for service in list_texts(change, "restarts")]
    rescheduled = sum(flag(change, "rescheduled") for change in changes)
    restarted = sum(len(list_texts(change, "restarts")) for change in changes)
    sums = [f"{format_count(rescheduled, 'deployment')} would be scheduled differently"] if rescheduled else []
    sums += [f"{format_count(restarted, 'service')} to restart"] if restarted else []
    return "\n".join((*lines, "", ", ".join(sums)))

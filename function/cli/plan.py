"""`plan`: every candidate of a deployment, and the decision, from the composer that the controller runs.

Several deployments are decided in turn until none changes any more, so that they see each other's placements. What
is planned is written nowhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import click

from function.cli.asked import Form, Sources
from function.cli.candidates import Row, Verdict, candidates
from function.cli.complete import names
from function.cli.control_plane import answered, in_turn, simulate
from function.cli.diff import Change, changes
from function.cli.errors import Code
from function.cli.options import examples, form, sources_what_if
from function.cli.sources import World, gather
from function.cli.store import Ref, Store
from function.cli.tables import BAD, GOOD, WAIT, hint, paint, structured, table
from function.composers.deployment import Considered, consider
from function.exchange import Condition, Outcome
from function.kube.manifests import JSON, Manifest, get, mapping, text
from function.parse.settings import read_settings
from function.reasons import ConditionType, Outlook, Refused, Status

_FORMS = (Form.TABLE, Form.WIDE, Form.JSON, Form.YAML, Form.NAME, Form.SVG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would become of one deployment. `considered` None: something that it needs is missing or invalid."""

    ref: Ref
    outcome: Outcome
    rows: tuple[Row, ...]
    changes: tuple[Change, ...]
    considered: Considered | None = None

    @property
    def decision(self) -> Condition:
        """Scheduled, or what stands in its way."""
        by_type = {condition.type: condition for condition in self.outcome.conditions}
        resolved = by_type[ConditionType.MODEL_RESOLVED]
        scheduled = by_type[ConditionType.SCHEDULED]
        return resolved if scheduled.status is Status.UNKNOWN and resolved.status is not Status.TRUE else scheduled

    @property
    def placements(self) -> list[Manifest]:
        """The placements that would exist."""
        return [item.manifest for _, item in sorted(self.outcome.composed.items())]


@click.command(
    epilog=examples(
        "modelplane plan -f examples/kimi-k2-two-nodes",
        "modelplane plan -f deployment.yaml --live -o wide",
        "modelplane plan kimi-k2 -n assistants --what-if new-environment.yaml --diff",
        "modelplane plan -f examples/kimi-k2-two-nodes -o svg > plan.svg",
    )
)
@click.argument("deployments", metavar="[DEPLOYMENT]...", nargs=-1, shell_complete=names("ModelDeployment"))
@sources_what_if
@click.option("--diff", is_flag=True, help="Show what would change against the placements that exist.")
@form(*_FORMS)
@click.pass_context
def plan(context: click.Context, /, deployments: tuple[str, ...], *, sources: Sources, diff: bool, form: Form) -> None:
    """Show where deployments would go, and why not elsewhere.

    Reads the files of -f, or the control plane where none is given, or both with --live. Nothing is changed.
    """
    world = gather(sources)
    plans = make(world, world.deployments(deployments))
    if form is Form.SVG:
        from function.cli.picture import draw  # noqa: PLC0415  # only where a picture is wanted

        click.echo(draw(plans))
    elif form in (Form.JSON, Form.YAML):
        click.echo(structured(form, [_structured(p, diff=diff) for p in plans]))
    elif form is Form.NAME:
        for placement in (m for p in plans for m in p.placements):
            click.echo(f"modelplacement.modelplane.ai/{text(placement, 'metadata.name')}")
    else:
        _tell(plans, sources, wide=form is Form.WIDE, diff=diff)
    if any(p.decision.status is not Status.TRUE for p in plans):
        context.exit(Code.REFUSED)


def make(world: World, refs: Iterable[Ref]) -> list[Plan]:
    """Decide deployments until all of them stand; caches that have not reported yet are taken as they would."""
    store, wanted = world.store, list(refs)
    before = {ref: store.owned(ref) for ref in wanted}
    fresh = [ref for ref in store.refs("ModelCache") if not (store.get(ref) or {}).get("status") and ref in world.given]
    outcomes = simulate(store, in_turn([*fresh, *wanted]))
    return [_plan(store, ref, before[ref], outcomes[ref]) for ref in wanted]


def _plan(store: Store, ref: Ref, before: dict[str, Manifest], outcome: Outcome) -> Plan:
    considered, names = look(store, ref), {text(manifest, "metadata.name") for manifest in before.values()}
    return Plan(
        ref=ref,
        outcome=outcome,
        rows=candidates(considered, names) if considered else (),
        changes=changes(before, outcome.composed),
        considered=considered,
    )


def look(store: Store, ref: Ref) -> Considered | None:
    """Return the decision about a deployment with all that it was made from; None where there can be none."""
    xr = store.get(ref)
    assert xr is not None
    call, _ = answered(store, xr)
    considered = consider(call, read_settings(call.input, call.context).value)
    return considered if isinstance(considered, Considered) else None


def _tell(plans: list[Plan], sources: Sources, *, wide: bool, diff: bool) -> None:
    for number, plan_ in enumerate(plans):
        decision = plan_.decision
        colour = GOOD if decision.status is Status.TRUE else WAIT if _waits(decision.reason) else BAD
        parts = [f"{plan_.ref}: {paint(decision.reason, colour)}\n{decision.message}"]
        if plan_.rows:
            parts.insert(0, _table(plan_.rows, wide=wide))
        if diff:
            parts.append("\n".join(paint(str(c), c.colour) for c in plan_.changes) or "nothing changes")
        click.echo(("\n" if number else "") + "\n\n".join(parts))
    hint(_next(plans, sources))


def _next(plans: list[Plan], sources: Sources) -> str:
    given = "".join(f" -f {file}" for file in sources.files) + (" --live" if sources.live else "")
    shown = next((p for p in plans if p.decision.status is not Status.TRUE), None)
    if shown:
        return f"why {shown.ref.name} -n {shown.ref.namespace}{given}"
    return f"render{given}" if given else f"tree {plans[0].ref.name} -n {plans[0].ref.namespace}"


def _waits(reason: str) -> bool:
    return reason in tuple(Refused) and Refused(reason).outlook is Outlook.NOT_NOW


def _table(rows: Iterable[Row], *, wide: bool) -> str:
    headers = ["ENVIRONMENT", "PROFILE", "POOL", "REPLICA", "WANTED", "FOUND", "VERDICT"]
    cells = [[r.environment, r.profile, r.pool, r.replica, r.wanted, r.found, _verdict(r)] for r in rows]
    if wide:
        headers.append("WHY")
        cells = [[*cell, row.message] for cell, row in zip(cells, rows, strict=True)]
    return table(headers, cells)


def _verdict(row: Row) -> str:
    if row.serves:
        return paint(row.verdict, GOOD)
    return row.verdict if row.verdict == Verdict.FITS else paint(row.verdict, WAIT if _waits(row.verdict) else BAD)


def _structured(plan_: Plan, *, diff: bool) -> JSON:
    decision = plan_.decision
    found: Manifest = {
        "namespace": plan_.ref.namespace,
        "name": plan_.ref.name,
        "placed": decision.status is Status.TRUE,
        "reason": decision.reason,
        "message": decision.message,
        "placements": [_placement(m) for m in plan_.placements],
        "candidates": [_candidate(row) for row in plan_.rows],
    }
    if diff:
        found["changes"] = [str(change) for change in plan_.changes]
    return found


def _placement(manifest: Manifest) -> JSON:
    return {
        "name": text(manifest, "metadata.name"),
        "environment": text(manifest, "spec.inferenceEnvironmentRef.name"),
        "profile": text(manifest, "spec.profile"),
        "pool": text(manifest, "spec.pool"),
        "topology": mapping(manifest, "spec.topology"),
        "replicas": get(manifest, "spec.replicas"),
    }


def _candidate(row: Row) -> JSON:
    return {
        "environment": row.environment,
        "profile": row.profile,
        "pool": row.pool,
        "replica": row.replica,
        "verdict": row.verdict,
        "wanted": row.wanted,
        "found": row.found,
        "message": row.message,
    }

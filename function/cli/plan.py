"""`plan`: shows every candidate of a deployment and the decision, and with --diff and --set what would change."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import click

from function.cli.candidates import Row, Verdict
from function.cli.inputs import KINDS, World, gather, warn_of_invalid
from function.cli.options import Code, Form, Sources, examples, form, sources_with_set
from function.cli.planning import Change, Plan, list_restarts, plan_deployments
from function.cli.store import Ref
from function.cli.tables import BAD, GOOD, WAIT, hint, paint, structured, table, wrapped
from function.kube.manifests import JSON, Manifest, get, mapping, text
from function.kube.messages import join_with_more
from function.reasons import Outlook, Refused, Status
from function.status.sentences import count


@dataclass(frozen=True, slots=True)
class Changed:
    """A deployment that is decided otherwise. None: there is none of that name."""

    ref: Ref
    before: Plan | None
    after: Plan | None

    @property
    def restarts(self) -> list[str]:
        """The services that it keeps and whose pods restart."""
        return list_restarts(self.before.services, self.after.services) if self.before and self.after else []

    @property
    def decided(self) -> bool:
        """Whether it is decided otherwise."""
        return _read_decision(self.before) != _read_decision(self.after)

    @property
    def sign(self) -> str:
        """`+` for what comes or is placed now, `-` for what goes or is not any more, `~` for the others."""
        stood, stands = (_stands(plan) for plan in (self.before, self.after))
        return "~" if stood == stands else "+" if stands else "-"


def compare_plans(before: Iterable[Plan], after: Iterable[Plan]) -> list[Changed]:
    """Return the deployments whose decision, placements or services differ, by namespace and name."""
    old, new = ({plan.ref: plan for plan in plans} for plans in (before, after))
    every = (Changed(ref, old.get(ref), new.get(ref)) for ref in sorted(old.keys() | new.keys()))
    return [changed for changed in every if changed.decided or changed.restarts]


def format_comparison(changed: list[Changed]) -> str:
    """Return a block for each deployment that changes."""
    if not changed:
        return "nothing changes"
    blocks = []
    for each in changed:
        colour = {"+": GOOD, "-": BAD, "~": WAIT}[each.sign]
        lines = [f"    {_format_decision(each.before)}", f" -> {_format_decision(each.after)}"] if each.decided else []
        lines += [f"    restarts {service}: pod template changes" for service in each.restarts]
        blocks.append("\n".join((paint(f"{each.sign} {each.ref}", colour), *lines)))
    decided, restarted = sum(each.decided for each in changed), sum(len(each.restarts) for each in changed)
    sums = [f"{count(decided, 'deployment')} of another decision"] if decided else []
    sums += [f"{count(restarted, 'service')} to restart"] if restarted else []
    return "\n".join((*blocks, "", ", ".join(sums)))


def comparison_as_data(changed: list[Changed]) -> JSON:
    """Return the same as data."""
    return [
        {
            "namespace": each.ref.namespace,
            "name": each.ref.name,
            "before": _build_decision(each.before),
            "after": _build_decision(each.after),
            "restarts": [*each.restarts],
        }
        for each in changed
    ]


def _stands(plan: Plan | None) -> bool:
    return plan is not None and plan.decision.status is Status.TRUE


def _read_decision(plan: Plan | None) -> JSON:
    """Return what is decided: the placements by environment, and where it is not placed the reason."""
    if plan is None:
        return None
    placements: list[JSON] = [placement["spec"] for placement in plan.placements]
    return [plan.decision.reason, placements]


def _format_decision(plan: Plan | None) -> str:
    return f"{plan.decision.reason}: {plan.decision.message.partition(chr(10))[0]}" if plan else "not there"


def _build_decision(plan: Plan | None) -> JSON:
    return None if plan is None else {"reason": str(plan.decision.reason), "message": plan.decision.message}


_FORMS = (Form.TABLE, Form.WIDE, Form.JSON, Form.YAML, Form.NAME, Form.SVG)


@click.command(
    epilog=examples(
        "modelplane plan -f examples/kimi-k2-two-nodes",
        "modelplane plan -f deployment.yaml --live -o wide",
        "modelplane plan -f deployment.yaml --live --diff",
        "modelplane plan -A --set us-east/h100.maxNodeCount=8",
        "modelplane plan -f examples/kimi-k2-two-nodes -o svg > plan.svg",
    )
)
@click.argument("deployments", metavar="[DEPLOYMENT]...", nargs=-1)
@sources_with_set
@click.option("--diff", is_flag=True, help="Show what would change against the placements that exist.")
@form(*_FORMS)
@click.pass_context
def plan(context: click.Context, /, deployments: tuple[str, ...], *, sources: Sources, diff: bool, form: Form) -> None:
    """Show where deployments would go, and why not elsewhere.

    Reads the files of -f, or the control plane where none is given, or both with --live. Nothing is changed.
    """
    world = gather(sources)
    warn_of_invalid(world.store, KINDS)
    asked = world.deployments(deployments)
    every = _plan_all(world) if world.before else plan_deployments(world, asked)
    plans = [p for ref in asked for p in every if p.ref == ref]
    changed = compare_plans(_plan_all(world.before), every) if world.before else None
    if diff and sources.live and sources.files:
        plans = [*_add_restarts(plans, _plan_all(gather(replace(sources, files=(), sets=()))))]
    if form is Form.SVG:
        from function.cli.pictures import draw_plans  # noqa: PLC0415  # only where a picture is wanted

        click.echo(draw_plans(plans))
    elif form in (Form.JSON, Form.YAML):
        data: list[JSON] = [_build_data(p, diff=diff) for p in plans]
        click.echo(
            structured(form, data if changed is None else {"plans": data, "changes": comparison_as_data(changed)})
        )
    elif form is Form.NAME:
        for placement in (m for p in plans for m in p.placements):
            click.echo(f"modelplacement.modelplane.ai/{text(placement, 'metadata.name')}")
    else:
        _print_plans(plans, wide=form is Form.WIDE, diff=diff)
        if changed is not None:
            click.echo(f"\n{format_comparison(changed)}")
        else:  # no other command knows what was only supposed
            hint(_choose_next(plans, sources))
    if any(p.decision.status is not Status.TRUE for p in plans):
        context.exit(Code.REFUSED)


def _plan_all(world: World) -> list[Plan]:
    return plan_deployments(world, world.store.refs("ModelDeployment"))


def _add_restarts(plans: list[Plan], live: list[Plan]) -> Iterator[Plan]:
    """Return plans whose changes name the services that restart, against those of the control plane as it is."""
    known = {p.ref: p.services for p in live}
    for p in plans:
        names = list_restarts(known.get(p.ref, {}), p.services)
        more = (Change("~", f"LLMInferenceService {name} restarts: pod template changes") for name in names)
        yield replace(p, changes=(*p.changes, *more))


def _print_plans(plans: list[Plan], *, wide: bool, diff: bool) -> None:
    for number, plan_ in enumerate(plans):
        decision = plan_.decision
        colour = GOOD if decision.status is Status.TRUE else WAIT if _waits(decision.reason) else BAD
        parts = [f"{plan_.ref}: {paint(decision.reason, colour)}\n{wrapped(decision.message, 4)}"]
        if plan_.rows:
            parts.insert(0, _build_table(plan_.rows, wide=wide))
        parts += [wrapped(f"note: {remark}", 4) for remark in plan_.remarks]
        if diff:
            parts.append("\n".join(paint(str(c), c.colour) for c in plan_.changes) or "nothing changes")
        click.echo(("\n" if number else "") + "\n\n".join(parts))
    if len(plans) > 1:
        click.echo(f"\n{_summarize(plans)}")


def _summarize(plans: list[Plan]) -> str:
    """Return how many deployments are decided how, and which of them are not placed."""
    by_reason: dict[str, list[str]] = {}
    for p in plans:
        by_reason.setdefault(str(p.decision.reason), []).append(f"{p.ref.namespace}/{p.ref.name}")
    placed = {str(p.decision.reason) for p in plans if p.decision.status is Status.TRUE}
    lines = [count(len(plans), "deployment")]
    for reason, those in sorted(by_reason.items(), key=lambda item: (item[0] not in placed, -len(item[1]), item[0])):
        which = "" if reason in placed else f": {join_with_more(those)}"
        lines.append(f"  {len(those)} {paint(reason, GOOD if reason in placed else BAD)}{which}")
    return "\n".join(lines)


def _choose_next(plans: list[Plan], sources: Sources) -> str:
    given = sources.again + (" --live" if sources.live else "")
    shown = next((p for p in plans if p.decision.status is not Status.TRUE), None)
    if shown:
        return f"why {shown.ref.name} -n {shown.ref.namespace}{given}"
    return f"render{given} --all-clusters" if given else f"tree {plans[0].ref.name} -n {plans[0].ref.namespace}"


def _waits(reason: str) -> bool:
    return reason in tuple(Refused) and Refused(reason).outlook is Outlook.NOT_NOW


def _build_table(rows: Iterable[Row], *, wide: bool) -> str:
    headers = ["ENVIRONMENT", "PROFILE", "POOL", "REPLICA", "WANTED", "FOUND", "VERDICT"]
    cells = [[r.environment, r.profile, r.pool, r.replica, r.wanted, r.found, _paint_verdict(r)] for r in rows]
    if wide:
        headers.append("WHY")
        cells = [[*cell, row.message] for cell, row in zip(cells, rows, strict=True)]
    return table(headers, cells)


def _paint_verdict(row: Row) -> str:
    if row.serves:
        return paint(row.verdict, GOOD)
    return row.verdict if row.verdict == Verdict.FITS else paint(row.verdict, WAIT if _waits(row.verdict) else BAD)


def _build_data(plan_: Plan, *, diff: bool) -> JSON:
    decision = plan_.decision
    found: Manifest = {
        "namespace": plan_.ref.namespace,
        "name": plan_.ref.name,
        "placed": decision.status is Status.TRUE,
        "reason": decision.reason,
        "message": decision.message,
        "placements": [_build_placement(m) for m in plan_.placements],
        "candidates": [_build_candidate(row) for row in plan_.rows],
        "remarks": [*plan_.remarks],
    }
    if diff:
        found["changes"] = [str(change) for change in plan_.changes]
    return found


def _build_placement(manifest: Manifest) -> JSON:
    return {
        "name": text(manifest, "metadata.name"),
        "environment": text(manifest, "spec.inferenceEnvironmentRef.name"),
        "profile": text(manifest, "spec.profile"),
        "pool": text(manifest, "spec.pool"),
        "topology": mapping(manifest, "spec.topology"),
        "replicas": get(manifest, "spec.replicas"),
    }


def _build_candidate(row: Row) -> JSON:
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
